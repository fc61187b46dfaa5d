// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/launch.hpp"

namespace ccoll::device {

namespace {

constexpr const char* kAbsent =
    "this build of ccoll has no CUDA: nvcc 12.8 or newer was not found, or Meson's option cuda is "
    "disabled";

}  // namespace

Status launch_combine(DataType /*type*/, ReduceOp /*op*/,
                      std::span<const std::byte* const> /*sources*/, std::byte* /*out*/,
                      std::uint64_t /*elems*/, std::uint32_t /*divisor*/, LaunchShape /*shape*/,
                      Stream /*stream*/, LaunchWords /*words*/,
                      std::span<const LentSource> /*lent*/) {
  return fail(ErrorKind::unsupported, "{}", kAbsent);
}

Status launch_copy(const std::byte* /*from*/, std::byte* /*to*/, std::uint64_t /*bytes*/,
                   LaunchShape /*shape*/, Stream /*stream*/, LaunchWords /*words*/) {
  return fail(ErrorKind::unsupported, "{}", kAbsent);
}

Status launch_ordered_copies(const CopyOrder* /*order*/, std::uint32_t /*number*/,
                             LaunchShape /*shape*/, Stream /*stream*/) {
  return fail(ErrorKind::unsupported, "{}", kAbsent);
}

Status load_kernels() { return fail(ErrorKind::unsupported, "{}", kAbsent); }
Status load_ordered_copies() { return fail(ErrorKind::unsupported, "{}", kAbsent); }

std::string describe_cuda() { return std::string("no: ") + kAbsent; }

}  // namespace ccoll::device

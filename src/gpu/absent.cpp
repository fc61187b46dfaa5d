// SPDX-License-Identifier: Apache-2.0
#include "gpu/device_way.hpp"
#include "gpu/registered.hpp"

namespace ccoll::device {

namespace {

tl::unexpected<Failure> absent() {
  return fail(ErrorKind::unsupported,
              "this build of ccoll has no CUDA: nvcc 12.8 or newer was not found, or Meson's "
              "option cuda is disabled");
}

}  // namespace

bool is_cuda_in_use() { return false; }
std::optional<int> device_of(const void* /*address*/) { return std::nullopt; }
std::optional<MemoryRange> allocation_of(const void* /*address*/) { return std::nullopt; }
std::uint64_t bytes_of_allocation_from(const void* /*address*/) { return UINT64_MAX; }
Result<ExportedRange> export_range(const MemoryRange& /*range*/) { return absent(); }
Result<bool> is_captured(cudaStream_t /*stream*/, int /*device*/) { return absent(); }
std::optional<int> device_of_stream(cudaStream_t /*stream*/, int /*user*/) { return std::nullopt; }
Result<std::shared_ptr<Staging>> make_staging(StagingOptions /*options*/) { return absent(); }
Result<std::string> identity_of(int /*device*/) { return absent(); }
Result<std::unique_ptr<Registered>> Registered::make(std::optional<int> /*device*/,
                                                     std::uint64_t /*bytes*/) {
  return absent();
}
Result<std::unique_ptr<Registered>> Registered::of_user(std::byte* /*data*/,
                                                        std::uint64_t /*bytes*/) {
  return absent();
}
Result<std::shared_ptr<DeviceWay>> join_team(const TeamWayOptions& /*options*/) { return absent(); }

Result<std::shared_ptr<DeviceWay>> make_group(const GroupWayOptions& /*options*/,
                                              Exchange& /*exchange*/,
                                              Exchange::TimePoint /*deadline*/) {
  return absent();
}

}  // namespace ccoll::device

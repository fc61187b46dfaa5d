// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/launch.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/device/combine.hpp"
#include "kernels/device/combine_kernel.hpp"
#include "kernels/device/cuda_words.hpp"
#include "kernels/device/ordered_copies.hpp"

namespace ccoll::device {

namespace {

const void* kernel_of(Family family) {
  switch (family) {
    case Family::bits:
      return combine_kernel_of_bits();
    case Family::integers:
      return combine_kernel_of_integers();
    case Family::floats:
      return combine_kernel_of_floats();
    case Family::small_floats:
      return combine_kernel_of_small_floats();
  }
  return nullptr;
}

Status launch(Family family, CombineArguments arguments, LaunchShape shape, Stream stream) {
  if (shape.blocks == 0 || shape.threads == 0 || shape.threads > kMostThreads) {
    return fail(ErrorKind::invalid_argument,
                "a launch of {} blocks of {} threads: expected at least one of each, and at most "
                "{} threads",
                shape.blocks, shape.threads, kMostThreads);
  }
  if (arguments.bytes == 0) return {};
  void* each[] = {&arguments};
  const cudaError_t error =
      cudaLaunchKernel(kernel_of(family), dim3(shape.blocks), dim3(shape.threads), each, 0, stream);
  if (error != cudaSuccess) {
    return fail(ErrorKind::internal, "launching a kernel on {} bytes: {}", arguments.bytes,
                words_of(error));
  }
  return {};
}

Status load(const void* kernel) {
  cudaFuncAttributes ignored = {};
  const cudaError_t error = cudaFuncGetAttributes(&ignored, kernel);
  if (error == cudaSuccess) return {};
  return fail(ErrorKind::unsupported, "loading kernels: {}", words_of(error));
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string gpus_text(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties = {};
    const cudaError_t error = cudaGetDeviceProperties(&properties, i);
    text += i == 0 ? "" : ", ";
    text += error != cudaSuccess
                ? fmt::format("GPU {}: {}", i, words_of(error))
                : fmt::format("{} (sm_{}{})", properties.name, properties.major, properties.minor);
  }
  return text;
}

}  // namespace

Status launch_combine(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
                      std::byte* out, std::uint64_t elems, std::uint32_t divisor, LaunchShape shape,
                      Stream stream, LaunchWords words, std::span<const LentSource> lent) {
  if (!is_defined(op, type)) {
    return fail(ErrorKind::unsupported, "{} is not defined on {}", to_string(op), to_string(type));
  }
  if (sources.empty() || sources.size() > kMostSources) {
    return fail(ErrorKind::invalid_argument, "{} sources: expected 1 to {}", sources.size(),
                kMostSources);
  }
  CombineArguments arguments;
  std::copy(sources.begin(), sources.end(), arguments.sources);
  std::copy(lent.begin(), lent.end(), arguments.lent);
  arguments.source_count = static_cast<std::uint32_t>(sources.size());
  arguments.out = out;
  arguments.bytes = elems * size_of(type);
  arguments.divisor = divisor;
  arguments.type = type;
  arguments.op = op;
  arguments.words = words;
  return launch(family_of(type, op), arguments, shape, stream);
}

Status launch_copy(const std::byte* from, std::byte* to, std::uint64_t bytes, LaunchShape shape,
                   Stream stream, LaunchWords words) {
  CombineArguments arguments;
  arguments.sources[0] = from;
  arguments.source_count = 1;
  arguments.out = to;
  arguments.bytes = bytes;
  // One source of bits is copied.
  arguments.op = ReduceOp::bit_or;
  arguments.words = words;
  return launch(Family::bits, arguments, shape, stream);
}

Status launch_ordered_copies(const CopyOrder* order, std::uint32_t number, LaunchShape shape,
                             Stream stream) {
  void* each[] = {&order, &number};
  const cudaError_t error = cudaLaunchKernel(ordered_copies_kernel(), dim3(shape.blocks),
                                             dim3(shape.threads), each, 0, stream);
  if (error == cudaSuccess) return {};
  return fail(ErrorKind::internal, "launching a kernel for copies: {}", words_of(error));
}

Status load_kernels() {
  for (const Family family :
       {Family::bits, Family::integers, Family::floats, Family::small_floats}) {
    CCOLL_TRY(load(kernel_of(family)));
  }
  return {};
}

Status load_ordered_copies() { return load(ordered_copies_kernel()); }

std::string describe_cuda() {
  int runtime = 0;
  int driver = 0;
  int count = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  const std::string made = fmt::format("CUDA runtime {}", version_text(runtime));
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return fmt::format("no: {}{}: {}", made,
                       driver == 0 ? "" : ", driver for " + version_text(driver), words_of(error));
  }
  return fmt::format("yes: {}, driver for {}: {}", made, version_text(driver), gpus_text(count));
}

}  // namespace ccoll::device

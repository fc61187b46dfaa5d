// SPDX-License-Identifier: Apache-2.0
#include "adversary_kernels.hpp"

#include <array>
#include <utility>

namespace ccoll::gpu_check {
namespace {

template <std::uint32_t number>
__global__ void add_number(std::uint32_t* words, std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[i] += number + 1;
}

template <std::uint32_t... numbers>
std::array<const void*, sizeof...(numbers)> all(
    std::integer_sequence<std::uint32_t, numbers...> /*all*/) {
  return {reinterpret_cast<const void*>(&add_number<numbers>)...};
}

}  // namespace

const void* fresh_kernel(std::uint32_t number) {
  static const auto kernels = all(std::make_integer_sequence<std::uint32_t, kFreshKernels>());
  return kernels[number];
}

}  // namespace ccoll::gpu_check

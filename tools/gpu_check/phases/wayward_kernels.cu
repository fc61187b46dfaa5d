// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/phases/wayward_kernels.hpp"

#include <array>
#include <utility>

#include "kernels/device/layer.hpp"

namespace ccoll::gpu_check {
namespace {

template <std::uint32_t number>
__global__ void add_number(std::uint32_t* words, std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[i] += number + 1;
}

__global__ void read_out_of_bounds(std::uint32_t* words, std::uint32_t count) {
  words[threadIdx.x] = words[count + threadIdx.x];
}

__global__ void pass_barrier_by(std::uint32_t* words, std::uint32_t count) {
  __shared__ std::uint32_t seen;
  if (threadIdx.x == 1) seen = count;
  if (threadIdx.x % 3 != 0) __syncthreads();
  words[threadIdx.x] = seen;
}

__global__ void __launch_bounds__(1024) occupy(const std::uint32_t* go, std::uint64_t most_ns) {
  std::uint64_t begin = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (device::load_relaxed(go) == 0 && now - begin < most_ns);
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

const void* kernel_out_of_bounds() { return reinterpret_cast<const void*>(&read_out_of_bounds); }

const void* occupying_kernel() { return reinterpret_cast<const void*>(&occupy); }

const void* kernel_beside_barrier() { return reinterpret_cast<const void*>(&pass_barrier_by); }

}  // namespace ccoll::gpu_check

// SPDX-License-Identifier: Apache-2.0
// For builds without CUDA.
#include "faces/nccl/device/device.hpp"
#include "faces/nccl/results.hpp"

namespace ccoll::nccl::device {
namespace {

[[noreturn]] void refuse_for_want_of_cuda() {
  refuse(ncclUnhandledCudaError,
         "this libnccl.so.2 was built without CUDA: set CCOLL_NCCL_HOST=1 for communicators over "
         "memory of the host, or build ccoll with CUDA");
}

}  // namespace

int current() { refuse_for_want_of_cuda(); }
int count() { refuse_for_want_of_cuda(); }

struct Current::State {};
Current::Current(int /*device*/) {}
Current::~Current() = default;

struct Order::State {};
Order::Order() = default;
Order::~Order() = default;
void Order::before(std::span<const cudaStream_t> /*streams*/) {}
void Order::after(std::span<const cudaStream_t> /*streams*/) {}
bool Order::is_busy() { return false; }
void Order::wait(const std::function<bool()>& /*is_over*/) {}

void* allocate(std::size_t /*bytes*/) { refuse_for_want_of_cuda(); }
void release(void* /*memory*/) { refuse_for_want_of_cuda(); }

}  // namespace ccoll::nccl::device

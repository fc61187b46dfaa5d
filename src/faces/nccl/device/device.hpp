// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The face's own questions to CUDA: which device a thread has, and the order of one communicator's
/// calls over several streams. Host mode asks nothing, and a build without CUDA cannot ask.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "faces/nccl/abi.hpp"

namespace ccoll::nccl::device {

/// The calling thread's device. Throws Refusal if there is no driver or no GPU.
int current();
/// The number of GPUs in this process.
int count();

/// Makes this the calling thread's current device until the end of a scope; below 0: no change.
class Current {
 public:
  explicit Current(int device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// NCCL orders the calls of a communicator as they are made, whatever their streams; ccoll leaves
/// that to its callers. For one thread at a time, except is_busy and wait.
class Order {
 public:
  Order();
  ~Order();
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  /// Must come before calls in these streams: they wait for the last call, and for earlier work in
  /// any of these streams. Refuses streams that are not captured alike.
  void before(std::span<const cudaStream_t> streams);
  /// Must come after those calls: each of the streams waits for the calls in all of them.
  void after(std::span<const cudaStream_t> streams);
  /// Whether the last call is still in its stream.
  bool is_busy();
  /// Waits for it, at most until `is_over`, which is asked now and then.
  void wait(const std::function<bool()>& is_over);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Memory of the current device; release() also takes memory of cudaMalloc.
void* allocate(std::size_t bytes);
void release(void* memory);

}  // namespace ccoll::nccl::device

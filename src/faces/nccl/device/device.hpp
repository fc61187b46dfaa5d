// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The face's own questions to CUDA: which device a thread has, and the order of one
/// communicator's calls over several streams. In host mode nothing is asked, and a build without
/// CUDA has nothing to ask.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "faces/nccl/abi.hpp"

namespace ccoll::nccl::device {

/// The calling thread's. Throws Refusal where there is no driver or no GPU.
int current();
/// How many there are, in this process.
int count();

/// The calling thread's current device is this one until the end of a scope; below 0: as it is.
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

/// NCCL orders the calls of a communicator as they are made, whatever streams they are in; ccoll
/// leaves that to its callers. By one thread at a time, but for is_busy and wait.
class Order {
 public:
  Order();
  ~Order();
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  /// Calls in these streams come next: they wait for the last call, and for what is in any of these
  /// streams already. Refuses streams that are not captured alike.
  void before(std::span<const cudaStream_t> streams);
  /// They have come: each of the streams waits for the calls in all of them.
  void after(std::span<const cudaStream_t> streams);
  /// Whether the last call is still in its stream.
  bool is_busy();
  /// Waits for it, at most until `is_over`, which is asked now and then.
  void wait(const std::function<bool()>& is_over);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Memory of the current device, and its end; also the end of cudaMalloc's.
void* allocate(std::size_t bytes);
void release(void* memory);

}  // namespace ccoll::nccl::device

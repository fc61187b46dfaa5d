// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the face itself asks of CUDA: which device a thread has, and the order of one
/// communicator's calls over several streams. In host mode, and in builds without CUDA, nothing is
/// asked.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "faces/nccl/abi.hpp"

namespace ccoll::nccl::device {

/// The calling thread's. Throws Refusal where there is no driver or no GPU.
int current();
/// How many there are, in this process.
int count();

/// The calling thread's current device is this one until the end of a scope; none: as it is.
class Current {
 public:
  explicit Current(int device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  std::optional<int> before_;
};

/// NCCL orders the calls of a communicator as they are made, whatever streams they are in; ccoll
/// leaves that to its callers.
class Order {
 public:
  Order();
  ~Order();
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  /// Has `stream` wait for the last call where that was in another stream.
  void before_call(cudaStream_t stream);
  void after_call(cudaStream_t stream);
  /// Whether the last call is still in its stream.
  bool is_busy();
  /// Waits for it, at most until `is_over`, which is asked now and then.
  void wait(const std::function<bool()>& is_over);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Memory of the current device of cudaMalloc or ncclMemAlloc, and its end.
void* allocate(std::size_t bytes);
void release(void* memory);

/// Whether `data` is memory that a device can read. Throws Refusal where not.
void check_pointer(const void* data, const char* name);

}  // namespace ccoll::nccl::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A stream that stands where a test wants it, of a device that the host plays.

#include <cuda_runtime_api.h>

#include <atomic>

#include "support/gpu/device_buffer.hpp"

namespace ccoll::testing {

class HeldByHost {
 public:
  explicit HeldByHost(cudaStream_t stream) : stream_(stream) {
    const auto hold = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->wait(false); };
    check_cuda(cudaLaunchHostFunc(stream, hold, &goes_on_), "holding a stream");
  }
  HeldByHost(const HeldByHost&) = delete;
  HeldByHost& operator=(const HeldByHost&) = delete;
  ~HeldByHost() { go_on(); }

  /// Returns when the stream has passed all that is in it.
  void go_on() {
    goes_on_ = true;
    goes_on_.notify_all();
    cudaStreamSynchronize(stream_);
  }

 private:
  cudaStream_t stream_;
  std::atomic<bool> goes_on_ = false;
};

}  // namespace ccoll::testing

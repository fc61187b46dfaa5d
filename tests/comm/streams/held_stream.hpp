// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A stream that stands where a test wants it.

#include <atomic>
#include <cstdint>

#include "devices.hpp"
#include "gpu/cuda/driver.hpp"

namespace ccoll::testing {

/// Blocks one stream until it is released, as if behind the caller's work, and nothing else.
class HeldStream {
 public:
  explicit HeldStream(cudaStream_t stream) {
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, sizeof *word_, cudaHostAllocMapped), "memory for a word");
    word_ = static_cast<std::uint32_t*>(memory);
    *word_ = 0;
    const auto put =
        (*device::find_driver())
            ->wait_value(stream, reinterpret_cast<CUdeviceptr>(word_), 1, CU_STREAM_WAIT_VALUE_GEQ);
    expect(put == CUDA_SUCCESS, "a wait for a word");
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  ~HeldStream() { go_on(); }  // the word stays: the stream may yet read it

  void go_on() { std::atomic_ref(*word_).store(1); }

 private:
  std::uint32_t* word_ = nullptr;
};

}  // namespace ccoll::testing

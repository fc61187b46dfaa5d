// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The means to try something out on a GPU before anything relies on it: a stream, some memory, and
/// waits with a limit. Needs CUDA's headers: only sources include this.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/cuda/cuda.hpp"

namespace ccoll::device {

/// Bytes of a pattern that GPUs read.
inline constexpr std::size_t kTrialBytes = 4096;

/// Each number, of any 32 bits, has a different one.
inline std::vector<std::byte> trial_pattern(std::uint32_t number) {
  constexpr std::uint32_t kOdd = 0x9E3779B1;
  std::vector<std::byte> pattern(kTrialBytes);
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    pattern[i] = static_cast<std::byte>(i * 7 + i / 256 + ((number + 1) * kOdd >> 8 * (i % 4)));
  }
  return pattern;
}

/// Works on the device that is current when it is made, which must be current in all calls. If it
/// hangs there, the caller must neither touch nor free it.
class Trial {
 public:
  using Clock = std::chrono::steady_clock;

  /// Has memory for so many patterns.
  static Result<std::unique_ptr<Trial>> make(std::size_t patterns) {
    auto made = std::make_unique<Trial>();
    CCOLL_TRY(put(make_stream(), made->stream_));
    CCOLL_TRY(put(make_event(), made->event_));
    CCOLL_TRY(put(allocate_on_device(patterns * kTrialBytes), made->memory_));
    return made;
  }

  cudaStream_t stream() const { return stream_.get(); }
  std::byte* memory() const { return memory_.get(); }

  Status mark() {
    return cuda_status(cudaEventRecord(event_.get(), stream_.get()), "recording an event");
  }
  Result<bool> has_ended() const {
    const cudaError_t error = cudaEventQuery(event_.get());
    if (error == cudaErrorNotReady) return (void)cudaGetLastError(), false;
    CCOLL_TRY(cuda_status(error, "trying out what GPUs share"));
    return true;
  }
  /// Waits until `limit` for what was marked.
  Status wait(Clock::time_point limit, std::string_view what) const {
    for (;;) {
      const auto ended = has_ended();
      CCOLL_TRY(ended);
      if (*ended) return {};
      if (Clock::now() >= limit) return fail(ErrorKind::timed_out, "{} did not end in time", what);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  /// Writes the pattern with that number to `there`.
  Status write(std::uint32_t number, std::byte* there, Clock::time_point limit) {
    const auto pattern = trial_pattern(number);
    CCOLL_TRY(cuda_status(
        cudaMemcpyAsync(there, pattern.data(), kTrialBytes, cudaMemcpyHostToDevice, stream()),
        "writing a pattern"));
    CCOLL_TRY(mark());
    return wait(limit, "writing a pattern");
  }
  /// Compares so many patterns, from number `first` on, with the memory there. Returns the first
  /// that is wrong, counted from 0; empty if none is.
  Result<std::optional<std::uint32_t>> find_wrong(const std::byte* there, std::uint32_t first,
                                                  std::uint32_t patterns, Clock::time_point limit) {
    std::vector<std::byte> here(patterns * kTrialBytes);
    constexpr const char* kWhat = "reading patterns";
    CCOLL_TRY(cuda_status(
        cudaMemcpyAsync(here.data(), there, here.size(), cudaMemcpyDeviceToHost, stream()), kWhat));
    CCOLL_TRY(mark());
    CCOLL_TRY(wait(limit, kWhat));
    for (std::uint32_t i = 0; i < patterns; ++i) {
      const auto expected = trial_pattern(first + i);
      if (!std::equal(expected.begin(), expected.end(), here.data() + i * kTrialBytes)) return i;
    }
    return std::nullopt;
  }

 private:
  OwnStream stream_;
  OwnEvent event_;
  DeviceMemory memory_;
};

}  // namespace ccoll::device

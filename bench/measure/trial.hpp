// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's buffers for one row of the table, and the check of their content after a call. A GPU
/// fills and checks buffers in its memory.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/measure/data.hpp"
#include "bench/measure/gpu.hpp"
#include "bench/measure/operations.hpp"
#include "ccoll/memory.hpp"

namespace ccoll::bench {

/// Memory that begins at a page, with a known pattern before and behind it that reveals writes past
/// either end.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  /// Throws Error{exhausted} with the size if memory is short. `gpu`: the buffer is in its memory,
  /// unless null.
  GuardedBuffer(std::uint64_t bytes, bool registered, Gpu* gpu);
  /// Never null, so that an operation can get an empty buffer.
  std::byte* data() const { return begin_ + kPage; }
  bool guards_intact() const;

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kGuardBytes = 256;

  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> ordinary_;
  Memory registered_;
  Gpu::Memory of_gpu_;
  std::byte* begin_ = nullptr;  ///< the beginning of that memory
  std::uint64_t bytes_ = 0;
  Gpu* gpu_ = nullptr;
};

/// The same buffers serve every call of a row.
class Trial {
 public:
  /// `patterns` and `gpu`, which may be null, must outlive the trial.
  Trial(const Operation& operation, const Shape& shape, bool in_place, bool registered,
        Patterns& patterns, Gpu* gpu = nullptr);

  /// Fills the input with this rank's contribution and every byte of the output with a wrong value,
  /// so that unwritten elements are detected.
  void arm();
  /// Rewrites this rank's contribution, so that it is in the caches like a program's fresh result.
  void renew();
  /// How many elements are wrong after any number of calls (out of place) or after one (in place)
  /// since `arm`: wrong results, and changed inputs or untouchable outputs. Damage beyond a
  /// buffer's ends counts as one.
  std::uint64_t count_wrong_elems();

  const void* input() const;
  void* output() const;
  /// True if input and output share a buffer, so that a repeated call uses its own last result.
  bool is_shared() const { return shared_; }

 private:
  std::span<const std::byte> pattern_of(const Segment& segment);
  std::byte* input_data() const { return buffers_[0].data() + (shared_ ? input_at_ : 0); }
  std::byte* output_data() const { return buffers_[shared_ ? 0 : 1].data() + output_at_; }
  std::uint64_t wrong_results();
  std::uint64_t wrong_inputs();
  std::uint64_t touched_outputs();

  Layout layout_;
  int rank_;
  std::size_t elem_bytes_;
  bool shared_;                  ///< input and output lie in buffers_[0]
  std::uint64_t input_at_ = 0;   ///< in bytes
  std::uint64_t output_at_ = 0;  ///< in bytes
  Patterns& patterns_;
  Gpu* const gpu_;
  GuardedBuffer buffers_[2];
};

}  // namespace ccoll::bench

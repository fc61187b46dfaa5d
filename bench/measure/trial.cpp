// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

namespace ccoll::bench {

namespace {

/// Patterns of one byte.
const std::vector<std::byte> kGuard(kPeriod, std::byte{0xa5});
const std::vector<std::byte> kUntouched(kPeriod, std::byte{0x5a});

std::vector<std::byte> complement(std::span<const std::byte> period) {
  std::vector<std::byte> other(period.size());
  std::ranges::transform(period, other.begin(), [](std::byte b) { return ~b; });
  return other;
}

// The GPU does it for its own memory, and the host otherwise.

void fill(Gpu* gpu, std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
          std::span<const std::byte> period, std::uint64_t first = 0) {
  if (gpu == nullptr) return bench::fill(data, elems, elem_bytes, period, first);
  gpu->fill(data, elems, elem_bytes, period, first);
}

std::uint64_t count_wrong(Gpu* gpu, std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
                          std::span<const std::byte> period, std::uint64_t first = 0) {
  if (gpu == nullptr) return bench::count_wrong(data, elems, elem_bytes, period, first);
  return gpu->count_wrong(data, elems, elem_bytes, period, first);
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::uint64_t bytes, bool registered, Gpu* gpu)
    : bytes_(bytes), gpu_(gpu) {
  const std::uint64_t pages = bytes / kPage + 3;
  const bool possible = bytes < (std::uint64_t{1} << 60);
  if (possible && gpu != nullptr) {
    of_gpu_ = gpu->allocate(pages * kPage);
    begin_ = of_gpu_.get();
  } else if (possible && registered) {
    registered_ = allocate(pages * kPage);
    begin_ = registered_.data();
  } else if (possible) {
    ordinary_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, pages * kPage)));
    begin_ = ordinary_.get();
  }
  if (begin_ == nullptr) {
    throw Error(ErrorKind::exhausted,
                fmt::format("no memory for a buffer of {} bytes: give a smaller -e", bytes));
  }
  for (std::byte* guard : {data() - kGuardBytes, data() + bytes})
    fill(gpu, guard, kGuardBytes, 1, kGuard);
}

void GuardedBuffer::Free::operator()(std::byte* memory) const { std::free(memory); }

bool GuardedBuffer::guards_intact() const {
  if (begin_ == nullptr) return true;
  return count_wrong(gpu_, data() - kGuardBytes, kGuardBytes, 1, kGuard) +
             count_wrong(gpu_, data() + bytes_, kGuardBytes, 1, kGuard) ==
         0;
}

Trial::Trial(const Operation& operation, const Shape& shape, bool in_place, bool registered,
             Patterns& patterns, Gpu* gpu)
    : layout_(operation.layout(shape)),
      rank_(shape.rank),
      elem_bytes_(size_of(patterns.recipe().type)),
      shared_(in_place && layout_.shares),
      patterns_(patterns),
      gpu_(gpu) {
  const std::uint64_t input_bytes = layout_.input_elems * elem_bytes_;
  const std::uint64_t output_bytes = layout_.output_elems * elem_bytes_;
  if (shared_) {
    input_at_ = layout_.input_at * elem_bytes_;
    output_at_ = layout_.output_at * elem_bytes_;
    buffers_[0] = GuardedBuffer(std::max(input_bytes, output_bytes), registered, gpu);
  } else {
    buffers_[0] = GuardedBuffer(input_bytes, registered, gpu);
    buffers_[1] = GuardedBuffer(output_bytes, registered, gpu);
  }
}

const void* Trial::input() const { return input_data(); }
void* Trial::output() const { return output_data(); }

std::span<const std::byte> Trial::pattern_of(const Segment& segment) {
  return segment.source == Segment::kReduced ? patterns_.reduced()
                                             : patterns_.input(segment.source);
}

void Trial::arm() {
  std::byte* to = output_data();
  for (const Segment& segment : layout_.result) {
    fill(gpu_, to, segment.elems, elem_bytes_, complement(pattern_of(segment)), segment.first);
    to += segment.elems * elem_bytes_;
  }
  if (layout_.result.empty())
    fill(gpu_, output_data(), layout_.output_elems * elem_bytes_, 1, kUntouched);
  if (layout_.input_elems > 0)
    fill(gpu_, input_data(), layout_.input_elems, elem_bytes_, patterns_.input(rank_));
}

void Trial::renew() {
  constexpr std::uint64_t kLine = 64;
  auto* const input = reinterpret_cast<volatile std::byte*>(input_data());
  for (std::uint64_t i = 0; i < layout_.input_elems * elem_bytes_; i += kLine) input[i] = input[i];
}

std::uint64_t Trial::count_wrong_elems() {
  std::uint64_t wrong = wrong_results() + wrong_inputs() + touched_outputs();
  for (const GuardedBuffer& buffer : buffers_) wrong += buffer.guards_intact() ? 0 : 1;
  return wrong;
}

std::uint64_t Trial::wrong_results() {
  std::uint64_t wrong = 0;
  std::byte* from = output_data();
  for (const Segment& segment : layout_.result) {
    wrong +=
        count_wrong(gpu_, from, segment.elems, elem_bytes_, pattern_of(segment), segment.first);
    from += segment.elems * elem_bytes_;
  }
  return wrong;
}

std::uint64_t Trial::wrong_inputs() {
  if (layout_.input_elems == 0) return 0;
  const auto changed = [&](std::uint64_t first, std::uint64_t end) {
    return first >= end ? 0
                        : count_wrong(gpu_, input_data() + first * elem_bytes_, end - first,
                                      elem_bytes_, patterns_.input(rank_), first);
  };
  if (!shared_) return changed(0, layout_.input_elems);
  // The part under the output holds the result; the rest still holds input.
  const std::uint64_t output_end = layout_.output_at + layout_.output_elems;
  const std::uint64_t input_end = layout_.input_at + layout_.input_elems;
  return changed(0,
                 layout_.output_at > layout_.input_at ? layout_.output_at - layout_.input_at : 0) +
         changed(output_end > layout_.input_at ? output_end - layout_.input_at : 0,
                 input_end - layout_.input_at);
}

std::uint64_t Trial::touched_outputs() {
  if (!layout_.result.empty()) return 0;
  return count_wrong(gpu_, output_data(), layout_.output_elems * elem_bytes_, 1, kUntouched);
}

}  // namespace ccoll::bench

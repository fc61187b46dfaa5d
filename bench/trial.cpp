// SPDX-License-Identifier: Apache-2.0
#include "trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ccoll::bench {

namespace {

constexpr std::byte kGuard{0xa5};
constexpr std::byte kUntouched{0x5a};

bool all_are(const std::byte* data, std::size_t bytes, std::byte value) {
  return std::all_of(data, data + bytes, [&](std::byte b) { return b == value; });
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::uint64_t bytes, bool registered, Gpu* gpu) : bytes_(bytes) {
  const std::uint64_t pages = bytes / kPage + 3;
  const bool possible = bytes < (std::uint64_t{1} << 60);
  if (possible && registered) {
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
  std::memset(data() - kGuardBytes, int(kGuard), kGuardBytes);
  std::memset(data() + bytes, int(kGuard), kGuardBytes);
  if (gpu != nullptr) there_ = gpu->allocate(pages * kPage);
}

void GuardedBuffer::copy_there(Gpu& gpu) const {
  if (there_)
    gpu.copy_there(address() - kGuardBytes, data() - kGuardBytes, bytes_ + 2 * kGuardBytes);
}

void GuardedBuffer::copy_here(Gpu& gpu) const {
  if (there_)
    gpu.copy_here(data() - kGuardBytes, address() - kGuardBytes, bytes_ + 2 * kGuardBytes);
}

void GuardedBuffer::Free::operator()(std::byte* memory) const { std::free(memory); }

bool GuardedBuffer::guards_intact() const {
  return begin_ == nullptr || (all_are(data() - kGuardBytes, kGuardBytes, kGuard) &&
                               all_are(data() + bytes_, kGuardBytes, kGuard));
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

const void* Trial::input() const { return buffers_[0].address() + (shared_ ? input_at_ : 0); }
void* Trial::output() const { return buffers_[shared_ ? 0 : 1].address() + output_at_; }

std::span<const std::byte> Trial::pattern_of(const Segment& segment) {
  return segment.source == Segment::kReduced ? patterns_.reduced()
                                             : patterns_.input(segment.source);
}

void Trial::arm() {
  std::byte* to = output_data();
  const std::uint64_t output_bytes = layout_.output_elems * elem_bytes_;
  for (const Segment& segment : layout_.result) {
    fill(to, segment.elems, elem_bytes_, pattern_of(segment), segment.first);
    to += segment.elems * elem_bytes_;
  }
  if (layout_.result.empty()) {
    std::memset(output_data(), int(kUntouched), output_bytes);
  } else {
    std::transform(output_data(), to, output_data(), [](std::byte b) { return ~b; });
  }
  if (layout_.input_elems > 0) {
    fill(input_data(), layout_.input_elems, elem_bytes_, patterns_.input(rank_), 0);
  }
  if (gpu_ == nullptr) return;
  for (const GuardedBuffer& buffer : buffers_) buffer.copy_there(*gpu_);
}

void Trial::renew() {
  constexpr std::uint64_t kLine = 64;
  auto* const input = reinterpret_cast<volatile std::byte*>(input_data());
  for (std::uint64_t i = 0; i < layout_.input_elems * elem_bytes_; i += kLine) input[i] = input[i];
}

std::uint64_t Trial::count_wrong_elems() {
  if (gpu_ != nullptr) {
    for (const GuardedBuffer& buffer : buffers_) buffer.copy_here(*gpu_);
  }
  std::uint64_t wrong = wrong_results() + wrong_inputs() + touched_outputs();
  for (const GuardedBuffer& buffer : buffers_) wrong += buffer.guards_intact() ? 0 : 1;
  return wrong;
}

std::uint64_t Trial::wrong_results() {
  std::uint64_t wrong = 0;
  const std::byte* from = output_data();
  for (const Segment& segment : layout_.result) {
    wrong += count_wrong(from, segment.elems, elem_bytes_, pattern_of(segment), segment.first);
    from += segment.elems * elem_bytes_;
  }
  return wrong;
}

std::uint64_t Trial::wrong_inputs() {
  if (layout_.input_elems == 0) return 0;
  const auto changed = [&](std::uint64_t first, std::uint64_t end) {
    return first >= end ? 0
                        : count_wrong(input_data() + first * elem_bytes_, end - first, elem_bytes_,
                                      patterns_.input(rank_), first);
  };
  if (!shared_) return changed(0, layout_.input_elems);
  // The part that the output covers is the result's; the rest is input still.
  const std::uint64_t output_end = layout_.output_at + layout_.output_elems;
  const std::uint64_t input_end = layout_.input_at + layout_.input_elems;
  return changed(0,
                 layout_.output_at > layout_.input_at ? layout_.output_at - layout_.input_at : 0) +
         changed(output_end > layout_.input_at ? output_end - layout_.input_at : 0,
                 input_end - layout_.input_at);
}

std::uint64_t Trial::touched_outputs() const {
  if (!layout_.result.empty()) return 0;
  const std::byte* data = output_data();
  return static_cast<std::uint64_t>(std::count_if(data, data + layout_.output_elems * elem_bytes_,
                                                  [](std::byte b) { return b != kUntouched; }));
}

}  // namespace ccoll::bench

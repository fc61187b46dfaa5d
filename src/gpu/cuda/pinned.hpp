// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Host memory that the device copies from and to by itself: how calls in streams share it, and
/// where in it their buffers lie. Needs CUDA's headers: only sources include this.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ccoll/memory.hpp"
#include "gpu/cuda/cuda.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

/// Memory of the host that the device copies from and to by itself.
class PinnedMemory {
 public:
  static Result<std::unique_ptr<PinnedMemory>> make(
      const std::function<Memory(std::size_t)>& allocate, std::uint64_t bytes) {
    auto memory = caught([&]() -> Result<Memory> { return allocate(bytes); });
    if (!memory) return tl::unexpected(std::move(memory.error()));
    std::unique_ptr<PinnedMemory> made(new PinnedMemory(std::move(*memory)));
    CCOLL_TRY(cuda_status(
        cudaHostRegister(made->data(), bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
        fmt::format("registering {} bytes of the host with CUDA", bytes)));
    made->is_registered_ = true;
    CCOLL_TRY(put(device::on_device(made->data()), made->there_));
    return made;
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    if (is_registered_) cudaHostUnregister(memory_.data());
  }

  std::byte* data() const { return memory_.data(); }
  /// Where devices see it: CUDA gives that address for its beginning.
  std::byte* on_device() const { return there_; }
  std::uint64_t bytes() const { return memory_.size_bytes(); }

 private:
  explicit PinnedMemory(Memory memory) : memory_(std::move(memory)) {}

  Memory memory_;
  bool is_registered_ = false;
  std::byte* there_ = nullptr;
};

/// Two words that a stream waits for: `room`, which the host writes once for a call, and `go`, the
/// number of the call's parts that are over.
struct Words {
  std::uint32_t room;
  std::uint32_t go;
};
/// As `go`: all parts, however many there are. A stream compares cyclically.
inline constexpr std::uint32_t kAllParts = INT32_MAX;

/// Pieces of a ring in the order in which they were taken. Pieces that reuse memory get their room
/// in the same order.
class Ring {
 public:
  explicit Ring(std::uint64_t bytes) : bytes_(bytes) {}

  struct Taken {
    std::uint64_t number;
    std::uint64_t offset;
    bool has_room;
  };
  /// `words`: they learn when there is room, if there is none yet.
  Taken take(std::uint64_t bytes, Words* words) {
    const std::uint64_t begin = end_ + bytes > bytes_ ? 0 : end_;
    pieces_.push_back({begin, begin + bytes, words, false, false});
    const bool has_room = first_waiting() == pieces_.size() - 1 && is_free(pieces_.size() - 1);
    end_ = begin + bytes;
    pieces_.back().has_room = has_room;
    return {first_ + pieces_.size() - 1, begin, has_room};
  }

  /// Tells those that have room from now on.
  void give_back(std::uint64_t number) {
    pieces_[number - first_].is_over = true;
    while (!pieces_.empty() && pieces_.front().is_over) {
      pieces_.pop_front();
      ++first_;
    }
    for (std::size_t i = first_waiting(); i < pieces_.size() && is_free(i); i = first_waiting()) {
      pieces_[i].has_room = true;
      // Once a piece is over, its words may belong to another one already.
      if (pieces_[i].is_over) continue;
      std::atomic_ref(pieces_[i].words->room).store(1, std::memory_order_release);
    }
  }

 private:
  struct Turn {
    std::uint64_t begin;
    std::uint64_t end;
    Words* words;
    bool has_room;
    bool is_over;
  };

  std::size_t first_waiting() const {
    const auto waits = [](const Turn& piece) { return !piece.has_room; };
    return static_cast<std::size_t>(std::ranges::find_if(pieces_, waits) - pieces_.begin());
  }
  bool is_free(std::size_t index) const {
    const Turn& piece = pieces_[index];
    return std::none_of(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(index),
                        [&](const Turn& other) {
                          return !other.is_over && other.begin < piece.end &&
                                 piece.begin < other.end;
                        });
  }

  const std::uint64_t bytes_;
  std::deque<Turn> pieces_;
  std::uint64_t first_ = 0;  ///< number of the first piece
  std::uint64_t end_ = 0;    ///< of the last piece
};

/// Where the ranges of a call lie in host memory. Ranges that overlap lie together; the others
/// follow one another.
class Placement {
 public:
  explicit Placement(const Copied& copied)
      : reads_(merged(copied.reads, {})), writes_(merged(copied.writes, {})) {
    for (const MemoryRange& range : merged(copied.reads, copied.writes))
      placed_.push_back({range, nullptr});
  }

  /// The given ranges by address, with overlapping ones as one.
  std::span<const MemoryRange> reads() const { return reads_; }
  std::span<const MemoryRange> writes() const { return writes_; }
  /// The host memory of all ranges.
  std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const Placed& each : placed_) bytes += staged_bytes(each.range.bytes);
    return bytes;
  }
  /// Must be called once; `host` has bytes().
  void put(std::byte* host) {
    for (Placed& each : placed_) {
      each.host = host;
      host += staged_bytes(each.range.bytes);
    }
  }
  /// Where the host has a place in one of the ranges; null if it is in none.
  std::byte* find(const void* place) const {
    const auto* const at = static_cast<const std::byte*>(place);
    const auto behind = std::ranges::upper_bound(
        placed_, at, {}, [](const Placed& each) -> const std::byte* { return each.range.data; });
    if (behind == placed_.begin()) return nullptr;
    const Placed& found = *std::prev(behind);
    return at < found.range.data + found.range.bytes ? found.host + (at - found.range.data)
                                                     : nullptr;
  }

 private:
  struct Placed {
    MemoryRange range;
    std::byte* host;
  };
  static std::vector<MemoryRange> merged(std::span<const MemoryRange> some,
                                         std::span<const MemoryRange> more) {
    std::vector<MemoryRange> ranges(some.begin(), some.end());
    ranges.insert(ranges.end(), more.begin(), more.end());
    std::erase_if(ranges, [](const MemoryRange& range) { return range.bytes == 0; });
    std::ranges::sort(ranges, {}, &MemoryRange::data);
    std::vector<MemoryRange> merged;
    for (const MemoryRange& range : ranges) {
      if (!merged.empty() && range.data < merged.back().data + merged.back().bytes) {
        MemoryRange& last = merged.back();
        last.bytes = std::max<std::uint64_t>(
            last.bytes, static_cast<std::uint64_t>(range.data - last.data) + range.bytes);
      } else {
        merged.push_back(range);
      }
    }
    return merged;
  }

  std::vector<MemoryRange> reads_, writes_;
  std::vector<Placed> placed_;  ///< by address
};

}  // namespace ccoll::device

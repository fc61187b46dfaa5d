// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The resources of a communicator's calls in streams while they are under way, whichever way they
/// take: host memory, words, events, streams. All is kept for the next call, and for the next
/// communicator. Needs CUDA's headers: only sources include this.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/cuda/driver.hpp"
#include "gpu/cuda/pinned.hpp"
#include "gpu/program/blocks.hpp"
#include "gpu/staging.hpp"
#include "gpu/staging/pieces.hpp"
#include "system/locks.hpp"

namespace ccoll::device {

/// The resources of one stream operation.
struct Lease {
  std::byte* data = nullptr;
  std::byte* data_on_device = nullptr;
  Words* words = nullptr;
  std::uint64_t words_on_device = 0;
  std::optional<std::uint64_t> piece;      ///< its number in the ring
  bool must_wait_for_room = false;         ///< for room in the ring
  std::optional<std::uint64_t> block;      ///< where it begins, among those for messages
  std::unique_ptr<PinnedMemory> apart;     ///< or null
  OwnEvent begin, end;                     ///< recorded before and behind it; null: it is captured
  OwnStream stream;                        ///< null: the caller's
  std::shared_ptr<const Packing> packing;  ///< null: no rows
};

/// The size of a device buffer for barriers, which read the first half and write the second.
inline constexpr std::size_t kBarrierBytes = 512;

/// How a communicator's host memory is divided: for collectives, for messages that are copied
/// whole, and for the pieces that other messages pass through.
struct Shares {
  std::uint64_t ring, messages, pieces;

  static constexpr Shares of(std::uint64_t bytes) {
    constexpr std::uint64_t kLeast = 4 << 10;
    const auto eighth = std::max(bytes / 8 / kLeast * kLeast, kLeast);
    return {bytes > 4 * eighth ? bytes - 2 * eighth : bytes, eighth, eighth};
  }
};

/// Any thread may call, but only one at a time takes leases.
class Leases final {
 public:
  explicit Leases(StagingOptions options)
      : options_(std::move(options)),
        ranks_(options_.ranks),
        shares_(Shares::of(options_.bytes)),
        shared_(shares_) {}
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;
  ~Leases();

  /// Makes a new one, which has yet to be opened, or takes an idle one.
  static std::shared_ptr<Leases> take(StagingOptions options);
  /// One call is enough.
  Status open();
  /// Whether it is open, and can serve such a request.
  bool is_like(const StagingOptions& options) const {
    return is_open_ && options_.device == options.device && options_.bytes == options.bytes;
  }
  /// Serves a communicator of so many ranks from now on: call it before that has any lease.
  void serve(std::uint32_t ranks) { ranks_ = ranks; }
  int device() const { return options_.device; }
  std::uint64_t ring_bytes() const { return shares_.ring; }
  /// Whether the memory for messages that streams copy has so many bytes free.
  bool has_block(std::uint64_t bytes) const {
    return shared_.lock()->blocks.find(bytes).has_value();
  }
  std::uint64_t piece_bytes() const { return Pieces::piece_bytes_for(shares_.pieces, ranks_); }
  /// Whether this device has the kernel that copies pieces.
  bool may_take_pieces() const { return may_take_pieces_; }
  /// One call for each communicator is enough.
  Status take_pieces();
  Pieces* pieces() const { return pieces_.get(); }
  std::uint64_t held_bytes() const { return held_bytes_.load(); }
  const Driver& driver() const { return *driver_; }
  Status take_ring();
  /// Memory of the device: free again when nobody has the pointer.
  Result<std::shared_ptr<std::byte>> room(std::uint64_t bytes);
  std::byte* barrier_bytes() const { return has_.barrier.get(); }
  /// For Leases that nobody uses: whether the streams of all their calls have passed them.
  bool is_passed() const;

  Result<Lease> lease(const StreamOpRequest& request, std::uint64_t bytes);
  void give_back(Lease lease);
  /// For a call whose stream may not have passed it. The lease comes back when it has; whoever
  /// takes the next lease finds that out.
  void give_back_later(Lease lease);
  /// Makes the lease's stream wait until there is room in the ring.
  Status wait_for_room(const Lease& lease, cudaStream_t stream) const;
  struct WaitForHost {
    std::size_t parts = 1;  ///< waits until so many of the call's are over
    bool again = false;     ///< part of a graph, which waits anew each time it runs
    bool flushes = false;   ///< later work sees what others than the host have written
  };
  /// Makes the stream wait until the host lets the lease's call go on.
  Status wait_for_host(const Lease& lease, cudaStream_t stream, const WaitForHost& how) const;
  /// Makes a stream of ours reach its call only after those before it have.
  Status in_order(cudaStream_t stream);
  /// The stream, one of ours, has reported that it has reached its call.
  Status has_come(cudaStream_t stream);

 private:
  /// Words that are allocated at a time.
  static constexpr std::size_t kSlab = 512;

  struct Room {
    std::uint64_t bytes;
    std::shared_ptr<std::byte> memory;
  };
  /// Resources of the taker of leases. All are given back while the device is the current one, and
  /// the idle ones, too.
  struct Resources {
    std::unique_ptr<PinnedMemory> ring, blocks, pieces;
    OwnEvent behind_default;  ///< recorded in the default stream
    OwnEvent came_last;       ///< recorded in the last stream of ours
    DeviceMemory barrier;
    std::vector<Room> rooms;
  };
  struct Idle {
    std::vector<MappedMemory> slabs;
    std::vector<OwnEvent> events;
    std::vector<OwnStream> streams;
    std::vector<std::unique_ptr<PinnedMemory>> apart;
    std::vector<std::pair<Words*, std::uint64_t>> words;  ///< and their place on the device
  };
  struct Shared {
    explicit Shared(const Shares& shares) : ring(shares.ring), blocks(shares.messages) {}
    Ring ring;
    Blocks blocks;
    Idle idle;
    std::size_t made = 0;      ///< of all lists' elements
    std::vector<Lease> later;  ///< room for all that are out
    std::size_t out = 0;       ///< leases
  };

  void sweep();
  Status more_words();
  Status find_room(Lease& lease, const StreamOpRequest& request, std::uint64_t bytes);
  /// Takes a block for messages, if there is one of so many bytes; returns whether it has.
  Result<bool> take_block(Lease& lease, std::uint64_t bytes);
  Status memory_apart(Lease& lease, std::uint64_t bytes);
  Status take_stream(OwnStream& to);
  Status stream_of_ours(Lease& lease);
  Status take_event(OwnEvent& to);
  /// An idle one, or null.
  template <typename T>
  T idle(std::vector<T> Idle::*list) {
    const auto shared = shared_.lock();
    auto& from = shared->idle.*list;
    if (from.empty()) return {};
    T found = std::move(from.back());
    from.pop_back();
    return found;
  }
  /// Called for one that has just been made, so that giving it back needs no memory.
  template <typename T>
  void keep_place(std::vector<T> Idle::*list) {
    const auto shared = shared_.lock();
    (shared->idle.*list).reserve(++shared->made);
  }

  const StagingOptions options_;
  std::uint32_t ranks_;  ///< of the communicator that it serves
  const Shares shares_;
  const Driver* driver_ = nullptr;  // immutable after open()
  bool is_open_ = false;            // immutable after open()
  bool may_take_pieces_ = false;    // immutable after open()
  std::atomic<std::uint64_t> held_bytes_{0};
  Resources has_;
  /// CUDA is not called under its lock as long as anybody has a lease: listeners take it.
  Guarded<Shared> shared_;
  std::unique_ptr<Pieces> pieces_;  // set by the taker of leases
};

/// `free` is called whenever no Leases of the process are in use, and none of their calls is under
/// way: it frees what may go back to CUDA only then.
void when_no_calls_are_left(std::function<void()> free);

/// Keeps `what`, which has memory of that GPU, until then.
void keep_until_no_calls_are_left(int device, std::shared_ptr<void> what);

/// Keeps what a stream may still use for an unknown time, as long as the process.
void keep_for_ever(std::shared_ptr<void> what);

}  // namespace ccoll::device

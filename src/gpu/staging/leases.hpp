// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the calls of a communicator in streams have while they are under way, whichever way they
/// go: memory of the host, words, events, streams. All is kept for the next call, and for the next
/// communicator. Needs CUDA's headers: only sources include this.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/cuda/driver.hpp"
#include "gpu/cuda/pinned.hpp"
#include "gpu/program/blocks.hpp"
#include "gpu/staging.hpp"
#include "gpu/staging/pieces.hpp"

namespace ccoll::device {

/// What a passage has.
struct Lease {
  std::byte* data = nullptr;
  std::byte* data_on_device = nullptr;
  Words* words = nullptr;
  std::uint64_t words_on_device = 0;
  std::optional<std::uint64_t> piece;   ///< its number in the ring
  bool must_wait_for_room = false;      ///< of the ring
  std::optional<std::uint64_t> block;   ///< where it begins, of those for messages
  std::unique_ptr<PinnedMemory> apart;  ///< or null
  OwnEvent begin, end;                  ///< recorded before and behind it; null: it is captured
  OwnStream stream;                     ///< null: the caller's
};

/// Of a device's memory, for barriers: in the first half is what they read, in the second what they
/// write.
inline constexpr std::size_t kBarrierBytes = 512;

/// What a communicator's memory of the host is for: what collectives have of it, messages that are
/// copied as a whole, and the pieces that others pass through.
struct Shares {
  std::uint64_t ring, messages, pieces;

  static constexpr Shares of(std::uint64_t bytes) {
    constexpr std::uint64_t kLeast = 4 << 10;
    const auto eighth = std::max(bytes / 8 / kLeast * kLeast, kLeast);
    return {bytes > 4 * eighth ? bytes - 2 * eighth : bytes, eighth, eighth};
  }
};

/// Any thread may call, but leases are taken by one at a time.
class Leases final {
 public:
  explicit Leases(StagingOptions options)
      : options_(std::move(options)),
        ranks_(options_.ranks),
        shares_(Shares::of(options_.bytes)),
        ring_(shares_.ring),
        blocks_(shares_.messages) {}
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;
  ~Leases();

  /// One that is new, or that nobody uses any more; yet to be opened, if it is new.
  static std::shared_ptr<Leases> take(StagingOptions options);
  /// Once is enough.
  Status open();
  /// Whether it is open, and serves whoever asks for that.
  bool is_like(const StagingOptions& options) const {
    return is_open_ && options_.device == options.device && options_.bytes == options.bytes;
  }
  /// Of a communicator of so many ranks from now on: before it has any lease.
  void serve(std::uint32_t ranks) { ranks_ = ranks; }
  int device() const { return options_.device; }
  std::uint64_t ring_bytes() const { return shares_.ring; }
  /// Of what is there for messages that streams copy.
  bool has_block(std::uint64_t bytes) const {
    const std::lock_guard lock(mu_);
    return blocks_.find(bytes).has_value();
  }
  std::uint64_t piece_bytes() const { return Pieces::piece_bytes_for(shares_.pieces, ranks_); }
  /// Whether this device has the kernel that copies them.
  bool may_take_pieces() const { return may_take_pieces_; }
  /// Once for a communicator is enough.
  Status take_pieces();
  Pieces* pieces() const { return pieces_.get(); }
  std::uint64_t held_bytes() const { return held_bytes_.load(); }
  const Driver& driver() const { return *driver_; }
  Status take_ring();
  std::byte* barrier_bytes() const { return has_.barrier.get(); }
  /// Of one that nobody uses any more: whether the streams of all its calls have passed them.
  bool is_passed() const;

  Result<Lease> lease(const StreamOpRequest& request, std::uint64_t bytes);
  void give_back(Lease lease);
  /// Of a call whose stream may not have passed it: when it has, which the next to take a lease
  /// finds out.
  void give_back_later(Lease lease);
  /// Has the lease's stream wait until there is room in the ring.
  Status wait_for_room(const Lease& lease, cudaStream_t stream) const;
  struct WaitForHost {
    std::size_t parts = 1;  ///< until so many of the lease's call are over
    bool again = false;     ///< as part of a graph, which waits anew when it runs again
    bool flushes = false;   ///< and sees from then on what others than the host have written before
  };
  /// Has the stream wait until the host lets the lease's call go on.
  Status wait_for_host(const Lease& lease, cudaStream_t stream, const WaitForHost& how) const;
  /// Has a stream of ours come to its call only after those before it have.
  Status in_order(cudaStream_t stream);
  /// The stream is one of ours, and has told that it has come to its call.
  Status has_come(cudaStream_t stream);

 private:
  /// Words at a time.
  static constexpr std::size_t kSlab = 512;

  /// What is given back while the device is the current one.
  struct Resources {
    std::unique_ptr<PinnedMemory> ring, blocks, pieces;
    OwnEvent behind_default;  ///< recorded in the default stream
    OwnEvent came_last;       ///< recorded in the last stream of ours
    DeviceMemory barrier;
    std::vector<MappedMemory> slabs;
    std::vector<OwnEvent> events;
    std::vector<OwnStream> streams;
    std::vector<std::unique_ptr<PinnedMemory>> apart;
  };

  void sweep();
  Status more_words();
  Status find_room(Lease& lease, const StreamOpRequest& request, std::uint64_t bytes);
  /// Of what is there for messages, if it has so much: whether it has.
  Result<bool> take_block(Lease& lease, std::uint64_t bytes);
  Status memory_apart(Lease& lease, std::uint64_t bytes);
  Status take_stream(OwnStream& to);
  Status stream_of_ours(Lease& lease);
  Status take_event(OwnEvent& to);
  /// One that is there and not in use, or null.
  template <typename T>
  T idle(std::vector<T>& from) {
    const std::lock_guard lock(mu_);
    if (from.empty()) return {};
    T found = std::move(from.back());
    from.pop_back();
    return found;
  }
  /// For one that has just been made, so that giving it back needs no memory.
  template <typename T>
  void keep_place(std::vector<T>& in) {
    const std::lock_guard lock(mu_);
    in.reserve(++made_);
  }

  const StagingOptions options_;
  std::uint32_t ranks_;  ///< of whose leases there are
  const Shares shares_;
  const Driver* driver_ = nullptr;  // immutable after open()
  bool is_open_ = false;            // immutable after open()
  bool may_take_pieces_ = false;    // immutable after open()
  std::atomic<std::uint64_t> held_bytes_{0};
  std::size_t made_ = 0;            // guarded by mu_; of all lists' elements
  mutable std::mutex mu_;           // nothing of CUDA is called under it: listeners take it
  Ring ring_;                       // guarded by mu_
  Blocks blocks_;                   // guarded by mu_
  Resources has_;                   // lists are guarded by mu_, the rest is whose takes leases
  std::vector<Lease> later_;        // guarded by mu_; room for all that are out
  std::size_t out_ = 0;             // guarded by mu_; leases
  std::unique_ptr<Pieces> pieces_;  // set by who takes leases
  std::vector<std::pair<Words*, std::uint64_t>> free_words_;  // guarded by mu_; on the device, too
};

/// `free` is called whenever no Leases of the process are in use any more, nor any of their calls
/// under way: what is given back to CUDA only then.
void when_no_calls_are_left(std::function<void()> free);

/// Lets go of `what`, which has memory of that GPU, only then.
void keep_until_no_calls_are_left(int device, std::shared_ptr<void> what);

/// What a stream may still use although nobody knows when: kept as long as the process.
void keep_for_ever(std::shared_ptr<void> what);

}  // namespace ccoll::device

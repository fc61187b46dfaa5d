// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Executes one step over its links: both executors of a plan, the short one and the interpreter,
/// differ only in where they find the step's data, which are its places (short_places.hpp,
/// window_places.hpp). execute.hpp has the templates' bodies.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "engine/describe.hpp"
#include "engine/plan/block_layout.hpp"
#include "engine/plan/lanes.hpp"
#include "engine/plan_request.hpp"
#include "transport/link.hpp"

namespace ccoll {

/// The outcome of a step, or of a plan's poll(). `failed`: the executor has the failure.
enum class Polled : std::uint8_t { waits, moved, done, failed };

class StepExecutor {
 public:
  using Outgoing = std::vector<std::pair<SendLink*, Rank>>;

  /// `layout`: for what a failure says; must outlive this. `outgoing`: all links that steps send
  /// on.
  StepExecutor(const BlockLayout& layout, Outgoing outgoing)
      : layout_(layout), outgoing_(std::move(outgoing)) {}

  void begin_run() { pushed_ = owes_ = false; }
  /// Runs the step unless it must wait. Another lane's step that it follows has run. Inlined, or
  /// the places would lie in memory: 35 instructions more for 8 bytes and one rank, 62 for each of
  /// two (bench/costs/plan_instructions).
  template <typename Places>
  [[gnu::always_inline]] inline Polled execute(Places& places);
  /// Copies a small slice to a link and sends it, all in one call of the link; waits if there is no
  /// room.
  Polled give(SendLink& link, const SliceHeader& header, const std::byte* data) {
    const auto sent = link.send(header, data);
    if (sent == SendLink::Sent::no_room) return stuck(link);
    if (sent == SendLink::Sent::waits) pushed_ = owes_ = true;
    return Polled::moved;
  }

  /// Advances pushed slices, and updates owes().
  Polled flush();
  /// Whether some pushed slice may not have left, or some lent memory not be back.
  bool owes() const { return owes_; }
  const Outgoing& outgoing() const { return outgoing_; }

  [[gnu::noinline]] Polled failed(Failure failure);
  /// The failure of what has failed; call once.
  Failure take_failure() { return *std::exchange(failure_, std::nullopt); }
  /// After a mismatch: the peer's call, from its slice.
  const std::optional<MadeCall>& different() const { return different_; }

 private:
  /// Returns `moved` if it may.
  template <typename Places>
  [[gnu::always_inline]] inline Polled may_run(Places& places);
  /// `shared`: room for one copy of a slice for several links; null if there is none.
  template <typename Places>
  [[gnu::always_inline]] inline void make(Places& places, std::byte* shared);
  /// `lent`: null if the slice is in the links' rooms or in `shared`.
  void send(const ReadyStep& step, const SliceHeader& header, const std::byte* lent,
            std::byte* shared, Copier copier);
  /// Returns `waits`, or `failed` if the link has failed.
  Polled stuck(const LinkEnd& link) {
    const Failure* const failure = link.failure();
    return failure == nullptr ? Polled::waits : failed(*failure);
  }
  /// Fails with how the slice differs from the expected one.
  [[gnu::noinline]] Polled mismatch(const PlanRun& run, const ReadyStep& step, std::size_t receive,
                                    const SliceHeader& header, const SliceHeader& expected);
  [[gnu::noinline]] Polled taken_back(const ReadyStep& step, std::size_t receive);

  const BlockLayout& layout_;
  const Outgoing outgoing_;
  // The present run:
  bool pushed_ = false;  ///< since the last flush
  bool owes_ = false;
  std::optional<Failure> failure_;
  std::optional<MadeCall> different_;
};

}  // namespace ccoll

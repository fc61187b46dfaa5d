// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The state of a simulation, and its transitions; see run.hpp. Private to this folder.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/run.hpp"

namespace ccoll::sim {

struct LaneState {
  enum class Doing : std::uint8_t { moves, awaits_slice, awaits_room, awaits_step, awaits_thread };
  Picoseconds free = 0;   ///< time when its last step has ended
  Picoseconds ready = 0;  ///< time when all that it has checked of its current step is there
  std::uint64_t window = 0;
  std::uint32_t step = 0;
  std::uint32_t checked = 0;  ///< receives and sends of its current step
  Doing doing = Doing::moves;
  bool queued = false;
};

struct LinkState {
  std::uint64_t pushed = 0;
  std::uint64_t arrived = 0;  ///< messages whose arrival time is known
  std::uint64_t popped = 0;
  Picoseconds tail = 0;  ///< time when the last byte of the last message has left
};

/// Times of slot i mod slots of a link: when message i filled it, and when it was free again.
struct SlotState {
  Picoseconds arrival = 0;
  Picoseconds room = 0;
};

struct Event {
  enum class What : std::uint8_t { thread, out, in };
  Picoseconds time = 0;
  std::uint64_t tie = 0;
  Picoseconds tail = 0;      ///< earliest arrival of the last byte of a message that comes in
  std::uint64_t bytes = 0;   ///< size of a message
  std::uint32_t number = 0;  ///< number of the lane, or of the link
  What what = What::thread;
};

/// Times at which the steps have ended that others wait for, window by window.
struct Ends {
  std::vector<Picoseconds> times;
  std::size_t first = 0;
  bool empty() const { return first == times.size(); }
  Picoseconds take() {
    const Picoseconds time = times[first++];
    if (empty()) times.clear(), first = 0;
    return time;
  }
};

class Machine {
 public:
  /// `arrivals` is that of RunOptions.
  explicit Machine(const System& system, std::vector<std::vector<Picoseconds>>* arrivals = nullptr);

  /// Moves on until the first lane of all has ended another window, more than `max_steps` steps
  /// have run, or nothing can move; returns false in the last case.
  bool advance(std::uint64_t max_steps);
  /// Whether all lanes have ended, if nothing can move.
  bool finished() const { return lanes_left_ == 0; }
  const Outcome& outcome() const { return outcome_; }

  std::uint64_t window() const { return lanes_[reference_].window; }
  Picoseconds now() const { return lanes_[reference_].free; }
  /// The window of the lane that is furthest ahead.
  std::uint64_t furthest() const;

  /// Calls `see` with every number that the future depends on, in a fixed order. Times and windows
  /// count from the reference lane's.
  template <typename See>
  void describe(See see) const;

  /// Goes on as if `windows` more windows had passed in `time`.
  void skip(std::uint64_t windows, Picoseconds time);

 private:
  void enqueue(std::uint32_t lane);
  void move(std::uint32_t lane);
  /// Whether the current step has run.
  bool try_step(std::uint32_t lane, LaneState& state);
  bool await_step(const SimStep& step, LaneState& state);
  bool await_messages(const SimStep& step, LaneState& state);
  void carry_out(std::uint32_t lane, Picoseconds start);
  Picoseconds duration(const SimStep& step, std::uint64_t bytes) const;
  Picoseconds take_thread(const SimLane& lane, Picoseconds ready, Picoseconds duration);
  void pop(std::uint32_t link, Picoseconds time);
  void push(std::uint32_t link, Picoseconds time, std::uint64_t bytes);
  void leave(std::uint32_t link, Picoseconds time, std::uint64_t bytes);
  void enter(std::uint32_t link, Picoseconds time, Picoseconds tail, std::uint64_t bytes);
  void arrive(std::uint32_t link, Picoseconds time);
  void pass(std::uint32_t lane);
  void handle(const Event& event);
  SlotState& slot(std::uint32_t link, std::uint64_t message) {
    const SimLink& of = system_.links[link];
    return slots_[of.first_slot + message % of.slots];
  }
  const LinkCosts& costs(const SimLink& link) const {
    return link.crosses ? system_.network.across : system_.network.inside;
  }

  const System& system_;
  std::vector<std::vector<Picoseconds>>* const arrivals_;
  std::uint32_t reference_ = 0;  ///< the first lane with steps in stripe 0
  bool wrapped_ = false;
  std::vector<LaneState> lanes_;
  std::vector<LinkState> links_;
  std::vector<SlotState> slots_;
  std::vector<Picoseconds> resources_;  ///< times when they become free
  std::vector<Picoseconds> cores_;      ///< times when they become free, node by node
  std::vector<Ends> ends_;              ///< by wait
  std::vector<std::uint32_t> ready_;
  std::vector<Event> batch_;
  TimeQueue<Event> queue_;
  std::size_t lanes_left_ = 0;
  Outcome outcome_;
};

template <typename See>
void Machine::describe(See see) const {
  const Picoseconds now = this->now();
  const std::uint64_t windows = window();
  const auto time = [&](Picoseconds value) { see(value - now); };
  for (std::size_t number = 0; number < lanes_.size(); ++number) {
    if (system_.lanes[number].steps.size() == 0) continue;
    const LaneState& lane = lanes_[number];
    time(lane.free);
    time(lane.ready);
    see(static_cast<std::int64_t>(lane.window - windows));
    see(static_cast<std::int64_t>(std::uint64_t{lane.step} << 32 | lane.checked));
    see(static_cast<std::int64_t>(lane.doing) * 2 + (lane.queued ? 1 : 0));
  }
  for (std::size_t number = 0; number < links_.size(); ++number) {
    const SimLink& link = system_.links[number];
    const LinkState& state = links_[number];
    const std::uint64_t passed = link.per_window * (windows / system_.stripes);
    see(static_cast<std::int64_t>(state.pushed - passed));
    see(static_cast<std::int64_t>(state.arrived - passed));
    see(static_cast<std::int64_t>(state.popped - passed));
    time(state.tail);
    for (std::uint64_t i = 0; i < link.slots; ++i) {
      const SlotState& slot = slots_[link.first_slot + (state.pushed + i) % link.slots];
      time(slot.arrival);
      time(slot.room);
    }
  }
  for (std::size_t number = 0; number < resources_.size(); ++number)
    if (system_.resources[number].used) time(resources_[number]);
  for (const Picoseconds free : cores_) time(free);
  for (const Ends& ends : ends_) {
    see(static_cast<std::int64_t>(ends.times.size() - ends.first));
    for (std::size_t i = ends.first; i < ends.times.size(); ++i) time(ends.times[i]);
  }
  for (const std::uint32_t lane : ready_) see(lane);
  std::vector<Event> events;
  queue_.for_each([&](const Event& event) { events.push_back(event); });
  std::ranges::sort(events, [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time
           : a.tie != b.tie ? a.tie < b.tie
                            : a.number < b.number;
  });
  for (const Event& event : events) {
    time(event.time);
    see(static_cast<std::int64_t>(event.what) << 32 | event.number);
    see(static_cast<std::int64_t>(event.bytes));
    if (event.what == Event::What::in) time(event.tail);
  }
}

}  // namespace ccoll::sim

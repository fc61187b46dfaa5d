// SPDX-License-Identifier: Apache-2.0
#include "sim/machine.hpp"

#include <cmath>

namespace ccoll::sim {
namespace {

Picoseconds to_picoseconds(double ns) { return static_cast<Picoseconds>(std::ceil(ns * 1e3)); }

/// Everything takes some time: see run.hpp.
Picoseconds at_least_one(Picoseconds time) { return std::max<Picoseconds>(1, time); }

Picoseconds transfer(std::uint64_t bytes, double bytes_per_s) {
  return at_least_one(to_picoseconds(static_cast<double>(bytes) / bytes_per_s * 1e9));
}

Picoseconds latency(const LinkCosts& costs) {
  return at_least_one(to_picoseconds(costs.latency_ns));
}

}  // namespace

Machine::Machine(const System& system, std::vector<std::vector<Picoseconds>>* arrivals)
    : system_(system), arrivals_(arrivals) {
  lanes_.resize(system.lanes.size());
  links_.resize(system.links.size());
  slots_.resize(system.slots);
  resources_.resize(system.resources.size());
  cores_.resize(std::size_t{system.cores} * system.nodes);
  ends_.resize(system.waits.size());
  lanes_left_ = lanes_.size();
  for (std::uint32_t lane = static_cast<std::uint32_t>(lanes_.size()); lane-- > 0;) {
    lanes_[lane].window = system.lanes[lane].stripe;
    if (system.lanes[lane].steps.size() > 0 && system.lanes[lane].stripe == 0) reference_ = lane;
    enqueue(lane);
  }
}

bool Machine::advance(std::uint64_t max_steps) {
  wrapped_ = false;
  while (true) {
    while (!ready_.empty()) {
      const std::uint32_t lane = ready_.back();
      ready_.pop_back();
      lanes_[lane].queued = false;
      move(lane);
      if (wrapped_) return true;
    }
    if (queue_.empty()) return false;
    if (outcome_.steps > max_steps) return true;
    queue_.take_earliest(batch_);
    std::ranges::sort(batch_, {}, &Event::tie);
    for (const Event& event : batch_) handle(event);
  }
}

void Machine::handle(const Event& event) {
  switch (event.what) {
    case Event::What::thread: {
      carry_out(event.number, event.time);
      LaneState& state = lanes_[event.number];
      state.doing = LaneState::Doing::moves;
      pass(event.number);
      enqueue(event.number);
      break;
    }
    case Event::What::out:
      leave(event.number, event.time, event.bytes);
      break;
    case Event::What::in:
      enter(event.number, event.time, event.tail, event.bytes);
      break;
  }
}

void Machine::enqueue(std::uint32_t lane) {
  if (lanes_[lane].queued) return;
  lanes_[lane].queued = true;
  ready_.push_back(lane);
}

void Machine::move(std::uint32_t lane) {
  LaneState& state = lanes_[lane];
  const Span steps = system_.lanes[lane].steps;
  if (steps.size() == 0) state.window = system_.windows;
  state.doing = LaneState::Doing::moves;
  while (state.window < system_.windows) {
    if (!try_step(lane, state)) return;
    pass(lane);
  }
  --lanes_left_;
  outcome_.returned = std::max(outcome_.returned, state.free);
  if (state.free > outcome_.ready) {
    outcome_.ready = state.free;
    outcome_.last = system_.lanes[lane].rank;
  }
}

/// Goes on to the next step, and wakes the lanes that wait for this one.
void Machine::pass(std::uint32_t lane) {
  LaneState& state = lanes_[lane];
  const SimLane& of = system_.lanes[lane];
  for (std::uint32_t i = of.targets.begin; i < of.targets.end; ++i) {
    const std::uint32_t number = system_.targets[i];
    const SimWait& wait = system_.waits[number];
    if (wait.on_step != state.step) continue;
    ends_[number].times.push_back(state.free);
    if (lanes_[wait.lane].doing == LaneState::Doing::awaits_step) enqueue(wait.lane);
  }
  state.checked = 0;
  state.ready = state.free;
  if (++state.step < of.steps.size()) return;
  state.step = 0;
  state.window += system_.stripes;
  if (lane == reference_) wrapped_ = true;
}

bool Machine::try_step(std::uint32_t lane, LaneState& state) {
  const SimStep& step = system_.steps[system_.lanes[lane].steps.begin + state.step];
  if (state.checked == 0 && step.after != kNone && !await_step(step, state)) return false;
  const std::uint64_t bytes = system_.bytes(step, state.window);
  if (bytes == 0) {
    state.free = state.ready;
    return true;
  }
  if (!await_messages(step, state)) return false;
  const std::uint32_t thread = system_.lanes[lane].thread;
  if (thread == kNone || !system_.resources[thread].shared) {
    carry_out(lane, state.ready);
    return true;
  }
  state.doing = LaneState::Doing::awaits_thread;
  queue_.push({.time = state.ready, .tie = lane, .number = lane, .what = Event::What::thread});
  return false;
}

/// Sets `checked` to 1, so that the end is taken once.
bool Machine::await_step(const SimStep& step, LaneState& state) {
  Ends& ends = ends_[step.after];
  if (ends.empty()) {
    state.doing = LaneState::Doing::awaits_step;
    return false;
  }
  state.ready = std::max(state.ready, ends.take());
  state.checked = 1;
  return true;
}

bool Machine::await_messages(const SimStep& step, LaneState& state) {
  const std::uint32_t before = step.after != kNone ? 1 : 0;
  const std::uint32_t receives = step.receives.size();
  for (; state.checked < before + receives; ++state.checked) {
    const std::uint32_t number = system_.receives[step.receives.begin + state.checked - before];
    const LinkState& link = links_[number];
    if (link.arrived == link.popped) {
      state.doing = LaneState::Doing::awaits_slice;
      return false;
    }
    state.ready = std::max(state.ready, slot(number, link.popped).arrival);
  }
  for (; state.checked < before + receives + step.sends.size(); ++state.checked) {
    const std::uint32_t number =
        system_.sends[step.sends.begin + state.checked - before - receives];
    const LinkState& link = links_[number];
    if (link.pushed - link.popped >= system_.network.slots_per_link) {
      state.doing = LaneState::Doing::awaits_room;
      return false;
    }
    state.ready = std::max(state.ready, slot(number, link.pushed).room);
  }
  return true;
}

Picoseconds Machine::duration(const SimStep& step, std::uint64_t bytes) const {
  const Network& network = system_.network;
  const auto size = static_cast<double>(bytes);
  double ns = step.combined * size / network.reduce_bytes_per_s * 1e9;
  const double copy_ns = size / network.inside.bandwidth_bytes_per_s * 1e9;
  const auto add = [&](std::uint32_t number, double copied) {
    const SimLink& link = system_.links[number];
    ns += costs(link).step_ns;
    if (link.out == kNone) ns += copied * copy_ns;
  };
  const bool stores = step.combined == 0;
  for (std::uint32_t i = step.receives.begin; i < step.receives.end; ++i) {
    const bool in_place = network.lent_in_place && system_.links[system_.receives[i]].lends;
    add(system_.receives[i], in_place ? (stores ? 1 : 0) : 1 - network.inside.sender_share);
  }
  const bool in_place = network.lent_in_place && step.lends;
  for (std::uint32_t i = step.sends.begin; i < step.sends.end; ++i)
    add(system_.sends[i], in_place ? 0 : network.inside.sender_share);
  return at_least_one(to_picoseconds(ns));
}

Picoseconds Machine::take_thread(const SimLane& lane, Picoseconds ready, Picoseconds duration) {
  if (lane.thread == kNone) return ready + duration;
  Picoseconds& free = resources_[lane.thread];
  Picoseconds start = std::max(ready, free);
  if (system_.cores > 0) {
    const std::size_t node = system_.resources[lane.thread].node;
    const auto first = cores_.begin() + static_cast<std::ptrdiff_t>(node * system_.cores);
    // Take the free core that was busy last, so that the others can begin something earlier.
    const auto core = std::max_element(first, first + system_.cores, [&](auto a, auto b) {
      return a <= start && b <= start ? a < b : a > b;
    });
    start = std::max(start, *core);
    *core = start + duration;
  }
  free = start + duration;
  return free;
}

void Machine::carry_out(std::uint32_t lane, Picoseconds start) {
  LaneState& state = lanes_[lane];
  const SimLane& of = system_.lanes[lane];
  const SimStep& step = system_.steps[of.steps.begin + state.step];
  const std::uint64_t bytes = system_.bytes(step, state.window);
  state.free = take_thread(of, start, duration(step, bytes));
  ++outcome_.steps;
  for (std::uint32_t i = step.receives.begin; i < step.receives.end; ++i)
    pop(system_.receives[i], state.free);
  for (std::uint32_t i = step.sends.begin; i < step.sends.end; ++i)
    push(system_.sends[i], state.free, bytes);
}

void Machine::pop(std::uint32_t link, Picoseconds time) {
  LinkState& state = links_[link];
  const SimLink& of = system_.links[link];
  const Picoseconds known = time + latency(costs(of));
  slot(link, state.popped).room = known;
  ++state.popped;
  if (of.lends) outcome_.returned = std::max(outcome_.returned, known);
  const std::uint32_t sender = of.from_lane;
  if (lanes_[sender].doing == LaneState::Doing::awaits_room) enqueue(sender);
}

void Machine::push(std::uint32_t link, Picoseconds time, std::uint64_t bytes) {
  ++links_[link].pushed;
  const SimLink& of = system_.links[link];
  if (of.out == kNone) {
    arrive(link, time + latency(costs(of)));
  } else if (!system_.resources[of.out].shared) {
    leave(link, time, bytes);
  } else {
    queue_.push({.time = time,
                 .tie = of.tie_out,
                 .bytes = bytes,
                 .number = link,
                 .what = Event::What::out});
  }
}

/// A message has the speed of its own link, but uses a port or NIC only for its share of time.
void Machine::leave(std::uint32_t link, Picoseconds time, std::uint64_t bytes) {
  const SimLink& of = system_.links[link];
  const LinkCosts& costs = this->costs(of);
  LinkState& state = links_[link];
  Picoseconds& free = resources_[of.out];
  const Picoseconds start = std::max(time, free);
  free = start + transfer(bytes, system_.resources[of.out].bytes_per_s);
  const Picoseconds head = std::max(start, state.tail);
  state.tail = std::max(free, head + transfer(bytes, costs.bandwidth_bytes_per_s));
  const Picoseconds after = latency(costs);
  if (!system_.resources[of.in].shared) {
    enter(link, head + after, state.tail + after, bytes);
  } else {
    queue_.push({.time = head + after,
                 .tie = of.tie_in,
                 .tail = state.tail + after,
                 .bytes = bytes,
                 .number = link,
                 .what = Event::What::in});
  }
}

void Machine::enter(std::uint32_t link, Picoseconds time, Picoseconds tail, std::uint64_t bytes) {
  const std::uint32_t in = system_.links[link].in;
  Picoseconds& free = resources_[in];
  free = std::max(time, free) + transfer(bytes, system_.resources[in].bytes_per_s);
  arrive(link, std::max(tail, free));
}

void Machine::arrive(std::uint32_t link, Picoseconds time) {
  LinkState& state = links_[link];
  slot(link, state.arrived).arrival = time;
  ++state.arrived;
  if (arrivals_ != nullptr) (*arrivals_)[link].push_back(time);
  const std::uint32_t receiver = system_.links[link].to_lane;
  if (lanes_[receiver].doing == LaneState::Doing::awaits_slice) enqueue(receiver);
}

std::uint64_t Machine::furthest() const {
  return std::ranges::max_element(lanes_, {}, &LaneState::window)->window;
}

void Machine::skip(std::uint64_t windows, Picoseconds time) {
  for (LaneState& lane : lanes_) {
    lane.window += windows;
    lane.free += time;
    lane.ready += time;
  }
  for (std::size_t number = 0; number < links_.size(); ++number) {
    const SimLink& link = system_.links[number];
    LinkState& state = links_[number];
    const std::uint64_t passed = link.per_window * (windows / system_.stripes);
    const auto first = slots_.begin() + static_cast<std::ptrdiff_t>(link.first_slot);
    // Message i uses slot i mod slots.
    std::rotate(
        first, first + static_cast<std::ptrdiff_t>((link.slots - passed % link.slots) % link.slots),
        first + link.slots);
    for (auto slot = first; slot != first + link.slots; ++slot) {
      slot->arrival += time;
      slot->room += time;
    }
    state.pushed += passed;
    state.arrived += passed;
    state.popped += passed;
    state.tail += time;
  }
  for (Picoseconds& free : resources_) free += time;
  for (Picoseconds& free : cores_) free += time;
  for (Ends& ends : ends_) {
    for (Picoseconds& end : ends.times) end += time;
  }
  queue_.shift(time, [&](Event& event) { event.tail += time; });
  outcome_.windows_skipped += windows;
}

}  // namespace ccoll::sim

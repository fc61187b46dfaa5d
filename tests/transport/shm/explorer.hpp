// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Explores all executions of two threads of a protocol that C++20's memory model allows: every
/// interleaving and, at every load, each value that it may return. An x86 never shows most of them.
///
/// The protocol runs on ModelAtomic instead of std::atomic. Each location remembers all stores. A
/// load returns any store not older than those its thread knows: by its own accesses, by acquire
/// operations and, if both are seq_cst, by their total order. Each location is stored to by one
/// thread only, so its stores are in program order. Sleep and ring model an eventfd. Other memory
/// is reported by read() and write(), and vector clocks find races on it. Out-of-thin-air values do
/// not occur.
///
/// The search restarts the threads for each choice not yet taken, and does not continue from a
/// state that it has seen on any path.

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/result.hpp"

namespace ccoll::testing {

class Explorer {
 public:
  static constexpr std::size_t kThreads = 2, kLocations = 12, kCells = 8, kEvents = 2;

  struct Outcome {
    std::size_t runs = 0;
    std::size_t states = 0;
    std::string failure;  ///< the first one found, and the way to it; "" if there is none
  };

  /// `set_up` creates the atomics; it runs before each repetition, as do the threads.
  Outcome explore(const std::function<void()>& set_up,
                  std::array<std::function<void()>, kThreads> threads) {
    bodies_ = std::move(threads);
    choices_.clear();
    seen_.clear();
    Outcome outcome;
    do {
      begin();
      set_up();
      run_once();
      outcome.runs++;
    } while (failure_.empty() && next_choices());
    outcome.states = seen_.size();
    if (!failure_.empty()) outcome.failure = failure_ + trace_text();
    return outcome;
  }

  /// Called by the threads and by ModelAtomic.
  std::uint32_t add_location(std::uint64_t value) {
    CCOLL_CHECK(location_count_ < kLocations, "{} locations", location_count_);
    auto& location = locations_[location_count_];
    location = {};
    location.history.push_back({value, {}});
    return location_count_++;
  }
  /// The most recently added location.
  std::uint32_t last_location() const { return location_count_ - 1; }
  void weaken_stores(std::uint32_t location, std::memory_order order) {
    locations_[location].store_order = order;
  }
  void weaken_loads(std::uint32_t location, std::memory_order order) {
    locations_[location].load_order = order;
  }
  std::uint64_t load(std::uint32_t number, std::memory_order order) {
    step();
    auto& location = locations_[number];
    auto& view = here().view;
    order = weaker(order, location.load_order);
    const bool total = order == std::memory_order_seq_cst;
    const auto oldest = std::max(view.known[number], total ? location.total : 0);
    const auto newest = static_cast<std::uint32_t>(location.history.size() - 1);
    const auto index = newest - choose(newest - oldest + 1);
    const auto& store = location.history[index];
    view.known[number] = index;
    if (order != std::memory_order_relaxed) view.join(store.view);
    if (total) location.total = std::max(location.total, index);
    note('l', number, index, store.value);
    return store.value;
  }
  void store(std::uint32_t number, std::uint64_t value, std::memory_order order) {
    if (before_store_) before_store_(number, value);
    step();
    auto& location = locations_[number];
    auto& view = here().view;
    order = weaker(order, location.store_order);
    const auto index = static_cast<std::uint32_t>(location.history.size());
    view.known[number] = index;
    View published;
    published.known[number] = index;
    if (order != std::memory_order_relaxed) published = view;
    if (order == std::memory_order_seq_cst) location.total = index;
    location.history.push_back({value, published});
    note('s', number, index, value);
  }

  /// Models an eventfd: ring() ends the present or the next sleep(), which consumes it.
  void ring(std::uint32_t number) {
    step();
    events_[number].rung = true;
    events_[number].view.join(here().view);
    note('r', number, 0, 0);
  }
  void sleep(std::uint32_t number) {
    here().asleep_at = static_cast<int>(number);
    step();
    here().asleep_at = -1;
    events_[number].rung = false;
    here().view.join(events_[number].view);
    note('w', number, 0, 0);
  }

  /// `tell` is called before each store, with its location and value. By it a test can let a thread
  /// change other memory in the middle of the protocol's own code.
  void before_stores(std::function<void(std::uint32_t, std::uint64_t)> tell) {
    before_store_ = std::move(tell);
  }

  /// Accesses to non-atomic memory.
  void write(std::size_t cell) { touch(cell, true); }
  void read(std::size_t cell) { touch(cell, false); }
  /// A condition that must hold.
  void require(bool condition, const char* what) {
    if (!condition) fail_here(what);
  }

  static Explorer& current() { return *current_place(); }
  static Explorer*& current_place() {
    static Explorer* current = nullptr;
    return current;
  }

  Explorer() { current_place() = this; }
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

 private:
  static constexpr std::size_t kStackBytes = 128 << 10;

  /// The stores that a thread knows about, or learns of when it reads a store.
  struct View {
    std::array<std::uint32_t, kLocations> known{};  ///< per location: the newest known store
    std::array<std::uint32_t, kThreads> clock{};    ///< per thread: its accesses before

    void join(const View& other) {
      for (std::size_t i = 0; i < kLocations; i++) known[i] = std::max(known[i], other.known[i]);
      for (std::size_t i = 0; i < kThreads; i++) clock[i] = std::max(clock[i], other.clock[i]);
    }
  };
  struct Store {
    std::uint64_t value = 0;
    View view;
  };
  struct Location {
    std::vector<Store> history;
    std::uint32_t total = 0;  ///< seq_cst loads return no older store
    std::memory_order store_order = std::memory_order_seq_cst;
    std::memory_order load_order = std::memory_order_seq_cst;
  };
  struct Event {
    bool rung = false;
    View view;
  };
  /// Each thread's last access, by that thread's clock; 0 for never.
  struct Cell {
    std::array<std::uint32_t, kThreads> written{}, read{};
  };
  struct Thread {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(kStackBytes);
    View view;
    std::array<std::uint64_t, 2> past{};  ///< digest of all that it read: decides its next step
    int asleep_at = -1;
    bool done = false;
  };
  struct Choice {
    std::uint32_t taken = 0;
    std::uint32_t of = 1;
  };
  struct Note {
    std::size_t thread;
    char what;
    std::uint32_t where;
    std::uint32_t index;
    std::uint64_t value;
  };

  static std::memory_order weaker(std::memory_order a, std::memory_order b) {
    const auto strength = [](std::memory_order order) {
      return order == std::memory_order_relaxed ? 0 : order == std::memory_order_seq_cst ? 2 : 1;
    };
    return strength(a) < strength(b) ? a : b;
  }
  static void mix(std::array<std::uint64_t, 2>& digest, std::uint64_t value) {
    digest[0] = (digest[0] ^ value) * 0x9e3779b97f4a7c15ULL;
    digest[0] ^= digest[0] >> 29;
    digest[1] = (digest[1] + value + 0x632be59bd9b4e019ULL) * 0xff51afd7ed558ccdULL;
    digest[1] ^= digest[1] >> 32;
  }
  static void mix(std::array<std::uint64_t, 2>& digest, const View& view) {
    for (const auto known : view.known) mix(digest, known);
    for (const auto time : view.clock) mix(digest, time);
  }

  Thread& here() { return threads_[running_]; }

  void begin() {
    location_count_ = 0;
    events_ = {};
    cells_ = {};
    notes_.clear();
    cursor_ = 0;
    failure_.clear();
    for (std::size_t i = 0; i < kThreads; i++) {
      auto& thread = threads_[i];
      thread.view = {};
      thread.past = {};
      thread.asleep_at = -1;
      thread.done = false;
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.data();
      thread.context.uc_stack.ss_size = thread.stack.size();
      thread.context.uc_link = &scheduler_;
      makecontext(&thread.context, &Explorer::enter, 0);
    }
  }

  static void enter() {
    auto& self = current();
    self.bodies_[self.running_]();
    self.here().done = true;
  }

  /// Runs until all threads are done, one fails, or the state is known from another run.
  void run_once() {
    // Runs each to its first step, so that from then on each turn of a thread is one step.
    for (running_ = 0; running_ < kThreads; running_++) swapcontext(&scheduler_, &here().context);
    while (failure_.empty()) {
      std::array<std::size_t, kThreads> ready;
      std::uint32_t count = 0;
      bool all_done = true;
      for (std::size_t i = 0; i < kThreads; i++) {
        const auto& thread = threads_[i];
        all_done = all_done && thread.done;
        const bool sleeps =
            thread.asleep_at >= 0 && !events_[static_cast<std::size_t>(thread.asleep_at)].rung;
        if (!thread.done && !sleeps) ready[count++] = i;
      }
      if (all_done) return;
      if (count == 0) return void(failure_ = "asleep for ever");
      if (cursor_ == choices_.size() && !seen_.insert(digest()).second) return;
      running_ = ready[choose(count)];
      swapcontext(&scheduler_, &here().context);
    }
  }

  /// The point where the other threads may run.
  void step() {
    swapcontext(&here().context, &scheduler_);
    here().view.clock[running_]++;
  }

  void fail_here(std::string what) {
    failure_ = std::move(what);
    swapcontext(&here().context, &scheduler_);  // permanently
  }

  void touch(std::size_t number, bool writes) {
    auto& cell = cells_[number];
    const auto& clock = here().view.clock;
    for (std::size_t other = 0; other < kThreads; other++) {
      const auto last =
          writes ? std::max(cell.written[other], cell.read[other]) : cell.written[other];
      if (other != running_ && last > clock[other])
        fail_here(fmt::format("race on memory {}", number));
    }
    // The next access of this thread is the first that can publish this one.
    (writes ? cell.written : cell.read)[running_] = clock[running_] + 1;
    note(writes ? 'W' : 'R', static_cast<std::uint32_t>(number), 0, 0);
  }

  void note(char what, std::uint32_t where, std::uint32_t index, std::uint64_t value) {
    for (const std::uint64_t part :
         {std::uint64_t(what), std::uint64_t(where), std::uint64_t(index), value})
      mix(here().past, part);
    notes_.push_back({running_, what, where, index, value});
  }

  std::uint32_t choose(std::uint32_t of) {
    if (of == 1) return 0;
    if (cursor_ == choices_.size()) choices_.push_back({0, of});
    return choices_[cursor_++].taken;
  }
  bool next_choices() {
    choices_.resize(cursor_);
    while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().of)
      choices_.pop_back();
    if (choices_.empty()) return false;
    choices_.back().taken++;
    return true;
  }

  std::array<std::uint64_t, 2> digest() const {
    std::array<std::uint64_t, 2> all{};
    for (const auto& thread : threads_) {
      for (const auto part : thread.past) mix(all, part);
      mix(all, thread.view);
      mix(all, static_cast<std::uint64_t>(thread.asleep_at + 1) * 2 + (thread.done ? 1 : 0));
    }
    for (std::size_t i = 0; i < location_count_; i++) {
      mix(all, locations_[i].total);
      for (const auto& store : locations_[i].history) {
        mix(all, store.value);
        mix(all, store.view);
      }
    }
    for (const auto& event : events_) {
      mix(all, event.rung ? 1 : 0);
      mix(all, event.view);
    }
    for (const auto& cell : cells_)
      for (std::size_t i = 0; i < kThreads; i++)
        mix(all, (std::uint64_t{cell.written[i]} << 32) | cell.read[i]);
    return all;
  }

  std::string trace_text() const {
    std::string text;
    for (const auto& [thread, what, where, index, value] : notes_)
      text += fmt::format("\n  {}{} {}{} = {} (store {})", std::string(24 * thread, ' '), thread,
                          what, where, value, index);
    return text;
  }

  struct DigestHash {
    std::size_t operator()(const std::array<std::uint64_t, 2>& digest) const { return digest[0]; }
  };

  std::array<std::function<void()>, kThreads> bodies_;
  std::function<void(std::uint32_t, std::uint64_t)> before_store_;
  std::array<Thread, kThreads> threads_;
  ucontext_t scheduler_;
  std::size_t running_ = 0;
  std::array<Location, kLocations> locations_;
  std::uint32_t location_count_ = 0;
  std::array<Event, kEvents> events_{};
  std::array<Cell, kCells> cells_{};
  std::vector<Choice> choices_;
  std::size_t cursor_ = 0;
  std::vector<Note> notes_;
  std::string failure_;
  std::unordered_set<std::array<std::uint64_t, 2>, DigestHash> seen_;
};

/// Replaces std::atomic in the explored code.
template <typename T>
class ModelAtomic {
 public:
  ModelAtomic(T value = {}) : location_(Explorer::current().add_location(value)) {}
  ModelAtomic(const ModelAtomic&) = delete;
  ModelAtomic& operator=(const ModelAtomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst) const {
    return static_cast<T>(Explorer::current().load(location_, order));
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    Explorer::current().store(location_, value, order);
  }
  std::uint32_t location() const { return location_; }

 private:
  const std::uint32_t location_;
};

}  // namespace ccoll::testing

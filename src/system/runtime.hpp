// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Things of which a process has one, whatever its communicators: tables of links and memory,
/// pools, threads, and what it has found out about its machine.

#include <atomic>
#include <vector>

namespace ccoll {

class Runtime {
  struct Slot;

 public:
  /// The process's T, which its default constructor makes. It is made before main, because at its
  /// first use another thread could already be in fork(). It is never destroyed, because threads
  /// and exit handlers may use it to the very end. Thread-safe; T guards its own state.
  template <typename T>
  static T& one() {
    (void)made_early<T>;
    auto* const made = slot_of<T>.made.load(std::memory_order_acquire);
    return *static_cast<T*>(made != nullptr ? made : make(slot_of<T>));
  }

  /// The same for a T whose threads use a library that cleans up at exit: it is made at its first
  /// use, and destroyed at exit. T's constructor must use that library, so that the clean-up comes
  /// later. An exit handler that asks for T after its end gets a new one.
  template <typename T>
  static T& one_until_exit() {
    auto* const made = slot_until_exit<T>.made.load(std::memory_order_acquire);
    return *static_cast<T*>(made != nullptr ? made : make(slot_until_exit<T>));
  }

  /// For tests: while it lives, the process has a new T of each kind, made at its first use. No
  /// communicator, and no other thread that uses the runtime, may live across its beginning or end.
  /// Nobody may fork meanwhile.
  class Afresh {
   public:
    Afresh();
    ~Afresh();
    Afresh(const Afresh&) = delete;
    Afresh& operator=(const Afresh&) = delete;

   private:
    std::vector<void*> before_;  ///< by slot
  };

 private:
  struct Slot {
    void* (*construct)();
    std::atomic<void*> made{nullptr};
    Slot* next = nullptr;  ///< of all that were ever used
    bool is_known = false;
  };

  template <typename T>
  static void* construct() {
    return new T;
  }
  template <typename T>
  static void* construct_until_exit() {
    auto* const made = new T;
    // Exit handlers run in the reverse order: this one before those that T's constructor set up.
    static const struct End {
      ~End() { delete static_cast<T*>(slot_until_exit<T>.made.exchange(nullptr)); }
    } end;
    return made;
  }
  static void* make(Slot& slot);

  static inline constinit Slot* newest = nullptr;  // guarded as make() says

  template <typename T>
  static inline constinit Slot slot_of{&construct<T>};
  template <typename T>
  static inline constinit Slot slot_until_exit{&construct_until_exit<T>};
  template <typename T>
  static inline const bool made_early = (make(slot_of<T>), true);
};

}  // namespace ccoll

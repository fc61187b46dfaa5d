// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Operations under way, and what they keep.

#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace ccoll::python {

/// From now on threads enter the library without the GIL. They must from the first reduction by a
/// Python function on, since the library may call Python under its locks. They must, too, where
/// ranks have GPUs: a call of a team begins once all its threads have made it. In a Python without
/// the GIL they always do: a thread that waits for the library's locks would hold up the collector.
void release_gil_in_calls();
bool releases_gil();

/// Gives the GIL up where it must be.
class MaybeAway {
 public:
  MaybeAway() {
    if (releases_gil()) away_.emplace();
  }

 private:
  std::optional<nb::gil_scoped_release> away_;
};

/// Arrays of operations that nobody holds a Work of, until the operations are over. Any thread of
/// Python's may use it.
class Keeper {
 public:
  void keep(ccoll::Work work, std::vector<Held> held);
  void sweep();
  void clear() { take(); }

 private:
  using Kept = std::list<std::pair<ccoll::Work, std::vector<Held>>>;
  Kept take();

  nb::ft_mutex mutex_;
  Kept kept_;
};

/// Threads that are in the library, or come from it, and will want the GIL: the interpreter must
/// not end before they have had it.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  /// Whether the interpreter ends: whoever waits for others is to stop.
  static bool is_ending();
  /// Tells them so.
  static void begin_end();
  /// Waits for those that are inside, without the GIL.
  static void await_end();
};

/// The result of a call, once it is over. Several threads may ask for it.
struct Outcome {
  enum class Kind : std::uint8_t { value, received, list };
  Kind kind = Kind::value;
  nb::object value = nb::none();
  nb::object finish = nb::none();
  /// By receive: how many of a block's elements one of Python's has.
  std::vector<int> parts = {};
  /// Brings results to where the caller wants them, once; not valid where they are there.
  nb::object copies = {};

  nb::object result(const ccoll::Work& work);
};

/// ccoll.Work. Its methods run one at a time, but others may come in wherever one waits, tests or
/// lets Python run, as under a GIL. So a method takes arrays out of its members before it drops
/// them.
class Pending {
 public:
  Pending(ccoll::Work work, std::vector<Held> held, Outcome outcome, std::shared_ptr<Keeper> keeper)
      : work_(std::move(work)),
        held_(std::move(held)),
        outcome_(std::move(outcome)),
        keeper_(std::move(keeper)) {}
  Pending(Pending&&) = default;
  Pending& operator=(Pending&&) = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending();

  nb::object wait(std::optional<double> timeout);
  /// The array that its result will be; None for what only came.
  nb::object value_before_its_end() const { return outcome_.value; }
  bool done();
  nb::object exception();
  /// Has `tell` called with the error or None; it keeps the arrays until then.
  void on_done(nb::callable tell);

 private:
  ccoll::Work work_;
  std::vector<Held> held_;
  Outcome outcome_;
  std::shared_ptr<Keeper> keeper_;
};

/// Has the arrays kept, and the results brought where they belong, of an operation that nobody has
/// a Work of any more.
void leave_alone(ccoll::Work work, std::vector<Held> held, const Outcome& outcome, Keeper& keeper);

/// Waits, most of the time without the GIL. A signal whose handler raises ends the wait, not the
/// operation.
void wait_for(ccoll::Work& work, std::optional<double> timeout = std::nullopt);

/// None: 0, the call's default; math.inf: none. All else is more than 0.
std::chrono::milliseconds limit_of(std::optional<double> seconds, const char* name);

nb::object exception_of(const Error& error);

}  // namespace ccoll::python

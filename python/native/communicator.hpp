// SPDX-License-Identifier: Apache-2.0
#pragma once

/// ccoll.Communicator, and what its calls have in common.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "call_group.hpp"
#include "pending.hpp"

namespace ccoll::python {

/// Whether a call waits, or returns a Work.
enum class Mode : std::uint8_t { blocking, async };

/// A communicator and the calls that are in it. The library wants no call to begin while another
/// thread closes the communicator.
class Used {
 public:
  explicit Used(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  /// A call of one thread. A Used lives longer than calls of it.
  class Call {
   public:
    /// Throws Error{aborted} where it is closed.
    explicit Call(Used& used);
    ~Call() { used_.calls_--; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    Communicator& operator*() const { return *used_.communicator_; }
    Communicator* operator->() const { return used_.communicator_.get(); }
    /// For what goes on in another thread.
    const std::shared_ptr<Communicator>& shared() const { return used_.communicator_; }

   private:
    Used& used_;
  };

  bool is_open() const { return !is_closed_; }
  /// Refuses calls from now on, and ends the communicator by `end` once no call is in it; does
  /// nothing where it is closed. A call that is still in it after 100 ms is aborted. The caller
  /// must not have the GIL, which calls may need to return. Throws what `end` throws; after an
  /// Error{invalid_argument}, in a function of a reduction, the communicator is open as before.
  void end(const std::function<void(Communicator&)>& end);

 private:
  /// False if calls are in it when `limit` has passed.
  bool calls_return_within(std::chrono::milliseconds limit) const;

  std::shared_ptr<Communicator> communicator_;
  std::atomic<int> calls_{0};
  std::atomic<bool> is_closed_{false};
};

class Comm {
 public:
  explicit Comm(std::shared_ptr<Communicator> communicator)
      : Comm(std::make_shared<Used>(std::move(communicator))) {}
  /// Several of Python's objects may be one communicator.
  explicit Comm(std::shared_ptr<Used> used);
  Comm(Comm&& other) noexcept;
  Comm& operator=(Comm&&) = delete;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm();

  /// Throws Error{aborted} where it is closed.
  Used::Call open() const { return Used::Call(*used_); }
  const std::shared_ptr<Used>& used() const { return used_; }
  const std::shared_ptr<Keeper>& keeper() const { return keeper_; }

  /// Begins an operation. The GIL is held meanwhile unless the library may call Python.
  template <typename Begin>
  ccoll::Work begin(Begin&& begin) {
    keeper_->sweep();
    const auto call = open();
    const MaybeAway away;
    return begin(*call);
  }

  /// Makes a blocking call with options that have it hand back what is not over soon, as a thread
  /// with the GIL must not wait. The Work of one that is over belongs to no operation.
  template <typename Call>
  ccoll::Work run(CallOptions options, Call&& call) {
    ccoll::Work unfinished;
    options.unfinished = &unfinished;
    keeper_->sweep();
    const auto here = open();
    const MaybeAway away;
    call(*here, options);
    return unfinished;
  }

 private:
  std::shared_ptr<Used> used_;
  std::shared_ptr<Keeper> keeper_;
};

using Class = nb::class_<Comm>;
using Seconds = std::optional<double>;

inline CallOptions call_options(Seconds timeout, std::string_view algorithm,
                                std::string_view label) {
  return {.timeout = limit_of(timeout, "timeout"), .algorithm = algorithm, .label = label};
}

/// Defines a call and, as `name`_async, its form that returns a Work; both have all of `arguments`.
template <typename Blocking, typename Async, typename... Named>
void define_both(Class& communicator, const char* name, Blocking blocking, Async async,
                 const char* doc, const char* async_doc, const Named&... arguments) {
  communicator.def(name, blocking, arguments..., doc);
  communicator.def((std::string(name) + "_async").c_str(), async, arguments..., async_doc);
}

/// The result of a call that began, or its Work.
template <Mode mode>
nb::object answer(Comm& self, ccoll::Work work, Arguments&& arguments, Outcome outcome) {
  outcome.copies = arguments.copies();
  if (arguments.copies_in_stream().is_valid()) {
    try {
      arguments.copies_in_stream()();
    } catch (...) {
      leave_alone(std::move(work), arguments.take(), outcome, *self.keeper());
      throw;
    }
  }
  const auto pending = [&] {
    return Pending(std::move(work), arguments.take(), std::move(outcome), self.keeper());
  };
  if constexpr (mode == Mode::async) {
    return nb::cast(pending());
  } else {
    if (auto* const group = CallGroup::of_thread()) return group->add(pending());
    try {
      wait_for(work);
    } catch (...) {
      // After Ctrl-C the operation goes on, and has the arrays.
      if (!work.test()) leave_alone(work, arguments.take(), outcome, *self.keeper());
      throw;
    }
    return outcome.result(work);
  }
}

inline Outcome outcome_of(Output output) {
  return {.value = std::move(output.array), .finish = std::move(output.finish)};
}

/// Whether this thread is in a function of Python that combines contributions.
bool is_in_reduction();
/// A reduction of any of its Python forms.
Reduction reduction_of(nb::handle op);
/// The same for elements of the call, of which complex numbers have few.
Reduction reduction_of(nb::handle op, const Arguments& arguments);

/// Ends what the process has not closed.
void close_all();

}  // namespace ccoll::python

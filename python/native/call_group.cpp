// SPDX-License-Identifier: Apache-2.0
#include "call_group.hpp"

#include <string>

#include "module.hpp"

namespace ccoll::python {
namespace {

thread_local CallGroup* innermost = nullptr;

}  // namespace

CallGroup* CallGroup::of_thread() { return innermost; }

void CallGroup::refuse(const char* call) {
  if (innermost != nullptr)
    ccoll::python::refuse(std::string(call) +
                          " waits, and calls in a CallGroup only begin: expected it outside");
}

nb::object CallGroup::add(Pending call) {
  nb::object now = call.value_before_its_end();
  calls_.push_back(std::move(call));
  return now;
}

void CallGroup::enter(nb::object self) {
  if (is_open_) ccoll::python::refuse("CallGroup: it is open already: expected another one");
  is_open_ = true;
  self_ = std::move(self);
  outer_ = std::exchange(innermost, this);
}

bool CallGroup::unlink() {
  auto** at = &innermost;
  while (*at != nullptr && *at != this) at = &(*at)->outer_;
  if (*at == nullptr) return false;
  *at = std::exchange(outer_, nullptr);
  is_open_ = false;
  return true;
}

void CallGroup::exit(bool raised) {
  const bool is_innermost = innermost == this;
  auto* const outer = outer_;
  // One that another thread began stays open there.
  const bool is_own = unlink();
  nb::object self;
  std::vector<Pending> calls;
  if (is_own) {
    self = std::exchange(self_, {});
    calls = std::exchange(calls_, {});
  }
  if (!is_innermost)
    ccoll::python::refuse(
        "CallGroup: expected its end in the thread that began it, innermost first");
  if (raised) return;  // they go on, and keep their arrays
  if (outer != nullptr) {
    for (auto& each : calls) outer->calls_.push_back(std::move(each));
    return;
  }
  std::exception_ptr first;
  for (auto& each : calls) {
    try {
      each.wait(std::nullopt);
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

void bind_call_group(nb::module_& module) {
  nb::class_<CallGroup>(
      module, "CallGroup",
      "Blocking calls that a thread makes in `with ccoll.CallGroup():` only begin. Its end waits "
      "for all of them.\n\n"
      "So one thread drives several ranks, or sends and receives in any order. Results are there "
      "at the end;\n"
      "what came of a message is not told. The first error is raised when all are over. Where an "
      "exception ends\n"
      "the block, nothing is waited for. Groups nest: the outermost waits. Calls that make a "
      "communicator, of\n"
      "objects, and probe are refused.")
      .def(nb::init<>())
      .def(
          "__enter__",
          [](nb::object self) {
            nb::cast<CallGroup&>(self).enter(self);
            return self;
          },
          nb::lock_self())
      .def(
          "__exit__",
          [](CallGroup& self, nb::handle type, nb::handle, nb::handle) {
            self.exit(!type.is_none());
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::lock_self());
  module.def("_refuse_in_group", &CallGroup::refuse);
}

}  // namespace ccoll::python

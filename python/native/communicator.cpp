// SPDX-License-Identifier: Apache-2.0
// A communicator: questions, groups made from it, and its end.
#include "communicator.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "docs/groups.hpp"
#include "module.hpp"
#include "waiting.hpp"

namespace ccoll::python {
namespace {

using Text = std::string_view;
using Shared = std::shared_ptr<Communicator>;

/// Those that Python's objects stand for.
struct Living {
  nb::ft_mutex mutex;
  std::set<Comm*> all;
};

Living& living() {
  static Living those;
  return those;
}

void begins_to_live(Comm* comm) {
  const nb::ft_lock_guard lock(living().mutex);
  living().all.insert(comm);
}

Shared shared(Communicator&& made) { return std::make_shared<Communicator>(std::move(made)); }

/// A collective that makes a communicator; Ctrl-C aborts the one that it is made from.
template <typename Make>
auto made_from(const Comm& self, Make make) {
  CallGroup::refuse("a call that makes a communicator");
  const auto call = self.open();
  const auto& parent = call.shared();
  return interruptible([parent, make] { return make(*parent); },
                       [parent] { parent->abort("KeyboardInterrupt in Python"); });
}

GroupOptions group_options(const std::string& name, Seconds timeout) {
  return {.name = name, .timeout = limit_of(timeout, "timeout")};
}

/// Ends it by end(communicator); does nothing where it is closed.
template <typename End>
void end(const Comm& self, End end) {
  std::exception_ptr failure;
  try {
    const nb::gil_scoped_release away;
    self.used()->end(end);
  } catch (const Error&) {
    failure = std::current_exception();
  }
  if (!self.used()->is_open()) self.keeper()->clear();
  if (failure) std::rethrow_exception(failure);
}

void close(const Comm& self) {
  end(self, [](Communicator& communicator) { communicator.close(); });
}

/// A question that waits for nobody, though maybe for the library's lock.
template <typename Ask>
auto ask(const Comm& self, Ask ask) {
  const auto call = self.open();
  const nb::gil_scoped_release away;
  return ask(*call);
}

DataType type_named(Text name) {
  std::string known;
  for (const auto type : kDataTypes) {
    if (to_string(type) == name) return type;
    known += (known.empty() ? "" : ", ") + std::string(to_string(type));
  }
  refuse("type is '" + std::string(name) + "': expected one of " + known);
}

nb::dict counters(const Comm& self) {
  const auto counted = ask(self, [](auto& on) { return on.counters(); });
  nb::list peers;
  for (const auto& each : counted.peers) {
    nb::dict peer;
    peer["rank"] = each.rank;
    peer["transport"] = each.transport;
    peer["messages_sent"] = each.messages_sent;
    peer["bytes_sent"] = each.bytes_sent;
    peer["messages_received"] = each.messages_received;
    peer["bytes_received"] = each.bytes_received;
    peer["waits"] = each.waits;
    peer["seconds_lost"] = std::chrono::duration<double>(each.time_lost).count();
    peer["retries"] = each.retries;
    peer["errors"] = each.errors;
    peers.append(peer);
  }
  nb::dict all;
  all["collectives"] = counted.collectives;
  all["peers"] = peers;
  return all;
}

void bind_questions(Class& communicator) {
  using namespace nb::literals;
  communicator
      .def_prop_ro(
          "rank", [](const Comm& self) { return self.open()->rank(); }, "This rank's number.")
      .def_prop_ro(
          "size", [](const Comm& self) { return self.open()->size(); }, "How many ranks there are.")
      .def_prop_ro(
          "name", [](const Comm& self) { return self.open()->name(); },
          "Its errors begin with this name.")
      .def_prop_ro(
          "error", [](const Comm& self) { return ask(self, [](auto& on) { return on.error(); }); },
          "Why it is broken, as text; empty where it is not.")
      .def_prop_ro(
          "error_kind",
          [](const Comm& self) {
            const auto kind = ask(self, [](auto& on) { return on.error_kind(); });
            return kind ? std::optional(to_string(*kind)) : std::nullopt;
          },
          "The kind of that error, 'peer_lost'; None where it is not broken.")
      .def(
          "rank_in",
          [](const Comm& self, const Comm& other, int rank) {
            return self.open()->rank_in(*other.open(), rank);
          },
          "other"_a, "rank"_a,
          "The rank in `other` of this communicator's `rank`; None if that rank is not in it.")
      .def(
          "job_rank", [](const Comm& self, int rank) { return self.open()->job_rank(rank); },
          "rank"_a, "The rank in the communicator that create() made.")
      .def(
          "transport_to",
          [](const Comm& self, int peer) { return self.open()->transport_to(peer); }, "peer"_a,
          "How data travel to rank `peer`: 'inproc', 'shm', 'verbs' or 'tcp'.")
      .def(
          "algorithm_for",
          [](const Comm& self, Text operation, std::size_t count, Text type) {
            return self.open()->algorithm_for(operation, count, type_named(type));
          },
          "operation"_a, "count"_a, "type"_a = "float32", "The algorithm of such a call: 'ring'.")
      .def(
          "explain",
          [](const Comm& self, Text operation, std::size_t count, Text type) {
            return self.open()->explain(operation, count, type_named(type));
          },
          "operation"_a, "count"_a, "type"_a = "float32",
          "Why: the candidates and their predicted times, a table.")
      .def(
          "dump", [](const Comm& self) { return ask(self, [](auto& on) { return on.dump(); }); },
          "The flight recorder as JSON text (docs/diagnosis.md).")
      .def("counters", &counters, "Traffic to and from each other rank, as dictionaries.");
}

void bind_groups(Class& communicator) {
  using namespace nb::literals;
  const auto name = "name"_a = "";
  const auto timeout = "timeout"_a = nb::none();
  const nb::kw_only named;
  communicator
      .def(
          "duplicate",
          [](const Comm& self, const std::string& name, Seconds timeout) {
            const auto options = group_options(name, timeout);
            return Comm(
                made_from(self, [options](auto& on) { return shared(on.duplicate(options)); }));
          },
          named, name, timeout, docs::kDuplicate)
      .def(
          "split",
          [](const Comm& self, std::optional<int> color, int key, const std::string& name,
             Seconds timeout) {
            const auto options = group_options(name, timeout);
            const int number = color.value_or(kNoColor);
            if (number < kNoColor)
              throw Error(ErrorKind::invalid_argument, "split: colour " + std::to_string(number) +
                                                           ": expected 0 or more, or None");
            auto part = made_from(self, [=](auto& on) -> Shared {
              auto made = on.split(number, key, options);
              return made ? shared(std::move(*made)) : nullptr;
            });
            return part ? nb::cast(Comm(std::move(part))) : nb::none();
          },
          "color"_a.none(), "key"_a = 0, named, name, timeout, docs::kSplit)
      .def(
          "subgroup",
          [](const Comm& self, const std::vector<int>& ranks, const std::string& name,
             Seconds timeout) {
            const auto options = group_options(name, timeout);
            return Comm(
                made_from(self, [=](auto& on) { return shared(on.subgroup(ranks, options)); }));
          },
          "ranks"_a, named, name, timeout, docs::kSubgroup)
      .def(
          "shrink",
          [](const Comm& self, const std::optional<std::vector<int>>& excluded,
             const std::string& name, Seconds timeout) {
            const auto options = group_options(name, timeout);
            return Comm(made_from(self, [=](auto& on) {
              return shared(excluded ? on.shrink_without(*excluded, options) : on.shrink(options));
            }));
          },
          "excluded"_a = nb::none(), named, name, timeout, docs::kShrink);
}

void bind_ends(Class& communicator) {
  using namespace nb::literals;
  communicator.def("close", &close, docs::kClose)
      .def_prop_ro(
          "closed", [](const Comm& self) { return !self.used()->is_open(); },
          "Whether close() or leave() was called.")
      .def(
          "leave",
          [](const Comm& self, const std::string& reason) {
            end(self, [&](Communicator& communicator) { communicator.leave(reason); });
          },
          "reason"_a = "", docs::kLeave)
      .def(
          "abort",
          [](const Comm& self, const std::string& reason) {
            ask(self, [&](auto& on) {
              on.abort(reason);
              return 0;
            });
          },
          "reason"_a = "", docs::kAbort)
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__",
          [](Comm& self, nb::handle type, nb::handle, nb::handle) {
            if (type.is_none()) return close(self);
            try {
              end(self, [](Communicator& on) { on.leave("an exception in Python"); });
            } catch (const Error&) {  // the caller's exception counts
            }
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
}

/// The plugin for torch has no Python in it, so it hands over an address.
Comm taken_over(std::intptr_t shared) {
  const std::unique_ptr<Shared> own(reinterpret_cast<Shared*>(shared));
  return Comm(*own);
}

void bind_making(nb::module_& module) {
  using namespace nb::literals;
  module.def("_take_over", &taken_over);
  module.def(
      "create",
      [](nb::handle id, std::optional<std::shared_ptr<Store>> store, int rank, int size,
         CommunicatorOptions options) {
        std::stop_source stop;
        options.start_stop = stop.get_token();
        if (options.device.ordinal != kHost) release_gil_in_calls();
        std::optional<UniqueId> given;
        if (!id.is_none()) given = nb::cast<UniqueId>(id);
        auto made = interruptible(
            [=]() -> Shared {
              if (given) return shared(Communicator::create(*given, rank, size, options));
              if (store) return shared(Communicator::create(*store, rank, size, options));
              return shared(Communicator::create(options));
            },
            [&] { stop.request_stop(); });
        return Comm(std::move(made));
      },
      "id"_a.none(), "store"_a.none(), "rank"_a, "size"_a, "options"_a.lock());
  module.def(
      "create_all",
      [](int size, CommunicatorOptions options) {
        std::stop_source stop;
        options.start_stop = stop.get_token();
        if (options.device.ordinal != kHost) release_gil_in_calls();
        auto made = interruptible([=] { return Communicator::create_all(size, options); },
                                  [&] { stop.request_stop(); });
        nb::list all;
        for (auto& each : made) all.append(nb::cast(Comm(shared(std::move(each)))));
        return all;
      },
      "size"_a, "options"_a.lock());
}

}  // namespace

Used::Call::Call(Used& used) : used_(used) {
  // It counts before it looks, so that either it sees the end, or who ends it sees this call.
  used_.calls_++;
  if (used_.is_open()) return;
  used_.calls_--;
  throw Error(ErrorKind::aborted, "this communicator is closed");
}

bool Used::calls_return_within(std::chrono::milliseconds limit) const {
  using Clock = std::chrono::steady_clock;
  for (const auto begin = Clock::now(); calls_ > 0; std::this_thread::yield())
    if (Clock::now() - begin > limit) return false;
  return true;
}

void Used::end(const std::function<void(Communicator&)>& end) {
  using namespace std::chrono_literals;
  if (is_in_reduction()) {
    // A call that waits for this very thread would never return.
    if (!is_open()) return;
    const Call call(*this);
    end(*call);
    is_closed_ = true;
    return;
  }
  if (is_closed_.exchange(true)) return;
  // A call that makes a communicator may be in it for long. What is aborted returns within 1 s.
  if (!calls_return_within(100ms)) {
    communicator_->abort("it was closed while another thread was in a call of it");
    calls_return_within(2s);
  }
  // A call that is in it even now began long ago. It may still read the pointer, which stays then.
  const auto ended = calls_ > 0 ? communicator_ : std::exchange(communicator_, nullptr);
  end(*ended);
}

Comm::Comm(std::shared_ptr<Used> used)
    : used_(std::move(used)), keeper_(std::make_shared<Keeper>()) {
  begins_to_live(this);
}

Comm::Comm(Comm&& other) noexcept {
  const nb::ft_lock_guard lock(living().mutex);
  used_ = std::move(other.used_);
  keeper_ = std::move(other.keeper_);
  living().all.insert(this);
}

Comm::~Comm() {
  {
    const nb::ft_lock_guard lock(living().mutex);
    living().all.erase(this);
  }
  if (!used_) return;
  {
    const nb::gil_scoped_release away;
    used_.reset();
  }
  keeper_->clear();
}

void close_all() {
  Inside::begin_end();
  std::vector<std::shared_ptr<Used>> all;
  {
    const nb::ft_lock_guard lock(living().mutex);
    for (auto* const each : living().all)
      if (each->used()) all.push_back(each->used());
  }
  {
    const nb::gil_scoped_release away;
    for (const auto& each : all) each->end([](Communicator&) {});
  }
  Inside::await_end();
}

void bind_communicator(nb::module_& module) {
  Class communicator(module, "Communicator", docs::kCommunicator, nb::is_weak_referenceable());
  bind_questions(communicator);
  bind_groups(communicator);
  bind_ends(communicator);
  bind_collectives(communicator);
  bind_v_forms(communicator);
  bind_messages(module, communicator);
  bind_making(module);
}

}  // namespace ccoll::python

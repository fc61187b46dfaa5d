// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "module.hpp"

namespace ccoll::python {
namespace {

using nb::handle;
using Text = std::string_view;

template <Mode mode>
nb::object send(Comm& self, handle x, int to, int tag, Seconds timeout, Text label) {
  Arguments arguments("send");
  const auto options = call_options(timeout, {}, label);
  const auto block = arguments.read(x, "x");
  const auto in_stream = arguments.in_stream(options);
  auto work = self.begin([&](auto& on) { return on.send_async(block, to, tag, in_stream); });
  return answer<mode>(self, std::move(work), std::move(arguments), {});
}

template <Mode mode>
nb::object recv(Comm& self, handle out, int source, int tag, Seconds timeout, Text label) {
  Arguments arguments("recv");
  const auto options = call_options(timeout, {}, label);
  const auto block = arguments.write(out, "out");
  const std::vector parts{arguments.parts()};
  const auto in_stream = arguments.in_stream(options);
  auto work = self.begin([&](auto& on) { return on.recv_async(block, source, tag, in_stream); });
  return answer<mode>(self, std::move(work), std::move(arguments),
                      {.kind = Outcome::Kind::received, .parts = parts});
}

template <Mode mode>
nb::object send_recv(Comm& self, handle x, int to, handle out, int source, int tag, Seconds timeout,
                     Text label) {
  Arguments arguments("send_recv");
  const auto options = call_options(timeout, {}, label);
  const auto in = arguments.write(out, "out");
  const auto sent = arguments.read(x, "x");
  const std::vector parts{arguments.parts()};
  const auto in_stream = arguments.in_stream(options);
  auto work = self.begin(
      [&](auto& on) { return on.send_recv_async(sent, to, in, source, tag, in_stream); });
  return answer<mode>(self, std::move(work), std::move(arguments),
                      {.kind = Outcome::Kind::received, .parts = parts});
}

/// ccoll.Send and ccoll.Recv.
struct Request {
  MessageRequest::What what;
  nb::object array;
  int peer;
  int tag;
};

template <Mode mode>
nb::object batch(Comm& self, nb::sequence requests, Seconds timeout, Text label) {
  Arguments arguments("batch");
  const auto options = call_options(timeout, {}, label);
  std::vector<MessageRequest> all;
  std::vector<int> parts;
  for (const handle each : requests) {
    const Request* request = nullptr;
    if (!nb::try_cast(each, request) || request == nullptr)
      throw nb::type_error("batch: a request is neither a ccoll.Send nor a ccoll.Recv");
    if (request->what == MessageRequest::What::send) {
      all.push_back(MessageRequest::send(arguments.read(request->array, "the array of a Send"),
                                         request->peer, request->tag));
    } else {
      const auto block = arguments.write(request->array, "the array of a Recv");
      all.push_back(MessageRequest::recv(block, request->peer, request->tag));
      parts.push_back(arguments.last_parts());
    }
  }
  const auto in_stream = arguments.in_stream(options);
  auto work = self.begin([&](auto& on) { return on.batch_async(all, in_stream); });
  return answer<mode>(self, std::move(work), std::move(arguments),
                      {.kind = Outcome::Kind::list, .parts = std::move(parts)});
}

nb::object probe(Comm& self, int source, int tag, Seconds timeout, Text label) {
  using Clock = std::chrono::steady_clock;
  CallGroup::refuse("probe");
  const auto limit = timeout ? limit_of(timeout, "timeout") : std::chrono::milliseconds(0);
  const auto begin = Clock::now();
  constexpr std::chrono::milliseconds kSlice{50};
  for (;;) {
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    const bool last = timeout && limit - passed <= kSlice;
    const auto communicator = self.open();
    try {
      const nb::gil_scoped_release away;
      const auto slice = last ? std::max(limit - passed, std::chrono::milliseconds(1)) : kSlice;
      return [&] {
        const auto found = communicator->probe(source, tag, {.timeout = slice, .label = label});
        const nb::gil_scoped_acquire back;
        return nb::cast(found);
      }();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timed_out || last || !communicator->error().empty()) throw;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

nb::object try_probe(Comm& self, int source, int tag) {
  const auto communicator = self.open();
  std::optional<Received> found;
  {
    const MaybeAway away;
    found = communicator->try_probe(source, tag);
  }
  return found ? nb::cast(*found) : nb::none();
}

void bind_requests(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Received>(module, "Received", "A message that came.")
      .def_ro("source", &Received::from, "The sender's rank.")
      .def_ro("tag", &Received::tag)
      .def_ro("count", &Received::count,
              "Elements: of the receive's array; of a probe, as the sender gave.")
      .def_ro("bytes", &Received::bytes)
      .def(
          "__eq__", [](const Received& one, const Received& other) { return one == other; },
          nb::is_operator())
      .def("__repr__", [](const Received& it) {
        return "Received(source=" + std::to_string(it.from) + ", tag=" + std::to_string(it.tag) +
               ", count=" + std::to_string(it.count) + ", bytes=" + std::to_string(it.bytes) + ")";
      });
  nb::class_<Request> request(module, "Request", "One message of a batch; Send and Recv make it.");
  module.def(
      "Send",
      [](nb::object x, int to, int tag) {
        return Request{MessageRequest::What::send, std::move(x), to, tag};
      },
      "x"_a, "to"_a, "tag"_a = 0, "A message of array x to rank `to`, as a part of batch().");
  module.def(
      "Recv",
      [](nb::object out, int source, int tag) {
        return Request{MessageRequest::What::recv, std::move(out), source, tag};
      },
      "out"_a, "source"_a, "tag"_a = 0,
      "A message from rank `source` into array out, as a part of batch().");
}

}  // namespace

void bind_messages(nb::module_& module, Class& communicator) {
  using namespace nb::literals;
  bind_requests(module);
  const auto both = [&](const char* name, auto blocking, auto async, const char* doc,
                        auto... arguments) {
    define_both(communicator, name, blocking, async, doc,
                "The same without waiting: returns a Work, whose wait() returns the result.",
                arguments..., nb::kw_only(), "timeout"_a = nb::none(), "label"_a = "");
  };
  const auto tag = "tag"_a = 0;
  both("send", send<Mode::blocking>, send<Mode::async>,
       "Sends x to rank `to` under a tag of 0 or more.\n\n"
       "Returns when x may be written again: up to the eager limit (64 KiB) that is at once, as "
       "long as the\n"
       "receiver's queue has room; larger messages wait for their receive. timeout: in seconds.",
       "x"_a.none(), "to"_a, tag);
  both(
      "recv", recv<Mode::blocking>, recv<Mode::async>,
      "Receives a message from rank `source` (or ANY_RANK) with that tag (or ANY_TAG) into out.\n\n"
      "The message may be shorter than out. Returns a Received. A message that is longer raises "
      "Mismatch and\n"
      "stays the first to be received.",
      "out"_a.none(), "source"_a, tag);
  both(
      "send_recv", send_recv<Mode::blocking>, send_recv<Mode::async>,
      "Sends x to rank `to` and receives from rank `source` into out, at once; returns a Received.",
      "x"_a, "to"_a, "out"_a.none(), "source"_a, tag);
  both("batch", batch<Mode::blocking>, batch<Mode::async>,
       "Sends and receives all of a list of Send(...) and Recv(...) at once.\n\n"
       "Returns a list with a Received for each Recv.",
       "requests"_a);
  communicator.def(
      "probe", &probe, "source"_a = kAnyRank, "tag"_a = kAnyTag, nb::kw_only(),
      "timeout"_a = nb::none(), "label"_a = "",
      "Waits for a message that such a recv would take, and leaves it there. Returns a "
      "Received.\n\n"
      "timeout: in seconds; None: none. When it passes, TimeoutError is raised; nothing breaks.");
  communicator.def("try_probe", &try_probe, "source"_a = kAnyRank, "tag"_a = kAnyTag,
                   "As probe, without waiting: None where there is no such message.");
}

}  // namespace ccoll::python

// SPDX-License-Identifier: Apache-2.0
// Failures of communicators whose ranks have other numbers in the job.
#include <catch2/catch.hpp>

#include "comm/api/session.hpp"
#include "comm/progress/owner.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::message_of;
using testing::run_ranks;
using testing::run_threads;

namespace {

/// Runs body on ranks 2, 3 and 4 of a job of five, which are ranks 0 to 2 of the part it gets. The
/// others stay until all are done. Returns what each rank of the job threw.
std::vector<std::string> run_part(const std::function<void(Session&)>& body) {
  const auto store = make_inproc_store();
  std::vector<std::shared_ptr<Member>> members(5);
  auto joined = run_threads(5, [&](int rank) {
    members[static_cast<std::size_t>(rank)] =
        value_or_throw(Member::join(*store, static_cast<std::uint32_t>(rank), 5, {}));
  });
  for (const auto& error : joined) REQUIRE(error == "");
  CommunicatorOptions options;
  options.name = "part";
  options.timeout = 5s;
  return run_threads(5, [&](int rank) {
    if (rank < 2) return;
    const auto& member = members[static_cast<std::size_t>(rank)];
    // Transports remember ended communicators, so each needs its own number.
    const auto part =
        value_or_throw(Session::make(member, member->control().job() + 1, options,
                                     Group({2, 3, 4}, static_cast<std::uint32_t>(rank))));
    body(*part);
  });
}

std::string failure_of_barrier(Session& part) {
  Call barrier;
  barrier.kind = Kind::barrier;
  barrier.count = 1;
  barrier.op = ReduceOp::max;
  const Owner owned(part.progress());
  const auto over = part.calls().run(owned, barrier);
  return over ? "no error" : part.self().for_caller(over.error()).message;
}

}  // namespace

TEST_CASE("failures: what one rank of a part met ends the calls of all, and names it right",
          "[comm]") {
  const auto errors = run_part([](Session& part) {
    if (part.self().rank() == 1) {
      const Owner owned(part.progress());
      part.failures().threw(owned, {ErrorKind::exhausted, "out of memory", std::nullopt});
    }
    const auto got = failure_of_barrier(part);
    const std::string wanted = "rank 1 failed: out of memory (rank 3 of the job is rank 1 here)";
    expect(got.starts_with("part: ") && got.ends_with(wanted), got);
    expect(got.find("timed out") == std::string::npos, got);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("failures: of news with a culprit, a part drops only what is told to everyone",
          "[comm]") {
  const auto errors = run_part([](Session& part) {
    const Failure failure{ErrorKind::internal, "rank 0 of the job is at fault", 0};
    part.control_news().failed(kEveryCommunicator, failure);
    const auto first = failure_of_barrier(part);
    expect(first == "no error", first);
    // No rank may close, and so end the barrier of a rank that is still in it.
    const auto second = failure_of_barrier(part);
    expect(second == "no error", second);
    part.control_news().failed(part.self().job() + 1, failure);
    const auto got = failure_of_barrier(part);
    expect(got.starts_with("part: ") && got.ends_with(": rank 0 of the job is at fault"), got);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("failures: of messages, too, begin with the communicator's name and the call's label",
          "[comm]") {
  CommunicatorOptions options;
  options.timeout = 20s;
  const auto errors = run_ranks(2, options, [](Communicator& world) {
    auto pair = world.duplicate({.name = "pair", .timeout = {}});
    const std::vector<std::int32_t> data(10, 1);
    std::vector<std::int32_t> small(5);
    if (pair.rank() == 0) pair.send(std::span(data), 1, 7);
    if (pair.rank() == 1) {
      CallOptions labelled;
      labelled.label = "halo";
      const auto refused = message_of([&] { pair.recv(std::span(small), 0, 7, labelled); });
      expect(refused ==
                 "mismatch: \"halo\": pair: recv from rank 0 tag 7 on rank 1: the message has 40 "
                 "bytes, the buffer 20",
             refused);
      labelled.timeout = 50ms;
      const auto late = message_of([&] { pair.probe(0, 8, labelled); });
      expect(late.starts_with(
                 "timed_out: \"halo\": pair: probe from rank 0 tag 8, \"halo\" on rank 1"),
             late);
    }
    for (const auto& wrong :
         {message_of([&] { pair.probe(3); }), message_of([&] { pair.try_probe(3); }),
          message_of([&] { static_cast<void>(pair.transport_to(3)); })})
      expect(wrong.starts_with("invalid_argument: pair: "), wrong);
    world.barrier();
    // An error that ends all operations is reported by each with its label.
    if (pair.rank() == 0) return;
    std::vector<Work> works;
    for (const auto* label : {"first", "second"}) {
      CallOptions labelled;
      labelled.label = label;
      labelled.timeout = 100ms;
      works.push_back(pair.recv_async(small, 0, 9, labelled));
    }
    expect(!message_of([&] { works[0].wait(); }).empty(), "");
    for (std::size_t i = 0; i < 2; i++) {
      const auto error = message_of([&] { works[i].wait(); });
      expect(error.find(i == 0 ? "\"first\"" : "\"second\"") != std::string::npos, error);
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

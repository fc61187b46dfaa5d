// SPDX-License-Identifier: Apache-2.0
// Failures of communicators whose ranks have other numbers in the job.
#include <catch2/catch.hpp>

#include "comm/implementation.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Implementation = Communicator::Implementation;
using testing::expect;
using testing::run_threads;

namespace {

/// Runs body on ranks 2, 3 and 4 of a job of five, which are 0, 1 and 2 of the part that it is
/// given; the others stay until all are done. Returns what each threw, by rank of the job.
std::vector<std::string> run_part(const std::function<void(Implementation&)>& body) {
  const auto store = make_inproc_store();
  std::vector<std::shared_ptr<Member>> members(5);
  auto joined = run_threads(5, [&](int rank) {
    members[static_cast<std::size_t>(rank)] =
        value_or_throw(Member::join(*store, static_cast<std::uint32_t>(rank), 5, {}, ""));
  });
  for (const auto& error : joined) REQUIRE(error == "");
  CommunicatorOptions options;
  options.name = "part";
  options.timeout = 5s;
  return run_threads(5, [&](int rank) {
    if (rank < 2) return;
    const auto& member = members[static_cast<std::size_t>(rank)];
    // Transports remember which communicators have ended: no two have one number.
    const auto part =
        value_or_throw(Implementation::make(member, member->control().job() + 1, options,
                                            Group({2, 3, 4}, static_cast<std::uint32_t>(rank))));
    body(*part);
  });
}

std::string failure_of_barrier(Implementation& part) {
  Call barrier;
  barrier.kind = Kind::barrier;
  barrier.count = 1;
  barrier.op = ReduceOp::max;
  const Implementation::Owner owner(part);
  const auto over = part.run_as_owner(barrier);
  return over ? "no error" : over.error().message;
}

}  // namespace

TEST_CASE("failures: what one rank of a part met ends the calls of all, and names it right",
          "[comm]") {
  const auto errors = run_part([](Implementation& part) {
    if (part.rank() == 1) {
      const Implementation::Owner owner(part);
      part.threw_as_owner({ErrorKind::exhausted, "out of memory", std::nullopt});
    }
    const auto got = failure_of_barrier(part);
    const std::string wanted =
        "part: rank 1 failed: out of memory (rank 3 of the job is rank 1 here)";
    expect(got.ends_with(wanted) && got.find("timed out") == std::string::npos, got);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("failures: of news with a culprit, a part drops only what is told to everyone",
          "[comm]") {
  const auto errors = run_part([](Implementation& part) {
    const Failure failure{ErrorKind::internal, "rank 0 of the job is at fault", 0};
    part.failed(kEveryCommunicator, failure);
    const auto first = failure_of_barrier(part);
    expect(first == "no error", first);
    // Nobody is to close, and so to end the barrier of one that has yet to come out of it.
    const auto second = failure_of_barrier(part);
    expect(second == "no error", second);
    part.failed(part.job() + 1, failure);
    const auto got = failure_of_barrier(part);
    expect(got.ends_with("part: rank 0 of the job is at fault"), got);
  });
  for (const auto& error : errors) CHECK(error == "");
}

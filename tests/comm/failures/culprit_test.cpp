// SPDX-License-Identifier: Apache-2.0
// An error names the culprit rank in the numbering of the caller's communicator.
#include <catch2/catch.hpp>
#include <chrono>

#include "comm/failures/stands.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::run_ranks;

namespace {

/// The kind and culprit of the error that `call` throws: "timed_out 2".
template <typename Call>
std::string told(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + " " + std::to_string(error.culprit());
  }
  return "no error";
}

void expect_told(const std::string& got, const std::string& wanted) {
  expect(got == wanted, got + " instead of " + wanted);
}

}  // namespace

TEST_CASE("culprit: a mismatch tells one of the two ranks", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    std::vector<float> data(4);
    const auto got = told([&] {
      if (communicator.rank() == 0)
        communicator.all_reduce(data);
      else
        communicator.broadcast(data, 0);
      communicator.barrier();
    });
    expect(got == "mismatch 0" || got == "mismatch 1", got);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("culprit: a message that does not fit tells its sender", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    std::vector<float> data(4);
    if (communicator.rank() == 1)
      communicator.send(data, 0);
    else
      expect_told(told([&] { communicator.recv(std::span(data).first(2), 1); }), "mismatch 1");
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("culprit: the rank has the number of the communicator, not of the job", "[comm]") {
  const auto errors = run_ranks(4, {.timeout = 10s}, [&](Communicator& communicator) {
    // Ranks 3, 2, 1 of the parent are 0, 1, 2 of the part.
    const int rank = communicator.rank();
    auto part = communicator.split(rank == 0 ? kNoColor : 1, -rank);
    if (!part) return;
    if (rank == 1) part->abort("enough");
    expect_told(told([&] { part->barrier(); }), "aborted 2");
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("culprit: a rank that left is told, and a wrong argument is nobody's", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    std::vector<float> data(4);
    expect_told(told([&] { communicator.broadcast(data, 7); }), "invalid_argument -1");
    if (communicator.rank() == 1) return communicator.leave("had enough");
    expect_told(told([&] { communicator.barrier(); }), "peer_lost 1");
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("culprit: a rank that has come since it was asked is none", "[comm][unit]") {
  const History history;
  Stands stands(history, Clocks::now());
  stands.ask({3, {}, {1, 2, 5}});
  stands.take_answer(5, 3, "had not reached this call");
  stands.take_answer(1, 3, "waits");
  CHECK(stands.absent(3, {2, 5}) == 5);
  CHECK(stands.absent(3, {1, 2}) == 2);
  CHECK(stands.absent(3, {1}) == std::nullopt);
  CHECK(stands.absent(4, {2, 5}) == std::nullopt);
}

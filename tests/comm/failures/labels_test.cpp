// SPDX-License-Identifier: Apache-2.0
// Errors name the labels of calls and the names of communicators.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <latch>

#include "comm/record/dump/dump.hpp"
#include "dumps/read.hpp"
#include "support/ranks.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::expect;
using testing::message_of;
using testing::options_for;
using testing::run_ranks;

TEST_CASE("errors: ranks that make different calls learn both labels", "[comm]") {
  // How the mismatch is found: by a slice or by waiting ranks' reports; from the first different
  // call on, or from one that no rank has heard of yet.
  enum class Found { by_slice, by_size, by_waiting, at_close };
  const auto found = GENERATE(Found::by_slice, Found::by_size, Found::by_waiting, Found::at_close);
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name, static_cast<int>(found));
    std::latch sent(2);
    const auto errors = run_ranks(2, options_for(kind.name), [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      std::vector<float> data(12, 1), out(24);
      communicator.barrier();
      CallOptions options;
      const auto label = fmt::format("the call of rank {}", rank);
      options.label = label;
      if (found == Found::by_slice)
        communicator.all_reduce(std::span(data).first(10 + rank), ReduceOp::sum, options);
      if (found == Found::by_size) {
        const std::vector<ConstBlock> inputs = {std::span<const float>(data).first(1),
                                                std::span<const float>(data).first(1)};
        const std::vector<Block> outputs = {std::span(out).subspan(0, 1 + rank),
                                            std::span(out).subspan(4, 2 - rank)};
        communicator.all_to_all_v(inputs, outputs, options);
      }
      if (found == Found::by_waiting)
        communicator.broadcast(std::span(data), 1 - communicator.rank(), options);
      if (found != Found::at_close) return;
      communicator.broadcast(std::span(data), communicator.rank(), options);
      sent.arrive_and_wait();
      communicator.close();
    });
    for (const auto& error : errors) {
      CHECK_THAT(error, Contains("\"the call of rank 0\""));
      CHECK_THAT(error, Contains("\"the call of rank 1\""));
    }
  }
}

TEST_CASE("errors: a mismatch tells of a long label the beginning, and of both sides", "[comm]") {
  const auto errors = run_ranks(2, options_for("inproc"), [&](Communicator& communicator) {
    std::vector<float> data(12, 1);
    const auto label = std::string(5000, communicator.rank() == 0 ? 'a' : 'b');
    CallOptions options;
    options.label = label;
    const auto count = static_cast<std::size_t>(3 + communicator.rank());
    communicator.all_reduce(std::span(data).first(count), ReduceOp::sum, options);
  });
  for (const auto& error : errors) {
    CHECK_THAT(error, Contains("rank 0 all_reduce of 3 float32, sum (call 0, \"aaa"));
    CHECK_THAT(error, Contains("rank 1 all_reduce of 4 float32, sum (call 0, \"bbb"));
  }
}

TEST_CASE("errors: the label and the name stand in front, once, whatever the text has", "[comm]") {
  auto options = options_for("inproc");
  options.name = "part";
  const auto errors = run_ranks(2, options, [&](Communicator& communicator) {
    const auto odd =
        Reduction::custom([](const void*, void*, std::size_t,
                             DataType) { throw std::runtime_error("part: \"halo\" is odd"); },
                          {.name = "odd"});
    std::vector<float> data(12, 1);
    const std::string cause = "the reduction 'odd' threw: part: \"halo\" is odd";
    const auto check = [&](const std::string& error, const std::string& front) {
      expect(error.starts_with(front) && error.find(cause) == error.rfind(cause) &&
                 error.find("part: ", front.size()) == error.find(cause) + cause.find("part: "),
             error);
    };
    const CallOptions halo{.timeout = {}, .algorithm = "", .label = "halo"};
    check(message_of([&] {
            communicator.all_reduce(std::span(data), odd, halo);
            communicator.barrier(halo);
          }),
          "aborted: \"halo\": part: ");
    check(message_of([&] { communicator.barrier(halo); }),
          "aborted: \"halo\": part: an earlier failure broke the communicator: ");
    check(message_of([&] { communicator.barrier(); }),
          "aborted: part: an earlier failure broke the communicator: ");
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("errors: of a label, what is no text is escaped, and of a long one the beginning told",
          "[comm]") {
  const std::string label = "red\n\x1b[31m\xff" + std::string(5000, 'x');
  const std::string shown = "red\\n\\x1b[31m\\xff" + std::string(100 - 17, 'x') + "...";
  const auto errors = run_ranks(2, options_for("inproc"), [&](Communicator& communicator) {
    std::vector<float> data(12, 1);
    const auto check = [&](const std::string& text) {
      expect(text.find('"' + shown + '"') != std::string::npos &&
                 text.find("\x1b") == std::string::npos &&
                 text.find(std::string(101, 'x')) == std::string::npos,
             text);
    };
    const CallOptions brief{.timeout = 200ms, .algorithm = "", .label = label};
    const auto fails = [&](const auto& call) { check(message_of([&] { call(); })); };
    fails([&] { communicator.broadcast(std::span(data), 9, brief); });
    fails([&] { communicator.probe(0, 3, brief); });
    auto part = communicator.duplicate(), other = communicator.duplicate();
    fails([&] { part.recv(std::span(data), 1 - part.rank(), 5, brief); });
    fails([&] {
      const auto count = static_cast<std::size_t>(10 + other.rank());
      other.all_reduce(std::span(data).first(count), ReduceOp::sum,
                       {.timeout = {}, .algorithm = "", .label = label});
    });
    const auto dumped = dump::parse(other.dump());
    expect(dumped.has_value() && dumped->last_calls.at(0).label == shown, "the dump's label");
    check(dumped->failure->message);
    for (const auto& operation : dumped->under_way) check(operation.text);
  });
  for (const auto& error : errors) CHECK(error == "");
}

// SPDX-License-Identifier: Apache-2.0
#include "schedule/text.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "verify/samples.hpp"

namespace ccoll {
namespace {

using Random = std::mt19937_64;

std::uint32_t below(Random& random, std::uint32_t end) {
  return static_cast<std::uint32_t>(random() % end);
}

std::vector<Operand> random_operands(Random& random, std::uint32_t most) {
  std::vector<Operand> operands(below(random, most + 1));
  for (Operand& operand : operands) {
    operand.buffer = static_cast<Buffer>(below(random, 3));
    operand.block = below(random, 4) == 0 ? UINT32_MAX : below(random, 9);
    operand.blocks = below(random, 3) == 0 ? 1 + below(random, 1000) : 1;
  }
  return operands;
}

Step random_step(Random& random, Rank size) {
  Step step;
  for (std::uint32_t i = below(random, 3); i > 0; --i) {
    step.receives.push_back({below(random, size), static_cast<std::uint16_t>(below(random, 3))});
  }
  step.local = random_operands(random, 2);
  step.store = random_operands(random, 3);
  for (std::uint32_t i = below(random, 4); i > 0; --i) step.sends.push_back(below(random, size));
  step.finish = below(random, 2) == 0;
  step.lend = static_cast<Lend>(below(random, 3));
  return step;
}

Program random_program(Random& random, Rank rank, Rank size) {
  Program program{
      rank, size, 1 + below(random, 9), static_cast<std::uint16_t>(1 + below(random, 3)), {}};
  program.lanes.resize(below(random, 4));
  for (Lane& lane : program.lanes) {
    lane.stripe = static_cast<std::uint16_t>(below(random, program.stripes));
    if (below(random, 2) == 0) {
      lane.scratch_block = below(random, 9);
      lane.scratch_blocks = 1 + below(random, 9);
    }
    for (std::uint32_t i = below(random, 5); i > 0; --i) {
      lane.steps.push_back(random_step(random, size));
    }
  }
  for (Lane& lane : program.lanes) {
    for (Step& step : lane.steps) {
      const auto other = below(random, static_cast<std::uint32_t>(program.lanes.size()));
      const std::size_t steps = program.lanes[other].steps.size();
      if (steps == 0 || below(random, 2) == 0) continue;
      step.after = After{static_cast<std::uint16_t>(other),
                         below(random, static_cast<std::uint32_t>(steps))};
    }
  }
  return program;
}

TEST_CASE("schedule text: parsing what was printed gives the same program",
          "[schedule][text][property]") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  Random random(seed);
  for (int round = 0; round < 500; ++round) {
    const Rank size = 1 + below(random, 9);
    std::vector<Program> programs;
    for (Rank rank = 0; rank < size; ++rank) {
      programs.push_back(random_program(random, rank, size));
    }
    const std::string text = to_string(programs);
    INFO(text);
    const auto parsed = parse_programs(text);
    INFO((parsed ? std::string() : parsed.error().message));
    REQUIRE(parsed);
    REQUIRE(*parsed == programs);
  }
}

TEST_CASE("schedule text: a program reads as the guide shows it", "[schedule][text]") {
  const auto programs = samples::ring(3);
  CHECK(to_string(programs[1]) ==
        "program rank 1 of 3 blocks 3\n"
        "lane 0\n"
        "  0: input[1] -> send 2 lend always\n"
        "  1: recv 0 + input[0] -> send 2\n"
        "  2: recv 0 + input[2] finish -> output[2], send 2 lend always\n"
        "  3: recv 0 -> output[1], send 2 lend always\n"
        "  4: recv 0 -> output[0]\n");
  const auto parsed = parse_program(
      "# one rank\n\nprogram rank 0 of 1 blocks 4  # four\n"
      "lane 0 scratch 2..3\n 0: input[2..4]&input[0]->output[0..3]\r\n");
  REQUIRE(parsed);
  CHECK(parsed->lanes[0].scratch_blocks == 2);
  CHECK(parsed->lanes[0].steps[0].local ==
        std::vector<Operand>{{Buffer::input, 2, 3}, {Buffer::input, 0, 1}});
}

std::string error_of(std::string_view text) {
  const auto parsed = parse_program(text);
  return parsed ? "accepted" : parsed.error().message;
}

TEST_CASE("schedule text: errors name line and reason", "[schedule][text]") {
  const std::string head = "program rank 1 of 4 blocks 4\nlane 0\n";
  CHECK(error_of("") == "line 0: expected 'program', found the end of the text");
  CHECK(error_of("programme") == "line 1: expected 'program', found 'programme'");
  CHECK(error_of("program rank 4 of 4 blocks 1") == "line 1: rank 4 of 4");
  CHECK(error_of("program rank 0 of 1 blocks 0") == "line 1: 0 blocks; there is at least 1");
  CHECK(error_of("program rank 99999999999 of 4") ==
        "line 1: a rank is at most 4294967295, found 99999999999");
  CHECK(error_of("program rank 0 of 1 blocks 1\nlane 1") == "line 2: lane 1 where lane 0 is next");
  CHECK(error_of(head + "  1: input[0] -> send 2") == "line 3: step 1 where step 0 is next");
  CHECK(error_of(head + "  0: input[0] -> send 4") == "line 3: rank 4 of 4");
  CHECK(error_of(head + "  0: inptu[0] -> send 2") ==
        "line 3: expected 'recv', 'input', 'output' or 'scratch', found 'inptu'");
  CHECK(error_of(head + "  0: input[3..2] -> send 2") == "line 3: blocks 3..2 are not a range");
  CHECK(error_of(head + "  0: recv 0 + input[0] + input[1] -> send 2") ==
        "line 3: a second list of local operands; join the parts of one with '&'");
  CHECK(error_of(head + "  0: input[0] -> send 2 lend often") ==
        "line 3: expected 'never', 'if_separate' or 'always', found 'often'");
  CHECK(error_of(head + "  0: input[0] -> send") ==
        "line 3: expected a rank, found the end of the line");
  CHECK(error_of(head + "  0: input[0] -> send 2 after lane 1 step 0\n") ==
        "line 3: rank 1 has no lane 1 step 0 to come after");
  CHECK(error_of(head + "  0: input[0] -> send 2 after lane 1 step 0\n"
                        "  1: input[0] -> send 2 after lane 0 step 0\n") ==
        "line 3: rank 1 has no lane 1 step 0 to come after");
  CHECK(error_of(head + "  0: input[0] \x1b[31m") ==
        "line 3: expected the end of the line, found '?'");
}

TEST_CASE("schedule text: a whole schedule has each rank once, in order", "[schedule][text]") {
  auto programs = samples::ring(3);
  REQUIRE(parse_programs(to_string(programs)));
  std::swap(programs[0], programs[1]);
  CHECK_FALSE(parse_programs(to_string(programs)));
  programs.pop_back();
  CHECK_FALSE(parse_programs(to_string(programs)));
  CHECK_FALSE(parse_programs(""));
  // The header may claim any number of ranks.
  const auto claimed = parse_programs("program rank 0 of 4294967295 blocks 1\n");
  REQUIRE_FALSE(claimed);
  CHECK(claimed.error().message ==
        "the programs of ranks 1 to 4294967294 are missing: expected 4294967295 in all");
}

TEST_CASE("schedule text: damaged text never does worse than fail", "[schedule][text][property]") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  Random random(seed);
  const std::string right = to_string(samples::tree());
  std::size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = right;
    for (std::uint32_t i = 1 + below(random, 4); i > 0; --i) {
      const std::size_t at = random() % text.size();
      if (below(random, 2) == 0) {
        text[at] = static_cast<char>(random());
      } else {
        text.erase(at, 1 + below(random, 9));
      }
      if (text.empty()) text.assign(1, ' ');
    }
    const auto parsed = parse_programs(text);
    // Accepted text prints and parses again.
    if (parsed) REQUIRE(parse_programs(to_string(*parsed)) == parsed);
    refused += parsed ? 0 : 1;
  }
  CHECK(refused > 1000);
}

}  // namespace
}  // namespace ccoll

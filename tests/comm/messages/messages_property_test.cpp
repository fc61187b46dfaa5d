// SPDX-License-Identifier: Apache-2.0
// Random programs of sends and receives, checked against MPI's matching rule.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <random>

#include "comm/messages/messages.hpp"
#include "support/effort.hpp"
#include "support/ranks.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using testing::expect;
using testing::run_ranks;

namespace {

/// One message of the program, known to all ranks: element 0 is its number, element i that + i.
struct Sent {
  int from, to, tag;
  std::int64_t number;
  std::size_t count;
};

/// How a rank requests its messages; each rank uses one way, so that each receive is matched.
enum class Asking { by_name, any_rank, any_tag, anything };

struct Asked {
  int from, tag;
  std::vector<std::int64_t> buffer = {};
  Work work = {};
};

struct Script {
  int size = 0;
  std::vector<Sent> messages;
  std::vector<Asking> asking;  // by rank
  std::size_t longest = 0;
  bool receives_late = false;
};

Script random_script(std::mt19937_64& random, int messages) {
  Script script;
  script.size = static_cast<int>(1 + random() % 4);
  script.receives_late = random() % 2 == 0;
  const auto ranks = static_cast<std::uint64_t>(script.size);
  for (int rank = 0; rank < script.size; rank++)
    script.asking.push_back(static_cast<Asking>(random() % 4));
  for (int i = 0; i < messages; i++) {
    const std::size_t count = 1 + (random() % 8 == 0 ? random() % 40'000 : random() % 50);
    script.messages.push_back({static_cast<int>(random() % ranks),
                               static_cast<int>(random() % ranks), static_cast<int>(random() % 3),
                               i * 1'000'000LL, count});
    script.longest = std::max(script.longest, count);
  }
  return script;
}

std::vector<std::int64_t> content(const Sent& message) {
  std::vector<std::int64_t> data(message.count);
  std::iota(data.begin(), data.end(), message.number);
  return data;
}

std::vector<Asked> requests_of(const Script& script, int rank, std::mt19937_64& random) {
  std::vector<Asked> asked;
  const auto how = script.asking[static_cast<std::size_t>(rank)];
  for (const auto& message : script.messages) {
    if (message.to != rank) continue;
    const bool any_rank = how == Asking::any_rank || how == Asking::anything;
    const bool any_tag = how == Asking::any_tag || how == Asking::anything;
    asked.push_back({any_rank ? kAnyRank : message.from, any_tag ? kAnyTag : message.tag});
  }
  std::shuffle(asked.begin(), asked.end(), random);
  for (auto& each : asked) each.buffer.assign(script.longest, -1);
  return asked;
}

/// Finds the message that a receive got by its content, and compares the whole of it.
const Sent& identify(const Script& script, int rank, const Asked& asked) {
  const auto got = asked.work.received();
  const auto number = asked.buffer[0] / 1'000'000;
  expect(asked.buffer[0] >= 0 && number < static_cast<std::int64_t>(script.messages.size()),
         "nothing came");
  const auto& message = script.messages[static_cast<std::size_t>(number)];
  expect(got == Received{message.from, message.tag, message.count, message.count * 8},
         fmt::format("message {}: what came is told wrongly", number));
  expect(message.to == rank && (asked.from == kAnyRank || asked.from == message.from) &&
             (asked.tag == kAnyTag || asked.tag == message.tag),
         fmt::format("message {} went to a receive that it does not match", number));
  const auto wanted = content(message);
  expect(std::equal(wanted.begin(), wanted.end(), asked.buffer.begin()),
         fmt::format("message {} is damaged", number));
  expect(std::all_of(asked.buffer.begin() + static_cast<std::ptrdiff_t>(message.count),
                     asked.buffer.end(), [](auto value) { return value == -1; }),
         fmt::format("message {} wrote beyond its end", number));
  return message;
}

/// Checks that no receive got a message that an earlier matching receive of the same sender should
/// have got, and that no message arrived twice.
void check_matching(const Script& script, int rank, const std::vector<Asked>& asked) {
  std::vector<const Sent*> got;
  for (const auto& each : asked) got.push_back(&identify(script, rank, each));
  for (std::size_t i = 0; i < got.size(); i++) {
    for (std::size_t later = i + 1; later < got.size(); later++) {
      const auto& other = *got[later];
      const bool matches = asked[i].tag == kAnyTag || asked[i].tag == other.tag;
      expect(other.number != got[i]->number, "a message came twice");
      expect(other.from != got[i]->from || !matches || other.number > got[i]->number,
             fmt::format("message {} overtook message {}", got[i]->number / 1'000'000,
                         other.number / 1'000'000));
    }
  }
}

void play(const Script& script, std::uint64_t seed, Communicator& communicator) {
  const int rank = communicator.rank();
  std::mt19937_64 random(seed + static_cast<std::uint64_t>(rank));
  auto asked = requests_of(script, rank, random);
  std::vector<std::vector<std::int64_t>> contents;
  for (const auto& message : script.messages)
    if (message.from == rank) contents.push_back(content(message));

  std::vector<Work> sends;
  std::size_t received = 0, sent = 0;
  const auto receive_one = [&] {
    auto& each = asked[received++];
    each.work = communicator.recv_async(std::span(each.buffer), each.from, each.tag);
  };
  for (const auto& message : script.messages) {
    if (message.from != rank) continue;
    while (!script.receives_late && received < asked.size() && random() % 2 == 0) receive_one();
    if (random() % 8 == 0) communicator.try_probe();
    const std::span<const std::int64_t> data = contents[sent++];
    sends.push_back(communicator.send_async(data, message.to, message.tag));
  }
  if (script.receives_late) communicator.barrier();
  while (received < asked.size()) receive_one();
  for (auto& each : asked) each.work.wait();
  for (auto& work : sends) work.wait();
  check_matching(script, rank, asked);
}

}  // namespace

TEST_CASE("messages: random programs match as MPI matches, whatever is eager", "[comm][property]") {
  const bool reduced = testing::reduced();
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < (reduced ? 4 : 12); trial++) {
    const auto script = random_script(random, reduced ? 60 : 200);
    for (const auto& kind : testing::usable_transports()) {
      CommunicatorOptions options;
      options.transport = kind.name;
      options.timeout = std::chrono::seconds(30);
      options.strict_sends = random() % 4 == 0;
      constexpr std::size_t kLimits[] = {0, 64, 4096, 64 << 10, kMaxEagerBytes};
      options.eager_limit = kLimits[random() % std::size(kLimits)];
      const auto errors = run_ranks(script.size, options, [&](Communicator& communicator) {
        play(script, seed, communicator);
      });
      CAPTURE(trial, kind.name, script.size, options.strict_sends, options.eager_limit);
      for (const auto& error : errors) REQUIRE(error == "");
    }
  }
}

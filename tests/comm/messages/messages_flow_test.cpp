// SPDX-License-Identifier: Apache-2.0
// Messages when links are full, credit is spent, or the receiver is in another call.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "comm/messages/messages.hpp"
#include "comm/on_transports.hpp"
#include "engine/inproc_ranks.hpp"
#include "support/effort.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::on_all_transports;
using testing::run_ranks;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes content(int from, std::size_t number, std::size_t bytes) {
  Bytes data(bytes);
  std::iota(data.begin(), data.end(),
            static_cast<std::uint8_t>(7 * static_cast<std::size_t>(from) + number));
  return data;
}

}  // namespace

TEST_CASE("messages: both ways at once, with no credit left, no link takes a slice too many",
          "[comm][property]") {
  // Announcements and clear-to-sends for the peer share a link, and their order varies.
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  CommunicatorOptions options;
  options.eager_limit = 1000;
  on_all_transports(
      2,
      [&](Communicator& communicator) {
        const int me = communicator.rank(), peer = 1 - me;
        std::mt19937_64 random(seed);
        std::vector<std::size_t> bytes(testing::reduced() ? 600 : 3000);
        for (auto& each : bytes) each = random() % 3 == 0 ? random() % 5000 : random() % 1000;
        std::vector<Bytes> in, out;
        for (std::size_t i = 0; i < bytes.size(); i++) {
          in.emplace_back(bytes[i]);
          out.push_back(content(me, i, bytes[i]));
        }
        std::vector<MessageRequest> requests;
        for (std::size_t i = 0; i < bytes.size(); i++) {
          requests.push_back(MessageRequest::recv(std::span(in[i]), peer));
          requests.push_back(MessageRequest::send(std::span(out[i]), peer));
        }
        // They are received last, and hold all credit until then.
        const Bytes held(1000, 3);
        constexpr std::size_t kHeld = 1000;
        std::vector<Work> works;
        for (std::size_t i = 0; i < kHeld; i++)
          works.push_back(communicator.send_async(held, peer, 1));
        communicator.batch(requests);
        Bytes got(held.size());
        for (std::size_t i = 0; i < kHeld; i++) communicator.recv(std::span(got), peer, 1);
        for (auto& work : works) work.wait();
        for (std::size_t i = 0; i < bytes.size(); i++)
          expect(in[i] == content(peer, i, bytes[i]), fmt::format("message {} is damaged", i));
      },
      options);
}

TEST_CASE("messages: up to the greatest eager limit, ranks that send before they receive go on",
          "[comm]") {
  CommunicatorOptions options;
  options.eager_limit = kMaxEagerBytes;
  on_all_transports(
      2,
      [&](Communicator& communicator) {
        const int me = communicator.rank(), peer = 1 - me;
        const auto data = content(me, 0, options.eager_limit);
        Bytes got(data.size());
        communicator.send(std::span<const std::uint8_t>(data), peer);
        communicator.recv(std::span(got), peer);
        expect(got == content(peer, 0, got.size()), "the message is damaged");
      },
      options);
}

namespace {

/// Two ranks' messages, moved step by step.
struct TwoRanks {
  std::shared_ptr<MessageOperation> post(std::size_t rank, MessageOperation::What what,
                                         const Bytes& place) {
    auto operation = std::make_shared<MessageOperation>();
    operation->what = what;
    operation->pattern = {static_cast<Rank>(1 - rank), 5};
    operation->type = DataType::uint8;
    operation->bytes = place.size();
    operation->input = reinterpret_cast<const std::byte*>(place.data());
    operation->output = const_cast<std::byte*>(operation->input);
    REQUIRE(ranks[rank].post(operation));
    return operation;
  }
  auto advance(std::size_t rank) { return ranks[rank].advance(Attention::everyone); }

  static Failure told(Failure failure, std::string_view) { return failure; }
  test::Links links{2, 1};
  const std::array<Group, 2> groups{Group::whole_job(2, 0), Group::whole_job(2, 1)};
  std::array<Messages, 2> ranks{Messages(groups[0], links.of(0), {}, told),
                                Messages(groups[1], links.of(1), {}, told)};
};

}  // namespace

TEST_CASE("messages: a round in which an operation ends counts as one in which something moved",
          "[comm]") {
  // Otherwise a thread that waits for it would sleep, and nobody would ring again.
  TwoRanks two;
  const auto data = content(0, 1, GENERATE(std::size_t{0}, 100, 64 << 10, 1 << 20));
  Bytes got(data.size());
  const std::array operations{two.post(0, MessageOperation::What::send, data),
                              two.post(1, MessageOperation::What::recv, got)};
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!operations[0]->done || !operations[1]->done) {
    REQUIRE(std::chrono::steady_clock::now() < end);
    for (std::size_t i = 0; i < 2; i++) {
      const bool was_done = operations[i]->done;
      const auto moved = two.advance(i);
      REQUIRE(moved);
      CHECK((*moved || operations[i]->done == was_done));
    }
  }
  CHECK(got == data);
}

TEST_CASE("messages: what a peer has taken is sent, though it leaves while another is awaited",
          "[comm]") {
  TwoRanks two;
  const auto data = content(0, 1, 256 << 10);
  Bytes got(data.size()), never(8);
  const auto sent = two.post(0, MessageOperation::What::send, data);
  const auto awaited = two.post(0, MessageOperation::What::recv, never);
  const auto received = two.post(1, MessageOperation::What::recv, got);
  for (int round = 0; round < 1000 && !received->done; round++)
    for (const std::size_t rank : {0, 1}) REQUIRE(two.advance(rank));
  REQUIRE(received->done);
  REQUIRE_FALSE(sent->done);
  two.links.leave(1);
  CHECK_FALSE(two.advance(0));
  CHECK(sent->done);
  CHECK_FALSE(awaited->done);
}

TEST_CASE("messages: go on while their receiver is in a collective and has received nothing yet",
          "[comm]") {
  // They exceed what a link holds, but not what the receiver keeps.
  for (const auto& [messages, bytes] : {std::pair(100, 8), std::pair(15, 64 << 10)}) {
    on_all_transports(3, [messages = messages, bytes = bytes](Communicator& communicator) {
      const auto data = content(0, 1, static_cast<std::size_t>(bytes));
      Bytes got(data.size());
      // Taking turns also covers ranks that have received before.
      for (int sender = 0; sender < communicator.size(); sender++) {
        if (communicator.rank() == sender) {
          for (int i = 0; i < messages; i++)
            for (int to = 0; to < communicator.size(); to++)
              if (to != sender) communicator.send(std::span<const std::uint8_t>(data), to);
          communicator.barrier();
          continue;
        }
        auto barrier = communicator.barrier_async();
        // Meanwhile only the service thread looks after the communicator.
        if (sender == 2) testing::be_late(50ms);
        barrier.wait();
        for (int i = 0; i < messages; i++) {
          communicator.recv(std::span(got), i % 2 == 0 ? sender : kAnyRank);
          expect(got == data, fmt::format("message {} is damaged", i));
        }
      }
    });
  }
}

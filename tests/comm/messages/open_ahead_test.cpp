// SPDX-License-Identifier: Apache-2.0
// The links of a small job's messages, which are opened before any message is sent.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "comm/messages/messages.hpp"
#include "net/listener.hpp"
#include "support/real_time.hpp"
#include "transport/inproc_residence.hpp"
#include "transport/transport_set.hpp"

using namespace ccoll;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kOwnOfTheJob = 4711;

/// Two ranks of this process, with the messages of one communicator between them.
class RanksOfAJob {
 public:
  explicit RanksOfAJob(std::uint64_t communicator, const char* transport = "shm") {
    TransportContext context;
    context.service = net::Service::shared();
    context.job = kOwnOfTheJob;
    for (std::uint32_t rank = 0; rank < 2; rank++) {
      listeners_[rank] =
          net::Listener::open(context.service, "", std::string(),
                              [this, rank](net::Purpose purpose, net::Stream stream) {
                                sets_[rank]->accept(purpose, std::move(stream).release());
                              })
              .value();
      auto& address = context.table.emplace_back();
      address.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
      address.port = listeners_[rank]->endpoint().port();
      residences_[rank].emplace(address);
    }
    for (context.rank = 0; context.rank < 2; context.rank++)
      sets_[context.rank] = std::make_shared<TransportSet>(context, transport);
    for (std::uint32_t rank = 0; rank < 2; rank++) {
      links_[rank].emplace(communicator, std::vector<std::uint32_t>{0, 1}, sets_[rank],
                           Waiter::make().value());
      messages_[rank].emplace(groups_[rank], *links_[rank], Messages::Limits(),
                              [](Failure failure, std::string_view) { return failure; });
    }
  }

  Messages& of(std::size_t rank) { return *messages_[rank]; }

 private:
  const std::array<Group, 2> groups_{Group::whole_job(2, 0), Group::whole_job(2, 1)};
  std::array<std::optional<inproc::Residence>, 2> residences_;
  std::array<std::shared_ptr<TransportSet>, 2> sets_;
  std::array<std::unique_ptr<net::Listener>, 2> listeners_;
  std::array<std::optional<LinkTable>, 2> links_;
  std::array<std::optional<Messages>, 2> messages_;
};

bool sends_at_once(Messages& messages) {
  constexpr std::uint64_t kData = 42;
  return messages.send_now({1, 5}, reinterpret_cast<const std::byte*>(&kData), sizeof kData,
                           DataType::uint8) == Messages::Sent::yes;
}

}  // namespace

TEST_CASE("messages: a small job's first one goes at once, though the other rank does nothing yet",
          "[comm]") {
  const char* const transport = GENERATE("shm", "tcp");
  CAPTURE(transport);
  RanksOfAJob two(kOwnOfTheJob, transport);
  const auto end = std::chrono::steady_clock::now() + 20s;
  bool sent = false;
  while (!sent && std::chrono::steady_clock::now() < end) {
    sent = sends_at_once(two.of(0));
    std::this_thread::yield();
  }
  CHECK(sent);
}

TEST_CASE("messages: communicators made from a job's own one open links when messages need them",
          "[comm]") {
  RanksOfAJob two(kOwnOfTheJob + 1);
  testing::leave_time(50ms);
  CHECK_FALSE(sends_at_once(two.of(0)));
}

// SPDX-License-Identifier: Apache-2.0
// Receives into a device that the test plays: it has little room, and copies when it likes.
#include "comm/messages/landings.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/messages/sides.hpp"

namespace ccoll::test {
namespace {

/// Copies one piece after another into a receive's buffer.
class PlayedDevice final : public device::HostToDevice {
 public:
  PlayedDevice(std::size_t most, std::size_t room) : most_(most), room_(room) {}

  void begin(std::uint32_t /*from*/) override {}
  std::size_t most_bytes() const override { return most_; }
  std::byte* room(std::byte* there, std::size_t bytes) override {
    REQUIRE(bytes > 0);
    REQUIRE(bytes <= most_);
    if (granted_) {
      CHECK(granted_->there == there);
      CHECK(granted_->data.size() == bytes);
    } else if (copies_.size() < room_) {
      granted_ = {there, std::vector<std::byte>(bytes)};
    }
    return granted_ ? granted_->data.data() : nullptr;
  }
  Status fill(std::size_t bytes) override {
    REQUIRE(granted_);
    CHECK(granted_->data.size() == bytes);
    CHECK_FALSE(has_taken_off_);
    copies_.push_back(*std::exchange(granted_, std::nullopt));
    return failure;
  }
  Status take_off() override {
    has_taken_off_ = true;
    return failure;
  }
  bool is_over() override { return has_taken_off_ && copies_.empty(); }

  void copy_one() {
    if (copies_.empty()) return;
    std::ranges::copy(copies_.front().data, copies_.front().there);
    copies_.pop_front();
  }
  /// Data that came another way than by `head`.
  void put(std::byte* there, std::vector<std::byte> data) {
    copies_.push_back({there, std::move(data)});
  }

  Status failure;

 private:
  struct Copy {
    std::byte* there;
    std::vector<std::byte> data;
  };
  const std::size_t most_, room_;
  std::optional<Copy> granted_;
  std::deque<Copy> copies_;
  bool has_taken_off_ = false;
};

/// A receive whose message has come: its first part lies in the head, the rest is being copied.
struct ArrivedMessage {
  std::vector<std::byte> sent, buffer;
  std::shared_ptr<PlayedDevice> device;  ///< null: the buffer is the host's
  std::shared_ptr<MessageOperation> recv = std::make_shared<MessageOperation>();

  ArrivedMessage(std::uint64_t number, std::mt19937& random)
      : sent(content(number, random() % 100)), buffer(sent.size()) {
    recv->what = MessageOperation::What::recv;
    recv->pattern = {0, 7};
    recv->output = buffer.data();
    recv->bytes = sent.size();
    recv->received.emplace();
    if (random() % 4 == 0) {
      buffer = sent;
      return;
    }
    device = std::make_shared<PlayedDevice>(1 + random() % 30, 1 + random() % 3);
    recv->to_device = device;
    const auto head = static_cast<std::ptrdiff_t>(random() % (sent.size() + 1));
    recv->head = {sent.begin(), sent.begin() + head};
    device->put(buffer.data() + head, {sent.begin() + head, sent.end()});
  }
};

struct LandingRank {
  PendingMessages pending{[](Failure failure, std::string_view) { return failure; }};
  Landings landings{pending};

  LandingRank() { static_cast<void>(pending.count_with(0)); }
  void end_transfer(const ArrivedMessage& message) {
    pending.begin(message.recv);
    pending.begin_round();
    landings.end_transfer(*message.recv);
    CHECK(pending.has_moved());
  }
};

}  // namespace

TEST_CASE("landings: a receive is over once all its data is in place, and not before",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 300; trial++) {
    LandingRank landed;
    std::vector<ArrivedMessage> messages;
    for (std::uint64_t i = 0; i < 1 + random() % 5; i++) messages.emplace_back(i, random);
    for (const auto& message : messages) landed.end_transfer(message);
    std::size_t rounds = 0;
    while (!landed.landings.empty()) {
      REQUIRE(rounds++ < 10'000);
      if (const auto& one = messages[random() % messages.size()].device) one->copy_one();
      REQUIRE(landed.landings.advance());
      for (const auto& [sent, buffer, device, recv] : messages) {
        CHECK(recv->done == (!device || device->is_over()));
        if (recv->done)
          CHECK(buffer == sent);
        else
          CHECK(recv->stage == MessageOperation::Stage::landing);
      }
    }
    CHECK(landed.pending.all().empty());
    for (const auto& message : messages) CHECK(message.recv->done);
  }
}

TEST_CASE("landings: a copy that fails is told, and keeps no other receive from its end",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 100; trial++) {
    LandingRank landed;
    std::vector<ArrivedMessage> messages;
    for (std::uint64_t i = 0; i < 5; i++) messages.emplace_back(i, random);
    auto& failing = messages[random() % messages.size()];
    if (!failing.device) continue;
    failing.device->failure = fail(ErrorKind::internal, "no copy");
    for (const auto& message : messages) landed.end_transfer(message);
    // The head's copies fill its device's room: the failure may show later.
    bool has_failed = false;
    for (int round = 0; round < 400; round++) {
      for (const auto& message : messages)
        if (message.device) message.device->copy_one();
      const auto status = landed.landings.advance();
      has_failed |= !status;
      if (!status) CHECK(status.error().message == "no copy");
    }
    CHECK(has_failed);
    for (const auto& message : messages) CHECK(message.recv->done == (&message != &failing));
  }
}

}  // namespace ccoll::test

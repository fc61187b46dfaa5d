// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A channel's two ends in one thread, over links inside this process, without communicators.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/messages/channel.hpp"
#include "engine/inproc_ranks.hpp"

namespace ccoll::test {

/// Bytes that no other message has.
inline std::vector<std::byte> content(std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  std::minstd_rand random(static_cast<std::uint32_t>(number) + 1);
  for (auto& byte : all) byte = static_cast<std::byte>(random() >> 8);
  return all;
}

/// The end of another link, from which slices come as over a slow one: first nothing, then the
/// header, then the rest, which lies where it was offered a place.
class HesitantLink final : public ReceiveLink {
 public:
  HesitantLink(ReceiveLink& link, std::uint64_t seed) : link_(link), random_(seed) {}

  bool connected() const override { return link_.connected(); }
  const Failure* failure() const override {
    return link_.peek() == nullptr ? link_.failure() : nullptr;
  }
  void revoke() override { link_.revoke(); }
  const SliceHeader* peek() override {
    if (!has_shown_header_) has_shown_header_ = !hesitates() && link_.peek() != nullptr;
    return has_shown_header_ ? link_.peek() : nullptr;
  }
  void offer(std::byte* data, std::size_t bytes) override { offered_ = {data, bytes}; }
  const View* front() override {
    if (peek() == nullptr || (!is_whole_ && hesitates())) return nullptr;
    const auto& view = *link_.front();
    if (!std::exchange(is_whole_, true)) view_ = {view.header, placed(view)};
    return &view_;
  }
  bool whole() const override { return is_whole_; }
  bool begin_read() override { return link_.begin_read(); }
  bool pop() override {
    has_shown_header_ = is_whole_ = false;
    offered_ = {};
    return link_.pop();
  }
  LinkReport report() const override { return link_.report(); }

  bool may_hesitate = true;

 private:
  bool hesitates() { return may_hesitate && random_() % 3 == 0; }
  const std::byte* placed(const View& view) const {
    if (offered_.first == nullptr || offered_.second != view.header.bytes) return view.data;
    std::copy_n(view.data, view.header.bytes, offered_.first);
    return offered_.first;
  }

  ReceiveLink& link_;
  std::minstd_rand random_;
  std::pair<std::byte*, std::size_t> offered_{};
  bool has_shown_header_ = false, is_whole_ = false;
  View view_;
};

/// One of two ranks, with its end of their channel.
class Side {
 public:
  using What = MessageOperation::What;

  Side(Rank own, Links& links, const MessageLimits& given, std::uint64_t seed = 0)
      : limits(given),
        group(Group::whole_job(2, own)),
        slow(*links.of(own).receiver(1 - own, kHeaderLane).value(), seed),
        channel(1 - own, slow, {group, links.of(own), limits, pending, inbox}) {}

  std::shared_ptr<MessageOperation> begin_send(std::uint32_t tag, std::vector<std::byte>& data) {
    auto send = make(What::send, tag, data);
    begin(send);
    return send;
  }
  std::shared_ptr<MessageOperation> begin_recv(std::optional<std::uint32_t> tag,
                                               std::vector<std::byte>& data) {
    auto recv = make(What::recv, tag, data);
    begin(recv);
    return recv;
  }
  std::shared_ptr<MessageOperation> make(What what, std::optional<std::uint32_t> tag,
                                         std::vector<std::byte>& data) const {
    auto operation = std::make_shared<MessageOperation>();
    operation->what = what;
    operation->pattern = {channel.peer(), tag};
    operation->input = operation->output = data.data();
    operation->bytes = data.size();
    if (what == What::recv) operation->received.emplace();
    return operation;
  }
  void begin(const std::shared_ptr<MessageOperation>& operation) {
    pending.begin(operation);
    if (operation->what == What::send) {
      REQUIRE(channel.sending().open());
      channel.sending().queue(*operation);
    } else if (const auto message = inbox.post(*operation)) {
      REQUIRE(channel.receiving().take(*operation, *message));
    }
  }
  /// One round; true if anything moved.
  Result<bool> round() {
    pending.begin_round();
    CCOLL_TRY(channel.advance(true));
    return pending.has_moved();
  }

  const MessageLimits limits;
  const Group group;
  PendingMessages pending{[](Failure failure, std::string_view) { return failure; }};
  Inbox inbox{group, pending};
  HesitantLink slow;
  Channel channel;
};

/// A number that no other communicator of this process has.
inline std::uint64_t fresh_communicator() {
  static std::uint64_t last = 7'000'000;
  return ++last;
}

}  // namespace ccoll::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Two ranks of the test's process with links between them, and slices to send.

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "net/listener.hpp"
#include "support/effort.hpp"
#include "transport/inproc_residence.hpp"
#include "transport/transport.hpp"
#include "usable_transports.hpp"

namespace ccoll::testing {

inline PeerAddress loopback(std::uint16_t port) {
  PeerAddress address;
  address.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  address.port = port;
  return address;
}

/// Two ranks of one process, which open links from rank 0 to rank 1.
class Pair {
 public:
  /// Differences from the default setting.
  struct Setting {
    const TransportKind* next = nullptr;  ///< the fallback if this one does not work
    std::array<std::string, 2> tokens{};
    std::array<std::uint64_t, 2> hosts{};
    std::size_t others = 0;  ///< further ranks of the table, which never come
    bool checksum = false;
    std::array<bool, 2> single_copy{true, true};
    bool huge_pages = true;
    std::size_t slot_memory_bytes = TransportContext{}.slot_memory_bytes;
    bool oversubscribed = false;
    bool is_own = false;  ///< the links belong to the job's own communicator
    std::chrono::milliseconds connect_timeout = TransportContext{}.connect_timeout;
    std::optional<std::array<std::uint8_t, 2>> rails{};  ///< fewer rails than there are ports
    /// Called when the address table exists and the transports do not.
    std::function<void(const std::vector<PeerAddress>& table)> before{};
  };

  explicit Pair(const TransportKind& kind) : Pair(kind, Setting()) {}
  Pair(const TransportKind& kind, const Setting& setting) {
    auto service = net::Service::shared();
    context_ = {.service = service, .token = "", .rank = 0, .table = {}};
    context_.checksum = setting.checksum;
    context_.huge_pages = setting.huge_pages;
    context_.slot_memory_bytes = setting.slot_memory_bytes;
    context_.oversubscribed = setting.oversubscribed;
    context_.connect_timeout = setting.connect_timeout;
    if (setting.is_own) context_.job = communicator;
    for (std::uint32_t rank = 0; rank < 2; rank++) {
      const auto own = kind.purpose;
      auto handler = [this, rank, own](net::Purpose purpose, net::Stream stream) {
        const bool is_nexts = nexts_[rank] && purpose != own;
        (is_nexts ? nexts_ : transports_)[rank]->accept(std::move(stream).release());
      };
      listeners_[rank] = net::Listener::open(service, "", setting.tokens[rank], handler).value();
      context_.table.push_back(loopback(listeners_[rank]->endpoint().port()));
      context_.table.back().host = setting.hosts[rank];
      context_.table.back().fabrics = usable_fabrics().value();
      context_.table.back().rails = setting.rails ? (*setting.rails)[rank] : usable_rails();
      residences_[rank].emplace(context_.table.back());
      waiters[rank] = Waiter::make().value();
    }
    context_.table.resize(2 + setting.others);
    if (setting.before) setting.before(context_.table);
    for (std::uint32_t rank = 0; rank < 2; rank++) {
      auto context = context_;
      context.rank = rank;
      context.token = setting.tokens[rank];
      context.single_copy = setting.single_copy[rank];
      if (setting.next != nullptr) nexts_[rank] = setting.next->make(context, nullptr);
      transports_[rank] = kind.make(context, nexts_[rank]);
    }
  }

  void open(std::uint16_t lane = 0) {
    open_sender(lane);
    open_receiver(lane);
  }
  void open_sender(std::uint16_t lane = 0) {
    sender = transports_[0]->open_send({communicator, 0, 1, lane}, waiters[0]).value();
  }
  void open_receiver(std::uint16_t lane = 0) {
    receiver = transports_[1]->open_receive({communicator, 0, 1, lane}, waiters[1]).value();
  }

  /// Unique per pair, because transports remember ended communicators.
  const std::uint64_t communicator = next_communicator();

  Transport& of(std::size_t rank) { return *transports_[rank]; }
  /// Rank 0's context, without a token.
  const TransportContext& context() const { return context_; }

  std::array<std::shared_ptr<Waiter>, 2> waiters;
  std::unique_ptr<SendLink> sender;
  std::unique_ptr<ReceiveLink> receiver;

 private:
  static std::uint64_t next_communicator() {
    static std::uint64_t last = 6;
    return ++last;
  }

  TransportContext context_;
  std::array<std::shared_ptr<Transport>, 2> nexts_;
  std::array<std::shared_ptr<Transport>, 2> transports_;
  std::array<std::unique_ptr<net::Listener>, 2> listeners_;
  std::array<std::optional<inproc::Residence>, 2> residences_;
};

/// Polls both ends until `condition` holds; false after kPatience.
template <typename Condition>
bool eventually(Pair& pair, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    if (pair.sender) pair.sender->progress();
    std::this_thread::yield();
  }
  return true;
}

inline SliceHeader header(std::uint64_t sequence, std::size_t bytes) {
  return {sequence, {}, static_cast<std::uint32_t>(bytes), 0};
}

inline std::vector<std::byte> pattern(std::uint64_t seed, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  std::mt19937_64 random(seed);
  for (auto& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

/// Waits for room, because a link may have none before it is connected.
inline void push(SendLink& link, std::uint64_t sequence, const std::vector<std::byte>& data) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!link.has_room() && std::chrono::steady_clock::now() < end) link.progress();
  std::ranges::copy(data, link.room(data.size()));
  link.push(header(sequence, data.size()));
}

inline bool equals(const ReceiveLink::View& view, const std::vector<std::byte>& data) {
  return std::ranges::equal(std::span(view.data, view.header.bytes), data);
}

}  // namespace ccoll::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Helpers for parts of control that have connections, in one thread and without a service.

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/connections/edges.hpp"
#include "control/connections/tasks.hpp"
#include "control/wire.hpp"
#include "core/deadline.hpp"

namespace ccoll::control {

/// The time that the parts' clock shows: it stands still until a test sets it.
inline Clock::time_point shown{std::chrono::hours(1)};
inline Clock::time_point now_shown() { return shown; }

/// Runs the context's handlers until `holds`, and returns whether it does. It waits for the kernel
/// alone, whose sockets may take a moment.
template <typename Holds>
bool run_until(asio::io_context& context, Holds holds) {
  constexpr std::chrono::seconds kLimit{10};
  for (const auto begin = Clock::now(); !holds();) {
    if (Clock::now() - begin > kLimit) return false;
    context.restart();
    context.run_one_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Owns tasks, and counts what they throw.
class TaskOwner final : public Tasks::Owner, public std::enable_shared_from_this<TaskOwner> {
 public:
  /// The context's handlers keep this alive, so it cannot own the context.
  explicit TaskOwner(asio::io_context& runs_tasks) : context(runs_tasks) {}
  std::shared_ptr<void> keep() override { return shared_from_this(); }
  void break_down(const Failure& failure) noexcept override { failures.push_back(failure.message); }
  void break_down() noexcept override { thrown++; }

  asio::io_context& context;
  const Tasks tasks{context, *this, &now_shown};
  std::vector<std::string> failures;
  int thrown = 0;
};

/// A rank's edges, with the far ends in the test's hands.
class Wires {
 public:
  TrafficCount traffic;
  Edges edges;

  Wires(asio::io_context& context, std::uint32_t rank, std::uint32_t size)
      : edges(rank, size, traffic, &now_shown), context_(context) {}

  void add(std::uint32_t peer) {
    using asio::ip::tcp;
    tcp::acceptor acceptor(context_, {asio::ip::address_v4::loopback(), 0});
    tcp::socket near(context_);
    near.connect(acceptor.local_endpoint());
    far_.emplace(peer, acceptor.accept());
    edges.add(net::Stream(std::move(near)), peer, {}, {});
  }
  /// `peer` says something; to be read, its edge must have been started.
  void say(std::uint32_t peer, const std::string& frame) {
    asio::write(far_.at(peer), asio::buffer(frame));
  }
  /// The types of the frames that `peer` has got since the last call.
  std::vector<Type> got(std::uint32_t peer) {
    // The last frame shows that all have come; a dismissed connection ends instead.
    if (Edge* const edge = edges.find(peer)) edge->send(encode_beat(kLast));
    std::vector<Type> types;
    for (std::string bytes;;) {
      std::string_view rest = bytes;
      const auto frame = next_frame(rest, kMaxFrame);
      REQUIRE(frame);
      if (!*frame) {
        char byte = 0;
        asio::error_code ended;
        if (asio::read(far_.at(peer), asio::buffer(&byte, 1), ended) == 0) return types;
        bytes += byte;
        continue;
      }
      if ((*frame)->type == Type::beat && decode_beat((*frame)->body) == kLast) return types;
      types.push_back((*frame)->type);
      bytes.erase(0, bytes.size() - rest.size());
    }
  }

 private:
  static constexpr std::uint32_t kLast = 12345;

  asio::io_context& context_;
  std::map<std::uint32_t, asio::ip::tcp::socket> far_;
};

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One established control connection: it passes frames in both directions and reports its end. It
/// does not interpret the frames. Service thread only.

#include <asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "control/wire.hpp"
#include "core/deadline.hpp"
#include "net/wire/outbox.hpp"
#include "net/wire/stream.hpp"

namespace ccoll::control {

class Edge final : public std::enable_shared_from_this<Edge> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A failure drops the connection.
    virtual Status received(Edge& edge, const Frame& frame) = 0;
    /// The connection ended although close() was not called. Called once, as the last call.
    virtual void ended(Edge& edge, const std::string& why) = 0;
    /// Called instead of ended() if this rank is out of memory for it; the edge can still send.
    virtual void failed(Edge& edge, const Failure& failure) = 0;
  };

  /// Limit of queued bytes for a peer that does not read; beyond it, the peer is dropped.
  static constexpr std::size_t kMaxBacklog = std::size_t{64} << 20;

  Edge(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
       std::weak_ptr<Owner> owner, std::size_t frame_limit, Now now);

  /// Begins to read. Call once, after construction.
  void start();
  /// Sends in order. Bytes that the socket takes are in the kernel when this returns, so they get
  /// out even if the service ends during this handler.
  void send(const std::string& frame);
  /// No send follows: queued frames still go out, then the peer sees the end. Reading continues
  /// until the peer's end, because closing with unread bytes would make the kernel reset the
  /// connection and discard what the peer has not read yet.
  void finish();
  /// Ends it now, without a report to the owner.
  void close();

  /// A heartbeat's check of the traffic since the last one, `passed` ago: whether the peer is due
  /// to hear something.
  bool is_due(std::chrono::milliseconds passed);
  /// How long nothing has come, as the sum of its checks: time in which this process was awake.
  std::chrono::milliseconds silent_for() const { return silent_for_; }
  Clock::time_point last_heard() const { return last_heard_; }
  /// The silence after which the peer counts this rank as lost; 0: never, or not known yet.
  std::chrono::milliseconds asked() const { return asked_; }
  void set_asked(std::chrono::milliseconds limit) { asked_ = limit; }
  /// Whether the peer has yet to answer our hello: until then nothing else is due to it.
  bool awaits_answer() const { return awaits_answer_; }
  void set_awaits_answer(bool awaits) { awaits_answer_ = awaits; }

  void set_frame_limit(std::size_t limit) { frame_limit_ = limit; }
  std::uint32_t peer() const { return peer_; }
  const PeerAddress& address() const { return address_; }

 private:
  /// `self` keeps this alive while it reads.
  asio::awaitable<void> read(std::shared_ptr<Edge> self);
  void end(const std::string& why);
  Status deliver();
  void break_down(const Failure& failure);

  net::Stream stream_;
  net::Outbox outbox_;
  const std::uint32_t peer_;
  const PeerAddress address_;
  const std::weak_ptr<Owner> owner_;
  const Now now_;
  std::size_t frame_limit_;
  std::string incoming_;
  Clock::time_point last_heard_ = now_();
  bool has_heard_ = false;  ///< since the last check, like the next one
  bool has_sent_ = false;
  std::chrono::milliseconds silent_for_{0};
  std::chrono::milliseconds asked_{0};
  bool awaits_answer_ = false;
  bool finishing_ = false;
  bool closed_ = false;
};

}  // namespace ccoll::control

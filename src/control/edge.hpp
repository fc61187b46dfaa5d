// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One control connection that stands: frames in, frames out, and the news that it has ended. Knows
/// nothing of what the frames mean. Everything happens on the service thread.

#include <asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "control/wire.hpp"
#include "net/wire/outbox.hpp"
#include "net/wire/stream.hpp"

namespace ccoll::control {

class Edge final : public std::enable_shared_from_this<Edge> {
 public:
  using Clock = std::chrono::steady_clock;

  class Owner {
   public:
    virtual ~Owner() = default;
    /// A failure drops the connection.
    virtual Status received(Edge& edge, const Frame& frame) = 0;
    /// The connection ended although close() was not called. Told once, as the last thing.
    virtual void ended(Edge& edge, const std::string& why) = 0;
    /// This rank could not go on with it (memory ran out): it can still send. In place of ended().
    virtual void failed(Edge& edge, const Failure& failure) = 0;
  };

  /// Unread bytes of a peer that does not read are kept up to this; then it is dropped.
  static constexpr std::size_t kMaxBacklog = std::size_t{64} << 20;

  Edge(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
       std::weak_ptr<Owner> owner, std::size_t frame_limit);

  /// Begins to read. Once, after construction.
  void start();
  /// Sends in order. What the socket takes is with the kernel when this returns, so that it gets
  /// out although the service may end with the handler under way.
  void send(const std::string& frame);
  /// No send will follow: what is queued still goes out, then the peer sees the end. Reading goes
  /// on until the peer's end comes, because closing on unread bytes would make the kernel reset
  /// the connection and throw away what the peer has not read yet.
  void finish();
  /// Ends it now; the owner is not told.
  void close();

  /// A heartbeat's look at what has gone over it since the last look, `passed` ago: whether the
  /// peer is due to hear something.
  bool is_due(std::chrono::milliseconds passed);
  /// How long nothing has come, in time that this process was awake: as its looks add up.
  std::chrono::milliseconds silent_for() const { return silent_for_; }
  Clock::time_point last_heard() const { return last_heard_; }
  /// How soon the peer counts this rank as lost that says nothing; 0: never, or not known yet.
  std::chrono::milliseconds asked() const { return asked_; }
  void set_asked(std::chrono::milliseconds limit) { asked_ = limit; }

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
  std::size_t frame_limit_;
  std::string incoming_;
  Clock::time_point last_heard_ = Clock::now();
  bool has_heard_ = false;  ///< since the last look, as the next
  bool has_sent_ = false;
  std::chrono::milliseconds silent_for_{0};
  std::chrono::milliseconds asked_{0};
  bool finishing_ = false;
  bool closed_ = false;
};

}  // namespace ccoll::control

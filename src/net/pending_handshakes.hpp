// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Connections that have yet to say a valid hello, at one listener. Strangers that connect and say
/// nothing must not use up the process's descriptors: there is a limit, and beyond it the one that
/// has been silent for longest makes way for a newcomer, who is never refused. What
/// ccoll::strangers tells is counted here.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "core/result.hpp"
#include "net/spare.hpp"

namespace ccoll::net {

/// This process's own hello at somebody's listener, from before it connects until it is over: the
/// listener may be of this process, whose ranks are no strangers to each other.
class OwnHello {
 public:
  OwnHello();
  ~OwnHello();
  OwnHello(const OwnHello&) = delete;
  OwnHello& operator=(const OwnHello&) = delete;
};

/// Why one of this process's listeners has since then refused a ccoll (another token, version or
/// TLS); the last one's reason. Nothing where there was none. From any thread.
std::optional<std::string> last_refusal(std::chrono::steady_clock::time_point since);

/// On the listener's service thread only.
class PendingHandshakes {
 public:
  /// `where` the listener is, for the log.
  explicit PendingHandshakes(std::string where);
  ~PendingHandshakes();
  PendingHandshakes(const PendingHandshakes&) = delete;
  PendingHandshakes& operator=(const PendingHandshakes&) = delete;

  /// One connection in the midst of its hello. Must not outlive the socket or the
  /// PendingHandshakes.
  class Guest {
   public:
    template <typename Socket>
    Guest(PendingHandshakes& all, Socket& socket)
        : Guest(all, [&socket] {
            std::error_code ignored;
            socket.close(ignored);
          }) {}
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

   private:
    friend class PendingHandshakes;
    Guest(PendingHandshakes& all, std::function<void()> close);

    PendingHandshakes& all_;
    const std::function<void()> close_;
    std::list<Guest*>::iterator place_;
  };

  /// Counts and logs a connection that was dropped, and why.
  void refused(const Failure& why);
  std::uint64_t refusals() const { return refusals_; }
  /// Closes the oldest; false if there is none.
  bool evict_oldest();
  void close_all();
  /// For one more to come in where the process has no descriptor left.
  Spare& spare() { return *spare_; }
  /// How many may be here at a time: the process's share (waiting_connections()), divided by its
  /// listeners, and as many as it says hello to itself.
  static std::size_t limit();

 private:
  const std::string where_;
  const std::shared_ptr<Spare> spare_ = Spare::of_process();
  std::list<Guest*> guests_;  ///< oldest first; those that were closed are not in it
  std::uint64_t refusals_ = 0;
  bool complained_ = false;
};

}  // namespace ccoll::net

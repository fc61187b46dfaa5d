// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Connections to one listener without a valid hello so far. Strangers that connect and say nothing
/// must not use up the process's descriptors, so there is a limit. Beyond it the connection that
/// has been silent longest makes way for a new one, which is never refused. It also counts for
/// ccoll::strangers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "core/result.hpp"
#include "net/lack.hpp"

namespace ccoll::net {

/// This process's own hello at a listener, from before it connects until it is over. The listener
/// may be in this process, whose ranks are no strangers to each other.
class OwnHello {
 public:
  OwnHello();
  ~OwnHello();
  OwnHello(const OwnHello&) = delete;
  OwnHello& operator=(const OwnHello&) = delete;
};

/// How many ccolls with another token, version or TLS this process's listeners have refused. From
/// any thread, like the next.
std::uint64_t refused_ccolls();
/// The reason of the last of these, if there are more than `before`.
std::optional<std::string> last_refusal(std::uint64_t before);

/// Used on the listener's service thread only.
class PendingHandshakes {
 public:
  /// `where` is the listener's address, for the log.
  explicit PendingHandshakes(std::string where);
  ~PendingHandshakes();
  PendingHandshakes(const PendingHandshakes&) = delete;
  PendingHandshakes& operator=(const PendingHandshakes&) = delete;

  /// One connection in the midst of its hello. It must not outlive the socket or the
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

  /// Counts and logs a dropped connection with its reason.
  void refused(const Failure& why);
  std::uint64_t refusals() const { return refusals_; }
  /// Closes the oldest; false if there is none.
  bool evict_oldest();
  void close_all();
  /// Lets one more connection in if the process has no descriptor left.
  Spare& spare() { return *spare_; }
  /// How many may be here at a time: the process's share (waiting_connections()) divided by its
  /// listeners, plus the number of its own hellos.
  static std::size_t limit();

 private:
  const std::string where_;
  const std::shared_ptr<Spare> spare_ = Spare::of_process();
  std::list<Guest*> guests_;  ///< oldest first, without closed ones
  std::uint64_t refusals_ = 0;
  bool complained_ = false;
};

}  // namespace ccoll::net

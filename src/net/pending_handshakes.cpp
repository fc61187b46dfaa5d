// SPDX-License-Identifier: Apache-2.0
#include "net/pending_handshakes.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "ccoll/strangers.hpp"
#include "net/service.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"

namespace ccoll::net {
namespace {

/// With fewer, ranks of a large job would push each other out while they all connect at once.
constexpr std::size_t kFewest = 16;

std::atomic<std::size_t> listeners{0};
std::atomic<std::size_t> own_hellos{0};
std::atomic<std::uint64_t> all_refused{0};
std::atomic<std::uint64_t> all_evicted{0};

struct LastRefusal {
  static LastRefusal& of_process() {
    static LastRefusal last;
    return last;
  }
  ProcessMutex mutex;
  std::chrono::steady_clock::time_point when;  // guarded by mutex
  std::string why;                             // guarded by mutex
};

/// Made before main: at its first use another thread could already be in fork().
[[maybe_unused]] const auto& last_refusal_made_early = LastRefusal::of_process();

}  // namespace

OwnHello::OwnHello() { own_hellos.fetch_add(1, std::memory_order_relaxed); }
OwnHello::~OwnHello() { own_hellos.fetch_sub(1, std::memory_order_relaxed); }

std::optional<std::string> last_refusal(std::chrono::steady_clock::time_point since) {
  auto& last = LastRefusal::of_process();
  const std::lock_guard lock(last.mutex);
  if (last.why.empty() || last.when < since) return std::nullopt;
  return last.why;
}

PendingHandshakes::PendingHandshakes(std::string where) : where_(std::move(where)) {
  listeners.fetch_add(1, std::memory_order_relaxed);
}

PendingHandshakes::~PendingHandshakes() {
  listeners.fetch_sub(1, std::memory_order_relaxed);
  if (refusals_ > 0)
    log().info("{}: {} connections were refused during the handshake", where_, refusals_);
}

std::size_t PendingHandshakes::limit() {
  const auto sharers = std::max<std::size_t>(listeners.load(std::memory_order_relaxed), 1);
  return std::max(waiting_connections() / sharers, kFewest) +
         own_hellos.load(std::memory_order_relaxed);
}

PendingHandshakes::Guest::Guest(PendingHandshakes& all, std::function<void()> close)
    : all_(all), close_(std::move(close)) {
  if (all_.guests_.size() >= limit()) {
    if (!std::exchange(all_.complained_, true))
      log().warn(
          "{}: {} connections wait without a valid hello: the oldest are dropped for newer ones; "
          "is someone scanning ports?",
          all_.where_, all_.guests_.size());
    all_.evict_oldest();
  }
  place_ = all_.guests_.insert(all_.guests_.end(), this);
}

PendingHandshakes::Guest::~Guest() {
  if (place_ != all_.guests_.end()) all_.guests_.erase(place_);
}

bool PendingHandshakes::evict_oldest() {
  if (guests_.empty()) return false;
  Guest* const oldest = guests_.front();
  guests_.pop_front();
  oldest->place_ = guests_.end();
  oldest->close_();
  all_evicted.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void PendingHandshakes::refused(const Failure& why) {
  refusals_++;
  all_refused.fetch_add(1, std::memory_order_relaxed);
  log().debug("{}: connection refused: {}", where_, why.message);
  if (why.kind != ErrorKind::mismatch) return;
  auto& last = LastRefusal::of_process();
  const std::lock_guard lock(last.mutex);
  last.when = std::chrono::steady_clock::now();
  last.why = why.message;
}

void PendingHandshakes::close_all() {
  for (Guest* const guest : std::exchange(guests_, {})) {
    guest->place_ = guests_.end();
    guest->close_();
  }
}

}  // namespace ccoll::net

namespace ccoll {

Strangers strangers() {
  return {net::all_refused.load(std::memory_order_relaxed),
          net::all_evicted.load(std::memory_order_relaxed)};
}

}  // namespace ccoll

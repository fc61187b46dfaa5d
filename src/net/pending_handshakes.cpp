// SPDX-License-Identifier: Apache-2.0
#include "net/pending_handshakes.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "ccoll/strangers.hpp"
#include "net/service.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"

namespace ccoll::net {
namespace {

/// With fewer, ranks of a large job would push each other out while they all connect at once.
constexpr std::size_t kFewest = 16;

/// This process's.
struct Counts {
  std::atomic<std::size_t> listeners{0};
  std::atomic<std::size_t> own_hellos{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> evicted{0};
};
Counts& counts() { return Runtime::one<Counts>(); }

struct RefusedCcolls {
  std::uint64_t number = 0;
  std::string last;  ///< why
};
Guarded<RefusedCcolls, ProcessMutex>& refused_ccolls_of_process() {
  return Runtime::one<Guarded<RefusedCcolls, ProcessMutex>>();
}

}  // namespace

OwnHello::OwnHello() { counts().own_hellos.fetch_add(1, std::memory_order_relaxed); }
OwnHello::~OwnHello() { counts().own_hellos.fetch_sub(1, std::memory_order_relaxed); }

std::uint64_t refused_ccolls() {
  return refused_ccolls_of_process().with([](const RefusedCcolls& all) { return all.number; });
}

std::optional<std::string> last_refusal(std::uint64_t before) {
  return refused_ccolls_of_process().with([before](const RefusedCcolls& all) {
    return all.number > before ? std::optional(all.last) : std::nullopt;
  });
}

PendingHandshakes::PendingHandshakes(std::string where) : where_(std::move(where)) {
  counts().listeners.fetch_add(1, std::memory_order_relaxed);
}

PendingHandshakes::~PendingHandshakes() {
  counts().listeners.fetch_sub(1, std::memory_order_relaxed);
  if (refusals_ > 0)
    log().info("{}: {} connections were refused during the handshake", where_, refusals_);
}

std::size_t PendingHandshakes::limit() {
  const auto sharers = std::max<std::size_t>(counts().listeners.load(std::memory_order_relaxed), 1);
  return std::max(waiting_connections() / sharers, kFewest) +
         counts().own_hellos.load(std::memory_order_relaxed);
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
  counts().evicted.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void PendingHandshakes::refused(const Failure& why) {
  refusals_++;
  counts().refused.fetch_add(1, std::memory_order_relaxed);
  log().debug("{}: connection refused: {}", where_, why.message);
  if (why.kind != ErrorKind::mismatch) return;
  refused_ccolls_of_process().with([&](RefusedCcolls& all) {
    all.last = why.message;
    all.number++;
  });
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
  return {net::counts().refused.load(std::memory_order_relaxed),
          net::counts().evicted.load(std::memory_order_relaxed)};
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "control/word.hpp"

#include <algorithm>
#include <atomic>

#include "system/runtime.hpp"

namespace ccoll::control {
namespace {

/// How long a rank that ends waits for the store at most.
constexpr std::chrono::milliseconds kLeaveWithin{250};

/// This process's last start-up.
struct LastStart {
  /// The time at which it ended; before there is one, about when the process began.
  std::atomic<Clock::time_point> end{Clock::now()};
};

}  // namespace

std::optional<std::string> read_key(Store& store, std::uint32_t rank, Store::Timeout timeout) {
  const std::string key = key_of(rank);
  const auto keys = store.list(key, timeout);
  if (std::ranges::find(keys, key) == keys.end()) return std::nullopt;
  return store.get(key, timeout);
}

void leave_word(Store& store, std::uint32_t rank, const Word& word,
                const std::optional<std::string>& before) {
  try {
    store.compare_set(key_of(rank), before, encode_key(word), kLeaveWithin);
  } catch (const std::exception&) {
    return;
  }
}

ThisStart::ThisStart(std::uint64_t host, Now now)
    : host_(host), now_(now), began_(now()), since_(Runtime::one<LastStart>().end) {}

ThisStart::~ThisStart() { Runtime::one<LastStart>().end = now_(); }

}  // namespace ccoll::control

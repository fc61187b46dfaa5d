// SPDX-License-Identifier: Apache-2.0
#include "control/word.hpp"

#include <algorithm>
#include <atomic>

namespace ccoll::control {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a rank that ends waits for the store at most.
constexpr std::chrono::milliseconds kLeaveWithin{250};

/// When this process's last start-up ended; before there is one, about when the process began.
std::atomic<Clock::time_point> last_end{Clock::now()};

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

ThisStart::ThisStart(std::uint64_t host) : host_(host), began_(Clock::now()), since_(last_end) {}

ThisStart::~ThisStart() { last_end = Clock::now(); }

}  // namespace ccoll::control

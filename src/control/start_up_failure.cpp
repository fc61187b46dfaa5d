// SPDX-License-Identifier: Apache-2.0
#include "control/start_up_failure.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "control/tree.hpp"
#include "control/wire.hpp"
#include "core/text.hpp"

namespace ccoll::control {
namespace {

constexpr Store::Timeout kListTimeout = std::chrono::seconds(1);

/// The ranks that have set their keys, ascending; nullopt when the store does not answer.
std::optional<std::vector<std::uint32_t>> ask(Store& store, std::uint32_t size) {
  try {
    std::vector<std::uint32_t> came;
    for (const std::string& key : store.list(kKeyPrefix, kListTimeout)) {
      if (!key.starts_with(kKeyPrefix)) continue;
      std::uint32_t rank = 0;
      const char* first = key.data() + kKeyPrefix.size();
      const auto [end, error] = std::from_chars(first, key.data() + key.size(), rank);
      if (error == std::errc() && end == key.data() + key.size() && rank < size)
        came.push_back(rank);
    }
    std::sort(came.begin(), came.end());
    return came;
  } catch (const std::exception&) {
    return std::nullopt;  // without the store, the verdict only says less
  }
}

std::vector<std::uint32_t> without(std::uint32_t size, const std::vector<std::uint32_t>& present) {
  std::vector<std::uint32_t> absent;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    if (!std::binary_search(present.begin(), present.end(), rank)) absent.push_back(rank);
  return absent;
}

/// If all have come, or the store does not say: names the ranks for which this one waits.
Failure stuck(const Standing& standing, std::chrono::milliseconds timeout, std::string_view known) {
  std::string waits;
  if (standing.table_complete) {
    waits = fmt::format("its ring neighbour {}", list_ranks(standing.unmet));
  } else if (!standing.unreported.empty()) {
    std::vector<std::uint32_t> below;
    for (const std::uint32_t child : standing.unreported)
      for (const std::uint32_t rank : subtree_of(child, standing.size)) below.push_back(rank);
    std::sort(below.begin(), below.end());
    waits = fmt::format("one or more of {}", list_ranks(below));
  } else if (standing.rank != 0) {
    waits = fmt::format("rank {}", parent_of(standing.rank));
  }
  Failure failure{ErrorKind::timed_out,
                  fmt::format("start-up: {}, but rank {} waited {} in vain for {}", known,
                              standing.rank, in_seconds(timeout), waits),
                  std::nullopt};
  if (!standing.last_trouble.empty())
    failure.message += fmt::format(" (last: {})", standing.last_trouble);
  return failure;
}

}  // namespace

std::string in_seconds(std::chrono::milliseconds duration) {
  return fmt::format("{:g} s", static_cast<double>(duration.count()) / 1000);
}

Failure missing_ranks(std::uint32_t size, std::chrono::milliseconds timeout,
                      const std::vector<std::uint32_t>& missing,
                      const std::vector<std::uint32_t>& came) {
  return {
      ErrorKind::timed_out,
      fmt::format("start-up: {} of {} ranks did not come within {}: {} (known so far: {})",
                  missing.size(), size, in_seconds(timeout), list_ranks(missing), list_ranks(came)),
      missing.front()};
}

/// The verdict without a possible reason.
static Failure judge_ranks(const Standing& standing, std::chrono::milliseconds timeout,
                           Store& store) {
  auto came = ask(store, standing.size);
  if (!came) return stuck(standing, timeout, "the store does not say which ranks came");
  std::erase_if(*came, [&](std::uint32_t rank) {
    return std::ranges::binary_search(standing.declined, rank);
  });
  const auto missing = without(standing.size, *came);
  if (!missing.empty()) return missing_ranks(standing.size, timeout, missing, *came);
  // A key may be an earlier start's: it does not show that its rank came to this one.
  return stuck(standing, timeout,
               fmt::format("the store has an address of each of the {} ranks, of this start or an "
                           "earlier one",
                           standing.size));
}

Failure judge(const Standing& standing, std::chrono::milliseconds timeout, Store& store) {
  auto failure = judge_ranks(standing, timeout, store);
  if (!standing.refusal.empty())
    failure.message += fmt::format("; a connection was refused meanwhile: {}", standing.refusal);
  return failure;
}

}  // namespace ccoll::control

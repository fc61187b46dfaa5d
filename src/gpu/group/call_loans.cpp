// SPDX-License-Identifier: Apache-2.0
#include "gpu/group/call_loans.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/deadline.hpp"

namespace ccoll::device {
namespace {

/// How long others have to map what a captured call is to lend.
constexpr std::chrono::milliseconds kForOthersToMap{1000};

}  // namespace

CallLoans find_loans(Lending& lending, const BufferUse& use, const GroupCall& call) {
  CallLoans loans;
  std::byte* const buffers[] = {call.input, call.output};
  std::array<std::pair<std::uintptr_t, std::uintptr_t>, 2> used;
  using Clock = std::chrono::steady_clock;
  const auto limit = deadline_after(call.is_captured ? kForOthersToMap : kForOthersToMap.zero());
  for (std::size_t i = 0; i < loans.of.size(); ++i) {
    const Extent own = use.used[i], lent = use.lendable[i];
    const auto address = reinterpret_cast<std::uintptr_t>(buffers[i]);
    if (!own.is_empty()) used[i] = {address + own.begin, address + own.end};
    if (lent.is_empty()) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now());
    loans.of[i] = lending.find(buffers[i] + lent.begin, lent.end - lent.begin,
                               std::max(left, std::chrono::milliseconds(0)));
    if (loans.of[i]) loans.of[i]->offset -= lent.begin;
  }
  loans.are_apart = used[0].second <= used[1].first || used[1].second <= used[0].first;
  return loans;
}

}  // namespace ccoll::device

// SPDX-License-Identifier: Apache-2.0
#include "control/connections/absences.hpp"

#include <algorithm>
#include <vector>

namespace ccoll::control {

void Absences::add(std::uint32_t rank) {
  if (!until_.try_emplace(rank, deadline_after(patience_, tasks_.now())).second) return;
  if (until_.size() == 1) await_first();
}

void Absences::await_first() {
  const auto first =
      std::ranges::min_element(until_, {}, [](const auto& entry) { return entry.second; });
  if (first == until_.end()) return;
  timer_.expires_after(first->second - tasks_.now());
  tasks_.await(timer_, [this] { end_due(tasks_.now()); });
}

void Absences::end_due(Clock::time_point now) {
  std::vector<std::uint32_t> due;
  std::erase_if(until_, [&](const auto& entry) {
    const bool is_due = entry.second <= now;
    if (is_due) due.push_back(entry.first);
    return is_due;
  });
  await_first();
  for (const std::uint32_t rank : due) over_(rank);
}

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "bench/command/copies.hpp"

#include <fmt/format.h>

#include "comm/groups/copy_calibration.hpp"
#include "rendezvous/identity.hpp"
#include "transport/copy_costs.hpp"

namespace ccoll::bench {

std::string copies_text(const Operation& op, std::uint64_t bytes) {
  if (op.reduces || bytes < CopyCosts::kSizes.front()) return {};
  const auto file = copy_costs_file(usable_cores());
  if (!file)
    return "\nCopies from process to process: jobs here use no measured costs (CCOLL_TUNE_FILE is "
           "set, or there is no cache directory). Calls begin with fixed rules, and try both "
           "ways.\n";
  auto costs = kept_copy_costs(*file);
  const bool is_kept = costs.has_value();
  if (!costs) costs = measure_copy_costs();
  if (!costs)
    return "\nCopies from process to process: their costs could not be measured here. Calls begin "
           "with fixed rules, and try both ways.\n";
  using Pattern = CopyCosts::Pattern;
  const auto pattern = op.rooted ? Pattern::one_way : Pattern::both_ways;
  const bool lends = costs->prefers_loan(pattern, bytes);
  const auto line = [](bool is_first, const char* way, double microseconds) {
    return fmt::format("{} {:<38}{:>10.1f} µs\n", is_first ? '*' : ' ', way, microseconds);
  };
  return fmt::format("\nCopies of {} bytes from process to process, {}, as {}:\n", bytes,
                     op.rooted ? "one way" : "both ways at once",
                     is_kept ? "kept since this host was started" : "measured just now") +
         line(!lends, "two copies, through slots", costs->slots(pattern, bytes)) +
         line(lends, "one copy, which the receiver reads", costs->loan(pattern, bytes)) +
         "Calls begin with the one marked * and try both from the 29th call on.\n";
}

}  // namespace ccoll::bench

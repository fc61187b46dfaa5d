// SPDX-License-Identifier: Apache-2.0
#include "transport/copy_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <locale>
#include <sstream>

#include "core/float_state.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

constexpr std::array<std::string_view, 2> kPatterns{"one_way", "both_ways"};
/// No copy takes so long. The limit keeps sums from overflowing.
constexpr double kMostMicroseconds = 1e7;

double interpolate(const std::array<double, CopyCosts::kSizes.size()>& times, std::uint64_t bytes) {
  const auto& sizes = CopyCosts::kSizes;
  const auto share = static_cast<double>(bytes);
  if (bytes >= sizes.back()) return times.back() * share / static_cast<double>(sizes.back());
  for (std::size_t i = 1; i < sizes.size(); i++) {
    if (bytes > sizes[i]) continue;
    const auto from = static_cast<double>(sizes[i - 1]), to = static_cast<double>(sizes[i]);
    const double at = std::max(0.0, (share - from) / (to - from));
    return times[i - 1] + (times[i] - times[i - 1]) * at;
  }
  return times.back();
}

struct CostsOfProcess {
  std::shared_ptr<const CopyCosts> costs;
};

Guarded<CostsOfProcess, ProcessMutex>& costs_of_process() {
  return Runtime::one<Guarded<CostsOfProcess, ProcessMutex>>();
}

bool read_line(const std::string& line, std::string_view pattern, std::size_t bytes, double& slots,
               double& loan) {
  std::istringstream words(line);
  words.imbue(std::locale::classic());
  std::string name, slots_word, loan_word, more;
  std::size_t size = 0;
  return words >> name >> size >> slots_word >> slots >> loan_word >> loan && !(words >> more) &&
         name == pattern && size == bytes && slots_word == "slots" && loan_word == "loan" &&
         slots > 0 && loan > 0 && slots < kMostMicroseconds && loan < kMostMicroseconds;
}

}  // namespace

double CopyCosts::slots(Pattern pattern, std::uint64_t bytes) const {
  return interpolate(patterns[static_cast<std::size_t>(pattern)].slots, bytes);
}

double CopyCosts::loan(Pattern pattern, std::uint64_t bytes) const {
  return interpolate(patterns[static_cast<std::size_t>(pattern)].loan, bytes);
}

std::string to_text(const CopyCosts& costs) {
  std::string text;
  for (std::size_t p = 0; p < kPatterns.size(); p++)
    for (std::size_t i = 0; i < CopyCosts::kSizes.size(); i++)
      text += fmt::format("{} {} slots {:.3f} loan {:.3f}\n", kPatterns[p], CopyCosts::kSizes[i],
                          costs.patterns[p].slots[i], costs.patterns[p].loan[i]);
  return text;
}

Result<CopyCosts> parse_copy_costs(std::string_view text) {
  const DefaultFloatState state;
  if (!text.ends_with('\n'))
    return fail(ErrorKind::invalid_argument, "it is empty, or ends in the middle of a line");
  std::istringstream lines{std::string(text)};
  CopyCosts costs;
  std::string line;
  for (std::size_t p = 0; p < kPatterns.size(); p++) {
    for (std::size_t i = 0; i < CopyCosts::kSizes.size(); i++) {
      auto& times = costs.patterns[p];
      const auto bytes = CopyCosts::kSizes[i];
      line.clear();
      if (!std::getline(lines, line) ||
          !read_line(line, kPatterns[p], bytes, times.slots[i], times.loan[i]))
        return fail(ErrorKind::invalid_argument,
                    "'{}': expected '{} {} slots T loan T' with times in microseconds", line,
                    kPatterns[p], bytes);
    }
  }
  if (std::getline(lines, line))
    return fail(ErrorKind::invalid_argument, "'{}': expected no more lines", line);
  return costs;
}

std::shared_ptr<const CopyCosts> known_copy_costs() { return costs_of_process().lock()->costs; }

void know_copy_costs(const std::optional<CopyCosts>& costs) {
  auto made = costs ? std::make_shared<const CopyCosts>(*costs) : nullptr;
  costs_of_process().lock()->costs = std::move(made);
}

}  // namespace ccoll

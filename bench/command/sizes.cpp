// SPDX-License-Identifier: Apache-2.0
#include "bench/command/sizes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

namespace ccoll::bench {

namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

struct Suffix {
  char letter;
  unsigned shift;
};
constexpr std::array<Suffix, 4> kSuffixes = {{{'T', 40}, {'G', 30}, {'M', 20}, {'K', 10}}};

std::uint64_t next_size(const SizeRange& range, std::uint64_t size) {
  if (range.step > 0) return size > kMost - range.step ? kMost : size + range.step;
  const std::uint64_t factor = std::max<std::uint64_t>(2, range.factor);
  if (range.aligned) {
    std::uint64_t power = 1;
    while (power <= size && power <= kMost / factor) power *= factor;
    return power > size ? power : kMost;
  }
  return size > kMost / factor ? kMost : size * factor;
}

}  // namespace

std::vector<std::uint64_t> size_list(const SizeRange& range, std::uint64_t unit) {
  std::vector<std::uint64_t> sizes;
  const auto add = [&](std::uint64_t size) {
    const std::uint64_t rounded = size - size % unit;
    if (sizes.empty() || rounded > sizes.back()) sizes.push_back(rounded);
  };
  std::uint64_t size = range.begin;
  if (range.begin == 0) {
    sizes.push_back(0);
    if (unit <= range.end) add(unit);
    size = range.step > 0 ? range.step : next_size(range, unit);
  }
  for (; size <= range.end && size < kMost; size = next_size(range, size)) {
    if (size >= unit) add(size);
  }
  if (range.begin <= range.end && range.end >= unit) add(range.end);
  return sizes;
}

Result<std::uint64_t> parse_size(std::string_view text) {
  const auto refuse = [&] {
    return fail(ErrorKind::invalid_argument,
                "'{}' is not a size: give bytes, with K, M, G or T for powers of 1024 (64K)", text);
  };
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return refuse();
  std::string rest(end, text.data() + text.size());
  for (char& c : rest) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (rest.empty() || rest == "B") return value;
  for (const auto& [letter, shift] : kSuffixes) {
    if (rest[0] != letter) continue;
    const std::string unit = rest.substr(1);
    if (!unit.empty() && unit != "B" && unit != "IB") return refuse();
    if (value > (kMost >> shift)) return refuse();
    return value << shift;
  }
  return refuse();
}

std::string short_size(std::uint64_t bytes) {
  for (const auto& [letter, shift] : kSuffixes) {
    if (bytes >= (std::uint64_t{1} << shift) && bytes % (std::uint64_t{1} << shift) == 0) {
      return fmt::format("{}{}", bytes >> shift, letter);
    }
  }
  return fmt::format("{}", bytes);
}

}  // namespace ccoll::bench

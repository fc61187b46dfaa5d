// SPDX-License-Identifier: Apache-2.0
#include "system/port_range.hpp"

#include <charconv>

#include "system/variables.hpp"

namespace ccoll::net {
namespace {

std::optional<std::uint16_t> port(std::string_view text) {
  std::uint16_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value == 0) return std::nullopt;
  return value;
}

}  // namespace

Result<PortRange> parse_port_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = port(text.substr(0, dash));
  const auto last = dash == text.npos ? first : port(text.substr(dash + 1));
  if (!first || !last || *first > *last)
    return fail(ErrorKind::invalid_argument,
                "CCOLL_PORT_RANGE={} is not a range of ports from 1 to 65535, such as 20000-20100",
                text);
  return PortRange{*first, *last};
}

Result<std::optional<PortRange>> port_range() {
  const auto text = read_variable("CCOLL_PORT_RANGE");
  if (!text) return std::nullopt;
  auto range = parse_port_range(*text);
  if (!range) return tl::unexpected(range.error());
  return *range;
}

}  // namespace ccoll::net

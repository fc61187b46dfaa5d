// SPDX-License-Identifier: Apache-2.0
#include "transport/corruption.hpp"

namespace ccoll {

std::string link_name(std::string_view way, const TransportContext& context, const LinkId& id) {
  const auto name = [&](std::uint32_t rank) {
    const auto& address = context.table[rank];
    return fmt::format("rank {} of the job ({}, pid {})", rank, ip_text(address), address.pid);
  };
  return fmt::format("the {} link from {} to {}, lane {},", way, name(id.from), name(id.to),
                     id.lane);
}

Failure corruption(const std::string& link, std::uint64_t slice, const std::string& found) {
  return {ErrorKind::corrupt,
          fmt::format("the data received over {} are not the data that were sent: slice {}, {}",
                      link, slice, found),
          std::nullopt};
}

Failure corruption(const std::string& link, std::uint64_t slice, const std::string& what,
                   std::uint32_t found, std::uint32_t expected) {
  return corruption(
      link, slice,
      fmt::format("the checksum of its {} is {:08x}, expected {:08x}", what, found, expected));
}

}  // namespace ccoll

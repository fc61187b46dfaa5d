// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The encoding of a link's id at the start of its connection.

#include <cstddef>

#include "core/bytes.hpp"
#include "transport/link.hpp"

namespace ccoll {

inline constexpr std::size_t kLinkIdBytes = 8 + 4 + 4 + 2;

inline net::Writer& write(net::Writer& writer, const LinkId& id) {
  return writer.number(id.communicator).number(id.from).number(id.to).number(id.lane);
}

inline LinkId read_link_id(net::Reader& reader) {
  LinkId id;
  id.communicator = reader.number<std::uint64_t>();
  id.from = reader.number<std::uint32_t>();
  id.to = reader.number<std::uint32_t>();
  id.lane = reader.number<std::uint16_t>();
  return id;
}

}  // namespace ccoll

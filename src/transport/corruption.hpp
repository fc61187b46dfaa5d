// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Errors of links whose slices carry checksums (TransportContext::checksum).

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "transport/transport.hpp"

namespace ccoll {

/// "the TCP link from rank 0 of the job (10.0.0.1, pid 17) to rank 1 of the job (10.0.0.2, pid 18),
/// lane 0,"; `way`: TCP. Ranks of the job, because a communicator may number its ranks otherwise.
std::string link_name(std::string_view way, const TransportContext& context, const LinkId& id);

/// `link`: from link_name(); `found`: the fault of slice `slice`, counted from 0.
Failure corruption(const std::string& link, std::uint64_t slice, const std::string& found);
/// The fault is the checksum of the slice's `what`.
Failure corruption(const std::string& link, std::uint64_t slice, const std::string& what,
                   std::uint32_t found, std::uint32_t expected);

}  // namespace ccoll

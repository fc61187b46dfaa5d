// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ccoll::net {

inline constexpr std::size_t kHmacBytes = 32;

/// HMAC (RFC 2104) with SHA-256 (FIPS 180-4). Thread-safe; the caller wipes secrets, if it must.
std::string hmac_sha256(std::string_view key, std::string_view text);

}  // namespace ccoll::net

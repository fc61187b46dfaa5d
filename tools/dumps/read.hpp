// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads what flight recorders have dumped. The library writes dumps and reads none.

#include <string>
#include <string_view>
#include <vector>

#include "comm/record/dump/dump.hpp"
#include "core/result.hpp"

namespace ccoll::dump {

/// Fails with `corrupt`, saying what was expected, unless it is such a text of kVersion.
Result<Dump> parse(std::string_view json);

/// The dumps in a directory, by communicator and rank. What cannot be read is told in `remarks`.
std::vector<Dump> read_directory(const std::string& directory, std::vector<std::string>& remarks);

}  // namespace ccoll::dump

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads flight recorders' dumps, which the library writes and never reads.

#include <string>
#include <string_view>
#include <vector>

#include "comm/record/dump/dump.hpp"
#include "core/result.hpp"

namespace ccoll::dump {

/// Fails with `corrupt` and the expected content unless it is a valid text of kVersion.
Result<Dump> parse(std::string_view json);

/// The dumps in a directory, by communicator and rank. `remarks` names unreadable files.
std::vector<Dump> read_directory(const std::string& directory, std::vector<std::string>& remarks);

}  // namespace ccoll::dump

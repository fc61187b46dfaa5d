// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Writing to files where a full disk or a limit must harm nothing else.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace ccoll {

/// Writes all of it to the descriptor; the error's number, or 0. What a limit on the size of files
/// forbids is an error like any other, not a signal that ends the process.
int write_all(int file, std::span<const std::byte> bytes);

/// Whether standard output is a pipe that its reader has closed (`| head`): who wrote there has
/// ended by SIGPIPE, and nobody wants to hear what became of the others.
bool is_output_unread();

/// Makes `path` a file of that text, whole or not at all, and its directory if there is none.
Status write_file(const std::string& path, std::string_view text);

}  // namespace ccoll

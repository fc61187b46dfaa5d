// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Writes files such that a full disk or a limit harms nothing else.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace ccoll {

/// Writes all of it to the descriptor; returns the error's number, or 0. Exceeding a limit on file
/// sizes is an ordinary error, not a signal that ends the process.
int write_all(int file, std::span<const std::byte> bytes);

/// Writes it to standard output, after all that has been printed there.
Status print_whole(std::string_view text);

/// Sets the file's size; returns the error's number, or 0. A limit is an error here too.
int resize_file(int file, std::size_t bytes);

/// Whether standard output is a pipe that its reader has closed (`| head`). Its writer has ended by
/// SIGPIPE, and nobody wants to hear about the others.
bool is_output_unread();

/// Opens /dev/null for each of descriptors 0, 1 and 2 that the process was started without.
/// Otherwise its next files would become its standard streams. A main() calls this first.
void open_missing_streams();

/// Makes `path` a file with that text and mode, whole or not at all, and its directory if missing.
Status write_file(const std::string& path, std::string_view text, unsigned mode = 0600);

}  // namespace ccoll

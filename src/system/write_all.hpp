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

/// Writes it to standard output, behind what has been printed there.
Status print_whole(std::string_view text);

/// Makes the file so long; the error's number, or 0. A limit is an error here, too.
int resize_file(int file, std::size_t bytes);

/// Whether standard output is a pipe that its reader has closed (`| head`): who wrote there has
/// ended by SIGPIPE, and nobody wants to hear what became of the others.
bool is_output_unread();

/// Opens /dev/null as those of descriptors 0, 1 and 2 that the process was started without, or what
/// it opens next would be taken for its standard streams. The first thing that a main() does.
void open_missing_streams();

/// Makes `path` a file of that text, whole or not at all, and its directory if there is none.
Status write_file(const std::string& path, std::string_view text);

}  // namespace ccoll

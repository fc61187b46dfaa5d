// SPDX-License-Identifier: Apache-2.0
#include "bench/report/text_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "bench/command/sizes.hpp"

namespace ccoll::bench {

Result<std::string> text_in(const std::string& path, std::size_t most_bytes) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> part{};
  do {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  } while (file && text.size() <= most_bytes);
  if (file.bad() || text.empty())
    return fail(ErrorKind::invalid_argument, "cannot read {}: {}", path,
                errno != 0 ? std::strerror(errno) : "it is empty");
  if (text.size() > most_bytes)
    return fail(ErrorKind::invalid_argument, "cannot read {}: it is longer than {} bytes", path,
                short_size(most_bytes));
  return text;
}

}  // namespace ccoll::bench

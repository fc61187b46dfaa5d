// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <tuple>

#include "dumps/read.hpp"

namespace ccoll::dump {
namespace {

Result<Dump> read(const std::filesystem::path& path) {
  std::error_code error;
  // Only files have a size; reading anything else might take for ever.
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return fail(ErrorKind::corrupt, "it cannot be read: {}", error.message());
  if (bytes > kMostBytes)
    return fail(ErrorKind::corrupt, "{} bytes; a dump has at most {}", bytes, kMostBytes);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) return fail(ErrorKind::corrupt, "it cannot be read: {}", std::strerror(errno));
  return parse(text);
}

}  // namespace

std::vector<Dump> read_directory(const std::string& directory, std::vector<std::string>& remarks) {
  std::vector<Dump> dumps;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->path().string().ends_with(kExtension)) continue;
    auto dump = read(at->path());
    if (dump)
      dumps.push_back(std::move(*dump));
    else
      remarks.push_back(fmt::format("{}: {}", at->path().string(), dump.error().message));
  }
  if (error) remarks.push_back(fmt::format("{}: {}", directory, error.message()));
  std::ranges::sort(
      dumps, {}, [](const Dump& each) { return std::tie(each.job, each.communicator, each.rank); });
  std::ranges::sort(remarks);
  return dumps;
}

}  // namespace ccoll::dump

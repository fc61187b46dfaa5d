// SPDX-License-Identifier: Apache-2.0
#include "bench/report/whole_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace ccoll::bench {

namespace fs = std::filesystem;

namespace {

/// `name` is the caller's name for it.
Status write_to(const fs::path& path, const std::string& name, std::string_view text) {
  errno = 0;
  std::FILE* const file = std::fopen(path.c_str(), "w");
  bool good = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (good) return {};
  return fail(ErrorKind::exhausted, "cannot write {}: {}", name,
              std::strerror(error != 0 ? error : errno));
}

}  // namespace

Status check_writable(const std::string& path) {
  if (path.empty())
    return fail(ErrorKind::invalid_argument, "cannot write '': expected the name of a file");
  // Checks the name as given: the target of /dev/stdout may have no other name.
  std::error_code ignored;
  const bool exists = fs::exists(path, ignored);
  const fs::path asked =
      exists ? fs::path(path) : fs::weakly_canonical(fs::absolute(path), ignored).parent_path();
  const int mode = exists ? W_OK : W_OK | X_OK;
  if (fs::is_directory(path, ignored))
    errno = EISDIR;
  else if (::access(asked.c_str(), mode) == 0)
    return {};
  return fail(ErrorKind::invalid_argument, "cannot write {}: {}", path, std::strerror(errno));
}

Status write_whole(const std::string& path, std::string_view text) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    return write_to(path, path, text);
  const fs::path target = fs::weakly_canonical(fs::absolute(path), error);
  if (error) return fail(ErrorKind::exhausted, "cannot write {}: {}", path, error.message());
  const fs::path part = fmt::format("{}.{}.part", target.string(), ::getpid());
  auto written = write_to(part, path, text);
  if (written) {
    fs::rename(part, target, error);
    if (!error) return {};
    written = fail(ErrorKind::exhausted, "cannot write {}: {}", path, error.message());
  }
  fs::remove(part, error);
  return written;
}

}  // namespace ccoll::bench

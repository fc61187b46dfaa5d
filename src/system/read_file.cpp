// SPDX-License-Identifier: Apache-2.0
#include "system/read_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/os_error.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll {
namespace {

Result<std::string> unread(const std::string& path, int code) {
  switch (code) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return fail(ErrorKind::exhausted, "cannot read {}: {}", path, os_error(code));
    default:
      return std::string();
  }
}

Status check_regular(std::string_view what, const std::string& path, const struct stat& facts) {
  if (S_ISREG(facts.st_mode)) return {};
  return fail(ErrorKind::invalid_argument, "{} {}: not a regular file", what, path);
}

Status check_private(std::string_view what, const std::string& path, const struct stat& facts) {
  CCOLL_TRY(check_regular(what, path, facts));
  if (facts.st_uid != ::geteuid()) {
    return fail(ErrorKind::invalid_argument, "{} {}: it belongs to user {}, this is user {}", what,
                path, facts.st_uid, ::geteuid());
  }
  if ((facts.st_mode & 077) != 0) {
    return fail(ErrorKind::invalid_argument,
                "{} {}: others may read or write it (mode {:04o}): chmod 600 {}", what, path,
                facts.st_mode & 07777, path);
  }
  return {};
}

/// The rest of the file.
Result<std::string> rest_of(const FileDescriptor& file, std::string_view what,
                            const std::string& path, std::size_t most_bytes) {
  std::string content(most_bytes + 1, '\0');
  std::size_t length = 0;
  while (length < content.size()) {
    const ssize_t got = ::read(file.number(), content.data() + length, content.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(ErrorKind::invalid_argument, "{} {}: {}", what, path, os_error(errno));
    }
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  if (length > most_bytes) {
    return fail(ErrorKind::invalid_argument, "{} {}: longer than {} bytes", what, path, most_bytes);
  }
  content.resize(length);
  return content;
}

/// The content of a file whose facts `check` finds right.
template <typename Check>
Result<std::string> read_checked(std::string_view what, const std::string& path,
                                 std::size_t most_bytes, Check&& check) {
  // With O_NONBLOCK, opening a pipe by mistake does not wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (!file.open() || ::fstat(file.number(), &facts) != 0) {
    return fail(ErrorKind::invalid_argument, "{} {}: {}", what, path, os_error(errno));
  }
  CCOLL_TRY(check(what, path, facts));
  return rest_of(file, what, path, most_bytes);
}

}  // namespace

Result<std::string> kernel_text(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return unread(path, errno);
  std::string text;
  for (std::array<char, 4096> part;;) {
    const ssize_t got = ::read(file.number(), part.data(), part.size());
    if (got == 0) return text;
    if (got > 0)
      text.append(part.data(), static_cast<std::size_t>(got));
    else if (errno != EINTR)
      return unread(path, errno);
  }
}

Result<std::string> kernel_line(const std::string& path) {
  auto text = kernel_text(path);
  if (text) text->resize(std::min(text->find('\n'), text->size()));
  return text;
}

Result<std::string> read_private_file(std::string_view what, const std::string& path,
                                      std::size_t most_bytes) {
  return read_checked(what, path, most_bytes, check_private);
}

Result<std::string> read_regular_file(std::string_view what, const std::string& path,
                                      std::size_t most_bytes) {
  return read_checked(what, path, most_bytes, check_regular);
}

Result<std::string> read_file(std::string_view what, const std::string& path,
                              std::size_t most_bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open())
    return fail(ErrorKind::invalid_argument, "{} {}: {}", what, path, os_error(errno));
  return rest_of(file, what, path, most_bytes);
}

}  // namespace ccoll

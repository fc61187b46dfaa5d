// SPDX-License-Identifier: Apache-2.0
#include "system/kernel_file.hpp"

#include <fcntl.h>
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

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/file_descriptor.hpp"
#include "rendezvous/open_store.hpp"

namespace ccoll {
namespace {

constexpr std::size_t kMostTokenBytes = 4096;

Status check_private(const std::string& path, const struct stat& facts) {
  if (!S_ISREG(facts.st_mode)) {
    return fail(ErrorKind::invalid_argument, "token file {}: not a regular file", path);
  }
  if (facts.st_uid != ::geteuid()) {
    return fail(ErrorKind::invalid_argument,
                "token file {}: it belongs to user {}, this is user {}", path, facts.st_uid,
                ::geteuid());
  }
  if ((facts.st_mode & 077) != 0) {
    return fail(ErrorKind::invalid_argument,
                "token file {}: others may read or write it (mode {:04o}): chmod 600 {}", path,
                facts.st_mode & 07777, path);
  }
  return {};
}

}  // namespace

Result<std::string> read_token_file(const std::string& path) {
  // O_NONBLOCK: opening a pipe by mistake must not wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (!file.open() || ::fstat(file.number(), &facts) != 0) {
    return fail(ErrorKind::invalid_argument, "token file {}: {}", path, std::strerror(errno));
  }
  CCOLL_TRY(check_private(path, facts));
  std::string token(kMostTokenBytes + 1, '\0');
  std::size_t length = 0;
  while (length < token.size()) {
    const ssize_t got = ::read(file.number(), token.data() + length, token.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(ErrorKind::invalid_argument, "token file {}: {}", path, std::strerror(errno));
    }
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  if (length > kMostTokenBytes) {
    return fail(ErrorKind::invalid_argument, "token file {}: longer than {} bytes", path,
                kMostTokenBytes);
  }
  token.resize(length);
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (token.empty()) {
    return fail(ErrorKind::invalid_argument, "token file {}: it holds no token", path);
  }
  return token;
}

}  // namespace ccoll

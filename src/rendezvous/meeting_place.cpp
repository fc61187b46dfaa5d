// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/meeting_place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ccoll {
namespace {

/// `text` with what does not belong into a file's name replaced.
std::string as_file_name(std::string text) {
  for (char& letter : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) || letter == '-' ||
                       letter == '.' || letter == '_';
    if (!plain) letter = '_';
  }
  return text;
}

std::string directory_for(const Variables& variables) {
  struct stat facts {};
  const auto runtime = variables.text("XDG_RUNTIME_DIR");
  const bool usable = runtime && runtime->starts_with('/') &&
                      ::stat(runtime->c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
                      facts.st_uid == ::geteuid() && (facts.st_mode & 022) == 0;
  return usable ? *runtime : "/tmp";
}

tl::unexpected<Failure> refused(const std::string& path, const std::string& why) {
  return fail(ErrorKind::invalid_argument,
              "the ranks cannot meet at {}: {}; set CCOLL_STORE=tcp://127.0.0.1:PORT with a free "
              "port instead",
              path, why);
}

Status check_directory(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  struct stat facts {};
  if (::stat(directory.c_str(), &facts) != 0) {
    return refused(path, fmt::format("{}: {}", directory, std::strerror(errno)));
  }
  if (facts.st_uid != 0 && facts.st_uid != ::geteuid()) {
    return refused(path, fmt::format("{} belongs to user {}", directory, facts.st_uid));
  }
  const bool sticky = (facts.st_mode & S_ISVTX) != 0;
  if ((facts.st_mode & 022) != 0 && !sticky) {
    return refused(path, fmt::format("others may replace files in {}", directory));
  }
  return {};
}

}  // namespace

std::string meeting_path(const Variables& variables, const Launched& launched) {
  return fmt::format("{}/ccoll-{}-{}-{}", directory_for(variables), ::geteuid(), launched.launcher,
                     as_file_name(launched.meeting));
}

Status secure_meeting_file(const std::string& path) {
  CCOLL_TRY(check_directory(path));
  constexpr mode_t kPrivate = 0600;
  const int file =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kPrivate);
  if (file < 0) {
    return refused(path, errno == ELOOP ? "it is a symbolic link" : std::strerror(errno));
  }
  struct stat facts {};
  const bool known = ::fstat(file, &facts) == 0;
  ::close(file);
  if (!known) return refused(path, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return refused(path, "it is not a regular file");
  if (facts.st_uid != ::geteuid()) {
    return refused(path, fmt::format("it belongs to user {}", facts.st_uid));
  }
  if ((facts.st_mode & 077) != 0) return refused(path, "others may read or write it");
  if (facts.st_nlink != 1) return refused(path, "it has another name too");
  return {};
}

}  // namespace ccoll

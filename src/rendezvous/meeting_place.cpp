// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/meeting_place.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "system/file_descriptor.hpp"

namespace ccoll {
namespace {

/// `text` with characters replaced that do not belong in a file's name.
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

std::string name_prefix() { return fmt::format("ccoll-{}-", ::geteuid()); }

/// Whether this file's locks and the store's (`flock`) in it are independent. Network file systems
/// have only one kind of lock: there a presence would lock the store.
bool has_two_kinds_of_locks(int file) {
  struct statfs system {};
  if (::fstatfs(file, &system) != 0) return false;
  constexpr std::array<unsigned, 4> kNetwork = {NFS_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
                                                SMB_SUPER_MAGIC};
  return std::find(kNetwork.begin(), kNetwork.end(), static_cast<unsigned>(system.f_type)) ==
         kNetwork.end();
}

/// Sets the lock on the whole of `file` to `type` if no other lock forbids it. It belongs to this
/// descriptor. fcntl's older locks belong to the process, in which several threads may be ranks.
bool set_presence(int file, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

/// Removes the file at `path`, which is `file`, unless a rank has its presence there.
void remove_if_deserted(const std::string& path, int file) {
  struct stat there {
  }, ours{};
  if (!has_two_kinds_of_locks(file) || !set_presence(file, F_WRLCK)) return;
  const bool same = ::lstat(path.c_str(), &there) == 0 && ::fstat(file, &ours) == 0 &&
                    there.st_ino == ours.st_ino && there.st_dev == ours.st_dev;
  if (same) ::unlink(path.c_str());
}

/// Removes files that killed jobs left in `directory`, if no rank is alive.
void remove_deserted(const std::filesystem::path& directory) {
  const StandardStreamsTaken taken;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (!entry.path().filename().string().starts_with(name_prefix())) continue;
    const std::string path = entry.path().string();
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat facts {};
    const bool ours = file.open() && ::fstat(file.number(), &facts) == 0 &&
                      S_ISREG(facts.st_mode) && facts.st_uid == ::geteuid();
    if (ours) remove_if_deserted(path, file.number());
  }
}

Status check_file(const std::string& path, int file) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) return refused(path, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return refused(path, "it is not a regular file");
  if (facts.st_uid != ::geteuid()) {
    return refused(path, fmt::format("it belongs to user {}", facts.st_uid));
  }
  if ((facts.st_mode & 077) != 0) return refused(path, "others may read or write it");
  if (facts.st_nlink > 1) return refused(path, "it has another hard link");
  return {};
}

bool is_removed(int file) {
  struct stat facts {};
  return ::fstat(file, &facts) == 0 && facts.st_nlink == 0;
}

}  // namespace

std::string meeting_path(const Variables& variables, const Launched& launched) {
  return fmt::format("{}/{}{}-{}", directory_for(variables), name_prefix(), launched.launcher,
                     as_file_name(launched.meeting));
}

Result<MeetingFile> MeetingFile::open(std::string path) {
  CCOLL_TRY(check_directory(path));
  constexpr mode_t kPrivate = 0600;
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    FileDescriptor file(::open(path.c_str(), kFlags | O_CREAT | O_EXCL, kPrivate));
    const bool made = file.open();
    if (!made && errno == EEXIST) file = FileDescriptor(::open(path.c_str(), kFlags));
    if (!file.open()) {
      if (errno == ENOENT) continue;
      return refused(path, errno == ELOOP ? "it is a symbolic link" : std::strerror(errno));
    }
    CCOLL_TRY(check_file(path, file.number()));
    // An earlier job of the same name may have left it, with other keys.
    if (!made) remove_if_deserted(path, file.number());
    const bool locked =
        !has_two_kinds_of_locks(file.number()) || set_presence(file.number(), F_RDLCK);
    if (locked && !is_removed(file.number())) {
      if (made) remove_deserted(std::filesystem::path(path).parent_path());
      return MeetingFile(std::move(path), std::move(file));
    }
    // The last rank there is just removing it, or this rank has removed it.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return refused(path, "another process keeps it locked");
}

MeetingFile::~MeetingFile() {
  if (!file_.open()) return;
  // Drop the own presence first: if two leave at once, at least one then finds no other there.
  set_presence(file_.number(), F_UNLCK);
  remove_if_deserted(path_, file_.number());
}

}  // namespace ccoll

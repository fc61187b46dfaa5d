// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The file at which the ranks of one host meet if their launcher gave them no address. Other users
/// may write to its directory (/tmp), so it is never opened without proof that this user owns it.

#include <string>

#include "core/result.hpp"
#include "rendezvous/launchers.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll {

/// "DIRECTORY/ccoll-UID-LAUNCHER-JOB", the same on all ranks of the job. DIRECTORY is
/// XDG_RUNTIME_DIR if this user owns that directory, else /tmp.
std::string meeting_path(const Variables& variables, const Launched& launched);

/// A rank's presence at a meeting place: a lock, which the kernel releases if the rank is killed.
/// The file exists as long as any rank is there; the last one removes it. If all were killed, this
/// user's next job that meets in that directory removes it.
class MeetingFile final {
 public:
  /// Makes the file at `path`, readable by this user only, or checks the existing one. It must be a
  /// regular file and no link, belong to this user, and have one name, in a directory where no
  /// other user can replace it. Otherwise it fails with Error{invalid_argument} and the reason.
  static Result<MeetingFile> open(std::string path);
  MeetingFile(MeetingFile&&) = default;
  MeetingFile& operator=(MeetingFile&&) = delete;
  ~MeetingFile();

 private:
  MeetingFile(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  FileDescriptor file_;  ///< holds a shared lock of the file
};

}  // namespace ccoll

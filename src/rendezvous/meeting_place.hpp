// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The file at which the ranks of one host meet when their launcher gave them no address. It lies
/// where other users may write (/tmp), so it is never opened without proof that it is this user's.

#include <string>

#include "core/result.hpp"
#include "rendezvous/launchers.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll {

/// "DIRECTORY/ccoll-UID-LAUNCHER-JOB", the same on all ranks of the job. DIRECTORY is
/// XDG_RUNTIME_DIR if that is a directory of this user's, else /tmp.
std::string meeting_path(const Variables& variables, const Launched& launched);

/// A rank's presence at a meeting place: a lock, which the kernel takes back from ranks that are
/// killed. The file is there for as long as any rank is; whoever leaves last removes it. Where all
/// were killed, the next job of this user that meets in that directory does.
class MeetingFile final {
 public:
  /// Makes the file at `path`, readable by this user only, or checks that the one there is such: a
  /// regular file and no link, this user's, with one name, in a directory where nobody else can
  /// put another in its place. Anything else is an Error{invalid_argument} that says what is wrong.
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

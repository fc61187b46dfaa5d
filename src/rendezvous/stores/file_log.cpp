// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/stores/file_log.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/bytes.hpp"

namespace ccoll::rendezvous {
namespace {

/// The first bytes of the file, with the version of the format.
constexpr std::string_view kHeader = "ccoll store 1\n";
/// Length and checksum before each record.
constexpr std::size_t kPreambleBytes = 2 * sizeof(std::uint32_t);

/// FNV-1a: enough to tell a finished record from an unfinished one.
std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t hash = 2166136261u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace

tl::unexpected<Failure> FileLog::failed(const char* doing) const {
  const int code = errno;
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG || code == EMFILE;
  return fail(full ? ErrorKind::exhausted : ErrorKind::invalid_argument,
              "cannot {} the store file {}: {}; all ranks need a file that they can open, lock and "
              "write",
              doing, path_, std::generic_category().message(code));
}

Status FileLog::open() {
  file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file_.open()) return failed("open");
  return {};
}

Result<bool> FileLog::try_lock() {
  while (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return failed("lock");
  }
  return true;
}

void FileLog::unlock() { ::flock(file_.number(), LOCK_UN); }

Result<bool> FileLog::changed(std::uint64_t seen) const {
  struct stat status {};
  if (::fstat(file_.number(), &status) != 0) return failed("examine");
  if (status.st_nlink == 0) {
    return fail(ErrorKind::peer_lost, "the store file {} was removed while it was in use", path_);
  }
  return static_cast<std::uint64_t>(status.st_size) != seen;
}

Status FileLog::read_new_bytes(std::string& bytes) {
  struct stat status {};
  if (::fstat(file_.number(), &status) != 0) return failed("examine");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < offset_) {
    return fail(ErrorKind::corrupt, "the store file {} became shorter while it was in use", path_);
  }
  bytes.resize(size - offset_);
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::pread(file_.number(), bytes.data() + have, bytes.size() - have,
                                static_cast<off_t>(offset_ + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read");
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return {};
}

Status FileLog::read(const std::function<Status(std::string_view)>& apply) {
  std::string bytes;
  CCOLL_TRY(read_new_bytes(bytes));
  std::string_view rest = bytes;
  if (offset_ == 0) {
    if (!rest.starts_with(kHeader) && !kHeader.starts_with(rest)) {
      return fail(
          ErrorKind::invalid_argument,
          "{} is a file, but not a store of this version of ccoll: name another or remove it",
          path_);
    }
    // The file is new, or its writer died at the very first write.
    if (rest.size() < kHeader.size()) return write_all(kHeader);
    rest.remove_prefix(kHeader.size());
    offset_ = kHeader.size();
  }
  while (!rest.empty()) {
    net::Reader preamble(rest);
    const auto length = preamble.number<std::uint32_t>();
    const auto sum = preamble.number<std::uint32_t>();
    const bool whole = !preamble.bad() && rest.size() - kPreambleBytes >= length;
    if (!whole || checksum(rest.substr(kPreambleBytes, length)) != sum) {
      if (::ftruncate(file_.number(), static_cast<off_t>(offset_)) != 0) return failed("repair");
      return {};
    }
    CCOLL_TRY(apply(rest.substr(kPreambleBytes, length)));
    rest.remove_prefix(kPreambleBytes + length);
    offset_ += kPreambleBytes + length;
  }
  return {};
}

Status FileLog::append(std::string_view record) {
  net::Writer writer;
  writer.number(static_cast<std::uint32_t>(record.size())).number(checksum(record));
  std::string bytes = writer.take();
  bytes += record;
  return write_all(bytes);
}

Status FileLog::write_all(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::pwrite(file_.number(), bytes.data() + done, bytes.size() - done,
                                 static_cast<off_t>(offset_ + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      auto failure = failed("write to");
      // If that fails too, the next reader cuts the unfinished record off.
      if (::ftruncate(file_.number(), static_cast<off_t>(offset_)) != 0) errno = 0;
      return failure;
    }
    done += static_cast<std::size_t>(put);
  }
  offset_ += bytes.size();
  return {};
}

}  // namespace ccoll::rendezvous

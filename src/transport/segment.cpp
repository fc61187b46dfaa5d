// SPDX-License-Identifier: Apache-2.0
#include "transport/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace ccoll {
namespace {

/// Memory that shrinks kills who touches it; memory that grows is mapped in part only.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

/// What a file is known by while anyone has it open or mapped.
using FileId = std::pair<dev_t, ino_t>;

struct Mappings {
  std::mutex mutex;
  std::map<FileId, std::weak_ptr<Segment>> known;  // guarded by mutex
};

Mappings& mappings() {
  // Never destroyed: communicators may end later at exit.
  static auto& instance = *new Mappings;
  return instance;
}

tl::unexpected<Failure> no_memory(std::string_view call) {
  return fail(ErrorKind::exhausted, "shared memory: {}: {}", call, std::strerror(errno));
}

}  // namespace

Result<std::shared_ptr<Segment>> Segment::make(const char* name, std::size_t bytes) {
  FileDescriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.open()) return no_memory("memfd_create");
  if (ftruncate(file.number(), static_cast<off_t>(bytes)) != 0) return no_memory("ftruncate");
  if (fcntl(file.number(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) return no_memory("fcntl");
  const int number = file.number();
  return mapped(std::move(file), number, bytes);
}

Result<std::shared_ptr<Segment>> Segment::map(const FileDescriptor& file, std::size_t bytes) {
  struct stat status {};
  if (fstat(file.number(), &status) != 0) return no_memory("fstat");
  const int seals = fcntl(file.number(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || static_cast<std::size_t>(status.st_size) < bytes)
    return fail(ErrorKind::corrupt,
                "shared memory: what came is not what ccoll makes ({} bytes, seals {:#x}; expected "
                "are {} bytes whose size is sealed)",
                status.st_size, seals, bytes);
  return mapped(FileDescriptor(), file.number(), static_cast<std::size_t>(status.st_size));
}

Result<std::shared_ptr<Segment>> Segment::mapped(FileDescriptor file, int number,
                                                 std::size_t bytes) {
  struct stat status {};
  if (fstat(number, &status) != 0) return no_memory("fstat");
  auto& [mutex, known] = mappings();
  std::lock_guard lock(mutex);
  auto& entry = known[{status.st_dev, status.st_ino}];
  if (auto there = entry.lock()) return there;
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0);
  if (data == MAP_FAILED) return no_memory("mmap");
  std::shared_ptr<Segment> made(new Segment(std::move(file), static_cast<std::byte*>(data), bytes));
  entry = made;
  std::erase_if(known, [](const auto& each) { return each.second.expired(); });
  return made;
}

Segment::~Segment() { munmap(data_, size_); }

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "system/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "core/os_error.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"
#include "system/write_all.hpp"

namespace ccoll {
namespace {

/// If memory shrinks, access to it kills the process; if it grows, only a part is mapped.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

/// Identifies a file as long as any process has it open or mapped.
using FileId = std::pair<dev_t, ino_t>;

/// Number of known mappings at which the expired ones are looked for.
constexpr std::size_t kFewMappings = 64;

struct Mappings {
  std::map<FileId, std::weak_ptr<Segment>> known;
  std::size_t look_at = kFewMappings;  ///< size at which to drop some
};

/// Alignment of huge pages on most machines.
constexpr std::size_t kHugePage = 2 << 20;

/// A free address at which `bytes` bytes of a file from `offset` on can be mapped, so that the
/// file's huge pages are huge pages there too. Null if that does not matter.
void* aligned_place(std::uint64_t offset, std::size_t bytes) {
  if (bytes < kHugePage) return nullptr;
  void* const found =
      mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  munmap(found, bytes + kHugePage);
  const auto skipped = (offset - reinterpret_cast<std::uintptr_t>(found)) % kHugePage;
  return static_cast<std::byte*>(found) + skipped;
}

/// `exhausted` if memory may be free later, else `unsupported`.
tl::unexpected<Failure> no_memory(std::string_view call) {
  const int code = errno;
  const bool later = code == ENOMEM || code == ENOSPC || code == EMFILE || code == ENFILE;
  return fail(
      later ? ErrorKind::exhausted : ErrorKind::unsupported, "shared memory: {}: {}{}", call,
      os_error(code),
      code == ENOMEM
          ? " (the limit may be memory, address space: ulimit -v, or mappings: vm.max_map_count)"
          : "");
}

}  // namespace

Result<std::shared_ptr<Segment>> Segment::make(const char* name, std::size_t bytes) {
  return make_sealed(name, bytes, 0);
}

Result<std::shared_ptr<Segment>> Segment::make_lendable(const char* name, std::size_t bytes) {
  return make_sealed(name, bytes, F_SEAL_FUTURE_WRITE);
}

Result<std::shared_ptr<Segment>> Segment::make_sealed(const char* name, std::size_t bytes,
                                                      int seals) {
  if (bytes > PTRDIFF_MAX)
    return fail(ErrorKind::exhausted, "shared memory: {} bytes are more than memory can hold",
                bytes);
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Some systems demand this flag (vm.memfd_noexec); older ones do not know it.
  constexpr unsigned kNoExecSeal = 8;
  FileDescriptor file(memfd_create(name, kFlags | kNoExecSeal));
  if (!file.open() && errno == EINVAL) file = FileDescriptor(memfd_create(name, kFlags));
  if (!file.open()) return no_memory("memfd_create");
  if ((errno = resize_file(file.number(), bytes)) != 0) return no_memory("ftruncate");
  const int number = file.number();
  auto made = mapped(std::move(file), number, bytes);
  if (!made) return made;
  // If a kernel does not know one of the seals, it adds none.
  const auto seal = [&](int all) { return fcntl(number, F_ADD_SEALS, all | F_SEAL_SEAL) == 0; };
  if (!seal(kSeals | seals) && (errno != EINVAL || !seal(kSeals))) return no_memory("fcntl");
  return made;
}

Result<std::shared_ptr<Segment>> Segment::map(const FileDescriptor& file, std::size_t bytes) {
  struct stat status {};
  if (fstat(file.number(), &status) != 0) return no_memory("fstat");
  const int seals = fcntl(file.number(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || static_cast<std::size_t>(status.st_size) < bytes)
    return fail(ErrorKind::corrupt,
                "shared memory: the received file is not what ccoll makes ({} bytes, seals {:#x}; "
                "expected {} bytes with a sealed size)",
                status.st_size, seals, bytes);
  return mapped(FileDescriptor(), file.number(), static_cast<std::size_t>(status.st_size));
}

Result<std::shared_ptr<Segment>> Segment::mapped(FileDescriptor file, int number,
                                                 std::size_t bytes) {
  struct stat status {};
  if (fstat(number, &status) != 0) return no_memory("fstat");
  const auto mappings = Runtime::one<Guarded<Mappings, ProcessMutex>>().lock();
  auto& known = mappings->known;
  auto& entry = known[{status.st_dev, status.st_ino}];
  if (auto there = entry.lock()) return there;
  std::shared_ptr<Segment> made(new Segment(std::move(file)));
  CCOLL_TRY(made->map(number, PROT_READ | PROT_WRITE, MAP_SHARED, 0, bytes));
  entry = made;
  if (known.size() >= mappings->look_at) {
    std::erase_if(known, [](const auto& each) { return each.second.expired(); });
    mappings->look_at = std::max(kFewMappings, 2 * known.size());
  }
  return made;
}

Result<std::shared_ptr<Segment>> Segment::make_private(std::size_t bytes) {
  std::shared_ptr<Segment> made(new Segment(FileDescriptor()));
  CCOLL_TRY(made->map(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0, bytes));
  return made;
}

Result<std::shared_ptr<Segment>> Segment::view(const FileDescriptor& file, std::uint64_t offset,
                                               std::size_t bytes) {
  struct stat status {};
  if (fstat(file.number(), &status) != 0) return no_memory("fstat");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (bytes == 0 || offset > size || bytes > size - offset)
    return fail(ErrorKind::invalid_argument,
                "shared memory: bytes {} to {} are not in a file of {} bytes", offset,
                offset + bytes, size);
  std::shared_ptr<Segment> made(new Segment(FileDescriptor()));
  CCOLL_TRY(made->map(file.number(), PROT_READ, MAP_SHARED, offset, bytes));
  return made;
}

Status Segment::map(int number, int protection, int flags, std::uint64_t offset,
                    std::size_t bytes) {
  const auto before = offset % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  // The address is a hint: if another thread has taken it, the system chooses.
  void* const data = mmap(aligned_place(offset - before, before + bytes), before + bytes,
                          protection, flags, number, static_cast<off_t>(offset - before));
  if (data == MAP_FAILED) return no_memory("mmap");
  data_ = static_cast<std::byte*>(data) + before;
  size_ = bytes;
  before_ = before;
  return {};
}

void Segment::give_back(std::byte* data, std::size_t bytes) const {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  // If the system cannot do that, the memory stays.
  if (begin < end)
    (void)madvise(data + (begin - reinterpret_cast<std::uintptr_t>(data)), end - begin,
                  MADV_REMOVE);
}

void Segment::make_pages(std::byte* data, std::size_t bytes) const {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, from Linux 5.14 on
  (void)madvise(data, bytes, kPopulateWrite);
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_ - before_, before_ + size_);
}

}  // namespace ccoll

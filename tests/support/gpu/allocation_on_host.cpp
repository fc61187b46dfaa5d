// SPDX-License-Identifier: Apache-2.0
#include "support/gpu/allocation_on_host.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

namespace ccoll::testing {

namespace {

constexpr std::size_t kPage = 4096;
/// CUDA aligns allocations to this.
constexpr std::size_t kUnit = 256;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit;
}

/// The content of a handle. File numbers are reused, so the inode identifies the memory.
struct Said {
  std::uint64_t inode;
  std::uint64_t whole, offset, bytes;
  std::int32_t process, file, device, unused;
};
static_assert(std::has_unique_object_representations_v<Said>);  // handles are compared as bytes
static_assert(sizeof(Said) <= sizeof(cudaIpcMemHandle_t));

Said said_by(const cudaIpcMemHandle_t& handle) {
  Said said;
  std::memcpy(&said, &handle, sizeof said);
  return said;
}

std::uint64_t inode_of(int file) {
  struct stat about {};
  return fstat(file, &about) == 0 ? about.st_ino : 0;
}

}  // namespace

std::unique_ptr<AllocationOnHost> AllocationOnHost::make(std::size_t bytes, int device,
                                                         bool is_hidden) {
  std::unique_ptr<AllocationOnHost> made(new AllocationOnHost);
  made->bytes_ = bytes;
  made->whole_ = rounded_up(bytes, kPage);
  made->offset_ = made->whole_ - rounded_up(bytes, kUnit);
  made->device_ = device;
  made->owner_ = getpid();
  made->file_ = FileDescriptor(memfd_create("memory of cudaMalloc", MFD_CLOEXEC));
  const bool has_room = made->file_.open() &&
                        ftruncate(made->file(), static_cast<off_t>(made->whole_)) == 0 &&
                        made->map(is_hidden ? PROT_NONE : PROT_READ | PROT_WRITE);
  if (!has_room) return nullptr;
  if (is_hidden) {
    void* const view =
        mmap(nullptr, made->whole_, PROT_READ | PROT_WRITE, MAP_SHARED, made->file(), 0);
    if (view == MAP_FAILED) return nullptr;
    made->view_ = static_cast<std::byte*>(view);
  }
  std::memset(made->view_, 0xcd, made->whole_);
  return made;
}

std::unique_ptr<AllocationOnHost> AllocationOnHost::open(const cudaIpcMemHandle_t& handle,
                                                         bool is_other) {
  const Said said = said_by(handle);
  const auto path = "/proc/" + std::to_string(said.process) + "/fd/" + std::to_string(said.file);
  std::unique_ptr<AllocationOnHost> made(new AllocationOnHost);
  made->file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  // A shared lock, which every process that has the memory open holds.
  if (!made->file_.open() || inode_of(made->file()) != said.inode ||
      flock(made->file(), LOCK_SH | LOCK_NB) != 0) {
    return nullptr;
  }
  if (is_other) return make(said.bytes, said.device, false);
  made->whole_ = said.whole;
  made->offset_ = said.offset;
  made->bytes_ = said.bytes;
  made->device_ = said.device;
  if (!made->map(PROT_READ | PROT_WRITE)) return nullptr;
  return made;
}

bool AllocationOnHost::map(int access) {
  void* const room = mmap(nullptr, whole_ + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  void* const pages = mmap(room, whole_, access, MAP_SHARED | MAP_FIXED, file(), 0);
  if (pages == MAP_FAILED) return false;
  pages_ = view_ = static_cast<std::byte*>(pages);
  return true;
}

AllocationOnHost::~AllocationOnHost() {
  if (view_ == nullptr) return;
  // A process that still reads it sees wrong data.
  if (owner_ == getpid()) std::memset(view_, 0xdd, whole_);
  if (is_hidden()) munmap(view_, whole_);
  munmap(pages_, whole_ + kPage);
}

cudaIpcMemHandle_t AllocationOnHost::handle() const {
  cudaIpcMemHandle_t handle = {};
  const Said said{inode_of(file()), whole_, offset_, bytes_, getpid(), file(), device_, 0};
  std::memcpy(&handle, &said, sizeof said);
  return handle;
}

bool AllocationOnHost::is_open_elsewhere() const { return flock(file(), LOCK_EX | LOCK_NB) != 0; }

bool AllocationOnHost::is_of_this_process(const cudaIpcMemHandle_t& handle) {
  return said_by(handle).process == getpid();
}

}  // namespace ccoll::testing

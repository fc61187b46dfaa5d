// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/single_copy.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <random>

#include "core/os_error.hpp"
#include "system/read_file.hpp"
#include "system/runtime.hpp"
#include "transport/transport.hpp"

namespace ccoll::shm {
namespace {

/// A page that is zero again in a forked child, which is another process; null if there is no
/// memory for it.
using Place = std::atomic<std::uint64_t>;

Place* make_place() {
  void* const page =
      mmap(nullptr, sizeof(Place), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (madvise(page, sizeof(Place), MADV_WIPEONFORK) == 0) return new (page) Place(0);
  munmap(page, sizeof(Place));
  return nullptr;
}

struct Mark {
  Place* const place = make_place();
};

std::uint64_t random_number() {
  std::random_device random;
  // Never 0, which means none.
  return (std::uint64_t{random()} << 32 | random()) | 1;
}

void* at(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

/// A refusal may be temporary, or concern only some of the memory. Even "no such process" may mean
/// only that its first thread has ended.
tl::unexpected<Failure> unreadable(pid_t process, int error) {
  return fail(error == ENOMEM ? ErrorKind::exhausted : ErrorKind::unsupported,
              "process_vm_readv from process {}: {}", process, os_error(error));
}

}  // namespace

ProcessMark process_mark() {
  auto* const mark = Runtime::one<Mark>().place;
  if (mark == nullptr) return {};
  std::uint64_t none = 0;
  if (mark->load() == 0) mark->compare_exchange_strong(none, random_number());
  return {reinterpret_cast<std::uintptr_t>(mark), mark->load()};
}

Result<PeerMemory> PeerMemory::reach(pid_t process, const ProcessMark& mark) {
  if (mark.address == 0)
    return fail(ErrorKind::unsupported, "it does not let other processes read its memory");
  // The process is hidden by another namespace.
  if (process <= 0) return fail(ErrorKind::unsupported, "its process cannot be seen from here");
  const PeerMemory memory(process, mark);
  CCOLL_TRY(memory.read(mark.address, nullptr, 0));
  return memory;
}

Status PeerMemory::read(std::uint64_t address, std::byte* to, std::size_t bytes) const {
  std::uint64_t value = 0;
  // One call reads from one process throughout, even if its number is reused meanwhile.
  const std::array local{iovec{&value, sizeof value}, iovec{to, bytes}};
  const std::array remote{iovec{at(mark_.address), sizeof value}, iovec{at(address), bytes}};
  const auto copied =
      process_vm_readv(process_, local.data(), local.size(), remote.data(), remote.size(), 0);
  if (copied < 0) return unreadable(process_, errno);
  if (static_cast<std::size_t>(copied) < sizeof value || value != mark_.value)
    return fail(ErrorKind::peer_lost, "process {} has ended", process_);
  if (static_cast<std::size_t>(copied) < sizeof value + bytes) return unreadable(process_, EFAULT);
  return {};
}

}  // namespace ccoll::shm

namespace ccoll {

std::string describe_single_copy() {
  if (const auto own = shm::PeerMemory::reach(getpid(), shm::process_mark()); !own)
    return "no: " + own.error().message;
  const auto scope = kernel_line("/proc/sys/kernel/yama/ptrace_scope").value_or("");
  if (!scope.empty() && scope != "0")
    return fmt::format(
        "no, unless ranks have CAP_SYS_PTRACE: kernel.yama.ptrace_scope is {}, 0 would allow it",
        scope);
  return "yes, if CCOLL_SINGLE_COPY is not 0";
}

}  // namespace ccoll

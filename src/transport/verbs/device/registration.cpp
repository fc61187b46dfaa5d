// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/registration.hpp"

#include <cerrno>
#include <cstring>

#include "system/log.hpp"

namespace ccoll::verbs {
namespace {

// A device writes only to memory that is locally writable; memory that is only sent has it too.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

std::shared_ptr<const Registration> Registration::make(const Library& library, ibv_pd* domain,
                                                       const std::byte* data, std::size_t bytes) {
  ibv_mr* const memory = library.reg_mr(domain, const_cast<std::byte*>(data), bytes, kAccess);
  if (memory == nullptr) {
    log().debug("{} bytes of memory cannot be registered for RDMA, so their slices are copied: {}",
                bytes, std::strerror(errno));
    return nullptr;
  }
  return std::shared_ptr<const Registration>(new Registration(library, memory, false));
}

Result<std::shared_ptr<const Registration>> Registration::make(const Library& library,
                                                               ibv_pd* domain,
                                                               const ExportedMemory& memory) {
  if (library.reg_dmabuf_mr == nullptr)
    return fail(ErrorKind::unsupported,
                "this libibverbs has no ibv_reg_dmabuf_mr: install a newer rdma-core");
  // Registered at its GPU address, so that offsets are computed as for host memory.
  const auto address = reinterpret_cast<std::uint64_t>(memory.data);
  ibv_mr* const made =
      library.reg_dmabuf_mr(domain, memory.offset, memory.bytes, address, memory.file, kAccess);
  if (made == nullptr)
    return fail(ErrorKind::unsupported, "{} bytes of GPU memory cannot be registered for RDMA: {}",
                memory.bytes, std::strerror(errno));
  return std::shared_ptr<const Registration>(new Registration(library, made, true));
}

Registration::~Registration() {
  // A forked child does not own it.
  if (process_ == getpid()) library_.dereg_mr(memory_);
}

std::shared_ptr<Registrations> Registrations::make(const Library& library, ibv_pd* domain) {
  std::shared_ptr<Registrations> made(new Registrations(library, domain));
  RegisteredMemories::of_process().watch(made);
  return made;
}

std::shared_ptr<const Registration> Registrations::find(const std::byte* data, std::size_t bytes) {
  const auto memory = RegisteredMemories::of_process().find(data, bytes);
  if (!memory) return nullptr;
  const auto made = made_.lock();
  const auto [found, is_new] = made->try_emplace(memory->number);
  if (is_new) found->second = Registration::make(library_, domain_, memory->data, memory->bytes);
  return found->second;
}

void Registrations::withdraw(std::uint32_t number) {
  std::shared_ptr<const Registration> ended;
  const auto made = made_.lock();
  if (const auto found = made->find(number); found != made->end()) {
    ended = std::move(found->second);
    made->erase(found);
  }
}

}  // namespace ccoll::verbs

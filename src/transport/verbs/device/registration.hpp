// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Caller memory that a device may read and write. Memory registered with ccoll is registered once
/// per device, for its lifetime. Other memory, including a GPU's, is registered for one call and
/// never cached: the next call may find other memory at that address.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "system/locks.hpp"
#include "transport/link.hpp"
#include "transport/registered_memory.hpp"
#include "transport/verbs/device/library.hpp"

namespace ccoll::verbs {

/// Deregisters when its last user drops it.
class Registration final : public DirectMemory {
 public:
  /// Null if the device or the system refuses it.
  static std::shared_ptr<const Registration> make(const Library& library, ibv_pd* domain,
                                                  const std::byte* data, std::size_t bytes);
  /// For memory of a device; or why it cannot be.
  static Result<std::shared_ptr<const Registration>> make(const Library& library, ibv_pd* domain,
                                                          const ExportedMemory& memory);
  ~Registration() override;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  /// Whether it is memory that no CPU accesses.
  bool is_exported() const { return is_exported_; }
  ibv_pd* domain() const { return memory_->pd; }
  std::uint32_t local_key() const { return memory_->lkey; }
  std::uint32_t remote_key() const { return memory_->rkey; }

 private:
  Registration(const Library& library, ibv_mr* memory, bool is_exported)
      : library_(library), memory_(memory), is_exported_(is_exported) {}

  const Library& library_;
  ibv_mr* const memory_;
  const bool is_exported_;
  const pid_t process_ = getpid();
};

/// A device's registrations of memory that is registered with ccoll. Thread-safe.
class Registrations final : public RegisteredMemories::Watcher {
 public:
  static std::shared_ptr<Registrations> make(const Library& library, ibv_pd* domain);

  /// For the memory that contains all of [data, data + bytes); null if there is none or refused.
  std::shared_ptr<const Registration> find(const std::byte* data, std::size_t bytes);
  void withdraw(std::uint32_t number) override;

 private:
  Registrations(const Library& library, ibv_pd* domain) : library_(library), domain_(domain) {}

  const Library& library_;
  ibv_pd* const domain_;
  /// By number in the process; null if it was refused.
  Guarded<std::map<std::uint32_t, std::shared_ptr<const Registration>>> made_;
};

}  // namespace ccoll::verbs

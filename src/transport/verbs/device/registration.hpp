// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of the caller's that a device may read and write: what is registered with ccoll is so
/// once with each device, for as long as it lasts; other memory, and that of GPUs, for one call,
/// and never remembered, since what lies at an address may be another memory by the next call.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "transport/link.hpp"
#include "transport/registered_memory.hpp"
#include "transport/verbs/device/library.hpp"

namespace ccoll::verbs {

/// Ends with its last user.
class Registration final : public DirectMemory {
 public:
  /// Null where the device or the system refuses it.
  static std::shared_ptr<const Registration> make(const Library& library, ibv_pd* domain,
                                                  const std::byte* data, std::size_t bytes);
  /// Of what is not the host's; or why not.
  static Result<std::shared_ptr<const Registration>> make(const Library& library, ibv_pd* domain,
                                                          const ExportedMemory& memory);
  ~Registration() override;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  /// Whether no CPU reads or writes it.
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

/// A device's registrations of what is registered with ccoll. Thread-safe.
class Registrations final : public RegisteredMemories::Watcher {
 public:
  static std::shared_ptr<Registrations> make(const Library& library, ibv_pd* domain);

  /// Of what all of [data, data + bytes) lies in; null where that is nothing, or was refused.
  std::shared_ptr<const Registration> find(const std::byte* data, std::size_t bytes);
  void withdraw(std::uint32_t number) override;

 private:
  Registrations(const Library& library, ibv_pd* domain) : library_(library), domain_(domain) {}

  const Library& library_;
  ibv_pd* const domain_;
  std::mutex mutex_;
  /// By number in the process; null where it was refused. Guarded by mutex_.
  std::map<std::uint32_t, std::shared_ptr<const Registration>> made_;
};

}  // namespace ccoll::verbs

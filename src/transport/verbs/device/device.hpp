// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The RDMA devices of this process: opened once, shared by all its ranks and links.

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/verbs/device/alarms.hpp"
#include "transport/verbs/device/library.hpp"
#include "transport/verbs/device/ports.hpp"
#include "transport/verbs/device/registration.hpp"
#include "transport/verbs/device/settings.hpp"

namespace ccoll::verbs {

class Devices {
 public:
  /// Those that the settings take, as they were when first asked for; or why there is none, and
  /// what to do. Thread-safe.
  static Result<const Devices*> of_process();
  /// As of_process(), each time anew. `library` is to stay.
  static Result<Devices> open(const Library& library, Settings settings);

  const Library& library() const { return *library_; }
  const Settings& settings() const { return settings_; }
  std::span<const Port> ports() const { return ports_; }
  /// The protection domain to which all of a device's memory and queue pairs belong.
  ibv_pd* domain_of(std::size_t port) const { return domains_[port]; }
  /// What that device knows of the memory that is registered with ccoll.
  Registrations& registrations_of(std::size_t port) const { return *registrations_[port]; }
  std::uint8_t fabrics() const;
  /// Of the best of these: ports over which lanes may be spread.
  std::uint8_t rails() const;

  /// A device that is in use; `alarms` are those of its queue pairs.
  struct Opened {
    const Library& library;
    ibv_context* const context;
    ibv_pd* const domain;
    Alarms alarms;
    ~Opened() {
      library.dealloc_pd(domain);
      library.close_device(context);
    }
  };
  std::span<const std::unique_ptr<Opened>> opened() const { return opened_; }
  Alarms& alarms_of(std::size_t port) const;
  /// As ports(), but for those that have gone down, or come up, since. Thread-safe.
  std::vector<Port> ports_now() const;
  bool is_down(std::size_t port) const { return !are_active_[port].load(); }
  /// The same, and asks the port: a failure may come before the event that says why.
  bool is_down_now(std::size_t port) const;
  /// Of one of its ports, or of all.
  void set_down(const Opened& device, std::optional<int> number, bool down) const;

 private:
  static Result<Devices> open();
  void add(ibv_device* device);
  void add_port(ibv_pd* domain, const char* device, std::uint8_t number);

  const Library* library_ = nullptr;
  Settings settings_;
  std::vector<Port> ports_;
  std::vector<ibv_pd*> domains_;  // of each port's device
  std::vector<std::unique_ptr<Opened>> opened_;
  std::vector<std::shared_ptr<Registrations>> registrations_;  // of each port's device
  std::unique_ptr<std::atomic<bool>[]> are_active_;            // of each port
  std::vector<std::string> refusals_;
};

/// Whether they can be used, and a line for each port; or why there is none, and what to do.
std::vector<std::string> describe(const Result<const Devices*>& devices);
/// What is wrong with so little memory to lock (RLIMIT_MEMLOCK), if anything is.
std::optional<std::string> complaint_of_limit(std::uint64_t most_bytes, bool is_privileged);
/// What is wrong if no IPv4 route leaves by a port's network interface; nothing where there is one.
/// `routes`: the kernel's, as /proc/net/route lists them.
std::optional<std::string> complaint_of_routes(std::string_view interface, std::string_view routes);

}  // namespace ccoll::verbs

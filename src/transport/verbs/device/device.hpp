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
  /// The devices that the settings allow, opened at the first call; or why there is none, and what
  /// to do. Thread-safe.
  static Result<const Devices*> of_process();
  /// As of_process(), but opens them anew each time. `library` must outlive them.
  static Result<Devices> open(const Library& library, Settings settings);

  const Library& library() const { return *library_; }
  const Settings& settings() const { return settings_; }
  std::span<const Port> ports() const { return ports_; }
  /// The protection domain to which all of a device's memory and queue pairs belong.
  ibv_pd* domain_of(std::size_t port) const { return domains_[port]; }
  /// The device's registrations of memory that is registered with ccoll.
  Registrations& registrations_of(std::size_t port) const { return *registrations_[port]; }
  std::uint8_t fabrics() const;
  /// The number of ports in the best of these fabrics over which lanes may be spread.
  std::uint8_t rails() const;

  /// A device that is in use; `alarms`: of its queue pairs.
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
  /// ports() with their present state, up or down. Thread-safe.
  std::vector<Port> ports_now() const;
  bool is_down(std::size_t port) const { return !are_active_[port].load(); }
  /// As is_down(), but asks the port too: a failure may come before the event that explains it.
  bool is_down_now(std::size_t port) const;
  /// Marks port `number` of the device, or all of them.
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

/// Whether RDMA is available, and a line for each port; or why there is none, and what to do.
std::vector<std::string> describe(const Result<const Devices*>& devices);
/// The complaint if too little memory may be locked (RLIMIT_MEMLOCK).
std::optional<std::string> complaint_of_limit(std::uint64_t most_bytes, bool is_privileged);
/// The complaint if no IPv4 route leaves by a port's network interface. `routes`: the contents of
/// /proc/net/route.
std::optional<std::string> complaint_of_routes(std::string_view interface, std::string_view routes);

}  // namespace ccoll::verbs

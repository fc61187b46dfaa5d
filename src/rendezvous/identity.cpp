// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/identity.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <sstream>
#include <string>

#include "rendezvous/cpu_quota.hpp"
#include "system/locks.hpp"
#include "system/read_file.hpp"
#include "system/runtime.hpp"
#include "system/variables.hpp"

namespace ccoll {
namespace {

std::uint64_t hash(const std::string& text) {  // FNV-1a: equal on every build, unlike std::hash
  std::uint64_t value = 14695981039346656037ULL;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

/// The process finds these out once.
struct Found {
  std::optional<std::uint64_t> random;
  std::optional<std::uint64_t> cache_bytes;
};

Guarded<Found, ProcessMutex>& found_of_process() {
  return Runtime::one<Guarded<Found, ProcessMutex>>();
}

std::uint64_t process_identity() {
  const auto random = found_of_process().with([](Found& found) {
    if (!found.random) {
      std::random_device device;
      found.random = (std::uint64_t{device()} << 32) | device();
    }
    return *found.random;
  });
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kProcessBits) - 1;
  return (random ^ (static_cast<std::uint64_t>(getpid()) << 17)) & kMask;  // differs after a fork
}

/// This thread's affinity; nullopt if the machine has more cores than the mask can hold.
std::optional<cpu_set_t> affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return std::nullopt;
  return mask;
}

std::uint16_t first_usable_core() {
  static_assert(CPU_SETSIZE <= kMostFirstCores);
  const auto mask = affinity();
  std::uint16_t core = 0;
  while (mask && core + 1 < CPU_SETSIZE && !CPU_ISSET(core, &*mask)) core++;
  return core;
}

}  // namespace

std::uint16_t usable_cores() {
  const auto mask = affinity();
  const int cores = mask ? CPU_COUNT(&*mask) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return static_cast<std::uint16_t>(
      std::clamp(std::min<double>(cores, std::ceil(quota_cores())), 1.0, 65535.0));
}

/// No processor's last level has more than this for each of its cores.
constexpr std::uint64_t kMostCacheOfCore = std::uint64_t{32} << 20;

namespace {

std::uint64_t largest_cache_bytes() {
  std::uint64_t bytes = 0;
  for (int index = 0;; index++) {
    const auto path = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index);
    std::istringstream line(kernel_line(path).value_or(""));  // "32768K"
    std::uint64_t kib = 0;
    if (!(line >> kib)) return std::min(bytes, usable_cores() * kMostCacheOfCore);
    bytes = std::max(bytes, kib << 10);
  }
}

}  // namespace

std::uint64_t host_cache_bytes() {
  return found_of_process().with([](Found& found) {
    if (!found.cache_bytes) found.cache_bytes = largest_cache_bytes();
    return *found.cache_bytes;
  });
}

Result<std::string> boot_identity() { return kernel_line("/proc/sys/kernel/random/boot_id"); }

Result<std::uint64_t> host_identity() {
  if (const auto chosen = read_variable("CCOLL_HOST_ID")) return hash(*chosen);
  auto text = boot_identity();
  if (!text) return tl::unexpected(std::move(text.error()));
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/ipc"}) {
    struct stat status {};
    stat(space, &status);
    *text += fmt::format(" {}", status.st_ino);
  }
  return hash(*text);
}

PeerAddress located(PeerAddress address, const asio::ip::tcp::endpoint& endpoint) {
  const auto ip = endpoint.address();
  address.ip = ip.is_v4() ? asio::ip::make_address_v6(asio::ip::v4_mapped, ip.to_v4()).to_bytes()
                          : ip.to_v6().to_bytes();
  address.port = endpoint.port();
  return address;
}

Result<PeerAddress> identify() {
  PeerAddress address;
  address.cores = usable_cores();
  address.first_core = first_usable_core();
  address.machine_cores =
      static_cast<std::uint16_t>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1L, 65535L));
  const auto boot = boot_identity();
  if (!boot) return tl::unexpected(boot.error());
  if (!boot->empty()) address.machine = static_cast<std::uint32_t>(hash(*boot));
  const auto host = host_identity();
  if (!host) return tl::unexpected(host.error());
  address.host = *host;
  address.process = process_identity();
  address.pid = static_cast<std::uint32_t>(getpid());
  return address;
}

}  // namespace ccoll

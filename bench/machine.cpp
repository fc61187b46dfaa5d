// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>

#include "rendezvous/identity.hpp"

namespace ccoll::bench {

namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  utsname system{};
  return ::uname(&system) == 0 ? system.machine : "an unknown processor";
}

}  // namespace

Machine inspect_machine() {
  Machine machine;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) machine.host = name.data();
  machine.processor = processor_name();
  machine.cores_online = static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN));
  machine.cores_usable = usable_cores();
  machine.memory_gib = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 30);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    machine.open_files = files.rlim_cur;
    machine.open_files_hard = files.rlim_max;
  }
  return machine;
}

std::vector<std::string> list_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
  std::vector<std::string> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* address = nullptr;
    if (entry->ifa_addr->sa_family == AF_INET) {
      address = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      address = &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    }
    if (address == nullptr) continue;
    ::inet_ntop(entry->ifa_addr->sa_family, address, text.data(), text.size());
    found.push_back(fmt::format("{} {}", entry->ifa_name, text.data()));
  }
  return found;
}

}  // namespace ccoll::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/machine.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "net/interface.hpp"
#include "rendezvous/identity.hpp"
#include "system/log.hpp"

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
  machine.host = host_name();
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
  std::vector<std::string> found;
  for (const net::Interface& interface : net::list_interfaces()) {
    found.push_back(fmt::format("{} {}", interface.name, interface.address.to_string()));
  }
  return found;
}

}  // namespace ccoll::bench

// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/cpu_quota.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <vector>

#include "system/read_file.hpp"

namespace ccoll {
namespace {

enum class Version : std::uint8_t { v1, v2 };

/// A process has one group in each hierarchy. If there are hierarchies of both versions, the cpu
/// controller belongs to one of them.
struct Group {
  Version version;
  std::string path;  ///< from the hierarchy's root: "/user.slice/job"
};

struct Mount {
  Version version;
  std::string root;  ///< the group that `place` shows
  std::string place;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(kernel_text(path).value_or(""));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// Whether a list such as "rw,cpu,cpuacct" names the controller.
bool names_cpu(const std::string& list) {
  return ("," + list + ",").find(",cpu,") != std::string::npos;
}

/// Reads lines such as "4:cpu,cpuacct:/job" and, for version 2, "0::/job".
std::vector<Group> own_groups(const std::string& root) {
  std::vector<Group> groups;
  for (const auto& line : lines_of(root + "/proc/self/cgroup")) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty() || names_cpu(controllers))
      groups.push_back({controllers.empty() ? Version::v2 : Version::v1, line.substr(second + 1)});
  }
  return groups;
}

/// The kernel writes a space in a path as "\040".
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
    i += 3;
  }
  return plain;
}

/// Lines such as "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu".
std::vector<Mount> mounts(const std::string& root) {
  std::vector<Mount> found;
  for (const auto& line : lines_of(root + "/proc/self/mountinfo")) {
    const auto separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::string skipped, top, place, type, options;
    std::istringstream(line) >> skipped >> skipped >> skipped >> top >> place;
    std::istringstream(line.substr(separator + 3)) >> type >> skipped >> options;
    if (type == "cgroup2" || (type == "cgroup" && names_cpu(options)))
      found.push_back(
          {type == "cgroup2" ? Version::v2 : Version::v1, unescaped(top), root + unescaped(place)});
  }
  return found;
}

/// The time that the group in this directory allows by itself, in cores.
double quota_at(Version version, const std::string& directory) {
  const auto text = version == Version::v2
                        ? kernel_line(directory + "/cpu.max").value_or("")
                        : kernel_line(directory + "/cpu.cfs_quota_us").value_or("") + " " +
                              kernel_line(directory + "/cpu.cfs_period_us").value_or("");
  std::istringstream line(text);
  double quota = 0, period = 0;  // without a limit the quota is "max", or -1 in version 1
  return line >> quota >> period && quota > 0 && period > 0 ? quota / period : HUGE_VAL;
}

/// The path of `group` below the mount's root; empty if the mount shows other groups only.
std::optional<std::string> path_below(const Mount& mount, const Group& group) {
  const auto top = mount.root == "/" ? "" : mount.root;
  const bool lies_below = mount.version == group.version && group.path.starts_with(top) &&
                          (group.path.size() == top.size() || group.path[top.size()] == '/');
  if (!lies_below) return std::nullopt;
  const auto path = group.path.substr(top.size());
  return path == "/" ? "" : path;
}

}  // namespace

double quota_cores(const std::string& root) {
  double cores = HUGE_VAL;
  const auto all = mounts(root);
  for (const auto& group : own_groups(root))
    for (const auto& mount : all) {
      auto path = path_below(mount, group);
      if (!path) continue;
      for (;; path->erase(path->rfind('/'))) {
        cores = std::min(cores, quota_at(mount.version, mount.place + *path));
        if (path->find('/') == std::string::npos) break;
      }
    }
  return cores;
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/memory.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <sstream>
#include <string>

namespace ccoll::bench {

namespace {

namespace fs = std::filesystem;

void lower(std::optional<std::uint64_t>& least, std::uint64_t bytes) {
  least = std::min(least.value_or(bytes), bytes);
}

/// The number in a file; none if it is "max" or unreadable.
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::uint64_t number = 0;
  std::ifstream file(path);
  if (file >> number) return number;
  return std::nullopt;
}

/// The number after `key` in a file of such pairs, one per line.
std::optional<std::uint64_t> number_of(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::uint64_t number = 0;
    if (words >> word >> number && word == key) return number;
  }
  return std::nullopt;
}

/// The names of a control group's files, which differ between versions 1 and 2.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  ///< in memory.stat: file pages that can be reclaimed
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

/// Lowers `least` to the room in a group and in each enclosing one, up to `mount`.
void look_at_groups(const fs::path& mount, const std::string& group, const GroupFiles& files,
                    std::optional<std::uint64_t>& least) {
  fs::path folder = mount / fs::path(group).relative_path();
  std::error_code ignored;
  // In a container the name may be the host's, while its files are at the mount itself.
  if (!fs::exists(folder, ignored)) folder = mount;
  for (;; folder = folder.parent_path()) {
    const auto limit = number_in(folder / files.limit);
    const auto usage = number_in(folder / files.usage);
    if (limit && usage) {
      const std::uint64_t gives_way =
          number_of(folder / "memory.stat", files.reclaimable).value_or(0);
      const std::uint64_t used = *usage - std::min(*usage, gives_way);
      lower(least, *limit - std::min(*limit, used));
    }
    if (folder == mount || !folder.has_relative_path()) return;
  }
}

}  // namespace

std::optional<std::uint64_t> available_memory(const fs::path& root) {
  std::optional<std::uint64_t> least;
  const auto available = number_of(root / "proc/meminfo", "MemAvailable:");
  if (available) lower(least, *available * 1024);
  const fs::path groups = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:memory:/name", or "0::/name"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      look_at_groups(groups, group, kVersion2, least);
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      look_at_groups(groups / "memory", group, kVersion1, least);
    }
  }
  return least;
}

std::uint64_t bytes_on_host(const Buffers& buffers, std::uint64_t bytes) {
  const auto of_rank = [&](int rank) {
    const std::uint64_t count = count_of(buffers.operation, buffers.type, buffers.ranks, bytes);
    const Layout layout = buffers.operation.layout({buffers.ranks, rank, 0, count});
    const bool is_shared = buffers.in_place && layout.shares;
    const std::uint64_t elems = is_shared ? std::max(layout.input_elems, layout.output_elems)
                                          : layout.input_elems + layout.output_elems;
    return elems * size_of(buffers.type);
  };
  const auto others = static_cast<std::uint64_t>(buffers.ranks_here - 1);
  return of_rank(0) + others * of_rank(buffers.ranks - 1);
}

SizeRange within_memory(const SizeRange& range, const Buffers& buffers, std::uint64_t limit) {
  SizeRange fitting = range;
  // The largest size, which prevents overflow; no host has this much memory.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
  if (range.end <= kMost && bytes_on_host(buffers, range.end) <= limit) return range;
  fitting.end = std::bit_floor(std::min(range.end, kMost));
  while (fitting.end > 0 && bytes_on_host(buffers, fitting.end) > limit) fitting.end /= 2;
  return fitting;
}

}  // namespace ccoll::bench

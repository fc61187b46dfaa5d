// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Counts the system resources of this process, to show that none leaks.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace ccoll::testing {

struct Held {
  std::size_t descriptors = 0, mappings = 0;
  /// Shared files that this process has open or mapped, by any name. Files of other programs do not
  /// count: they come and go.
  std::size_t shared_files = 0;
  std::string text() const {
    return std::to_string(descriptors) + " descriptors, " + std::to_string(mappings) +
           " mappings of ccoll's, " + std::to_string(shared_files) + " files of /dev/shm";
  }
  bool no_more_than(const Held& other) const {
    return descriptors <= other.descriptors && mappings <= other.mappings &&
           shared_files <= other.shared_files;
  }
  friend bool operator==(const Held&, const Held&) = default;
};

inline Held held_now() {
  constexpr const char* kShared = "/dev/shm/";
  Held held;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    held.descriptors++;
    std::error_code closed;
    const auto file = std::filesystem::read_symlink(entry, closed).string();
    held.shared_files += file.starts_with(kShared);
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    held.mappings += line.find("memfd:ccoll") != line.npos;
    held.shared_files += line.find(kShared) != line.npos;
  }
  return held;
}

/// The resources still held once none has been released for a while.
inline Held held_at_rest() {
  auto held = held_now();
  for (int looks = 0; looks < 50; looks++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const auto now = held_now();
    if (now != held) looks = 0;
    held = now;
  }
  return held;
}

}  // namespace ccoll::testing

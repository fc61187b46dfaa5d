// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The costs, on this machine, of bringing data from one process to another by shared memory: in
/// two copies through slots, or in one copy that the kernel makes (shm/single_copy.hpp). These are
/// estimates for the first calls. What calls take corrects them (engine/copier_choice.hpp).

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace ccoll {

struct CopyCosts {
  /// Data go from one rank to the other, or from each to the other at once.
  enum class Pattern : std::uint8_t { one_way, both_ways };
  static constexpr std::array<std::size_t, 4> kSizes{16 << 10, 64 << 10, 256 << 10, 1 << 20};

  /// Microseconds for each of kSizes.
  struct Times {
    std::array<double, kSizes.size()> slots{};
    std::array<double, kSizes.size()> loan{};
    friend bool operator==(const Times&, const Times&) = default;
  };
  std::array<Times, 2> patterns{};  ///< by Pattern

  /// Microseconds for so many bytes each way: linear between the sizes, proportional beyond them.
  double slots(Pattern pattern, std::uint64_t bytes) const;
  double loan(Pattern pattern, std::uint64_t bytes) const;
  bool prefers_loan(Pattern pattern, std::uint64_t bytes) const {
    return loan(pattern, bytes) < slots(pattern, bytes);
  }

  friend bool operator==(const CopyCosts&, const CopyCosts&) = default;
};

/// A line for each pattern and size: "one_way 16384 slots 3.1 loan 4.2".
std::string to_text(const CopyCosts& costs);
/// The failure says which line is wrong, and what was expected.
Result<CopyCosts> parse_copy_costs(std::string_view text);

/// Measures them between two threads of this process, in some 20 ms where two cores are free and
/// at most kCalibrationLimit: the least times of the passes that are over by then. Nothing if none
/// is, or if the kernel does not let a process read another one's memory.
std::optional<CopyCosts> measure_copy_costs();
inline constexpr std::chrono::milliseconds kCalibrationLimit{50};

/// The costs that this process knows; null if none. Thread-safe.
std::shared_ptr<const CopyCosts> known_copy_costs();
void know_copy_costs(const std::optional<CopyCosts>& costs);

}  // namespace ccoll

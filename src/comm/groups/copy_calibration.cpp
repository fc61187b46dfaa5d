// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/copy_calibration.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "comm/groups/tuning.hpp"
#include "rendezvous/identity.hpp"
#include "system/file_descriptor.hpp"
#include "system/log.hpp"
#include "system/read_file.hpp"
#include "system/variables.hpp"
#include "system/write_all.hpp"

namespace ccoll {
namespace {

constexpr std::string_view kCopiesHeadline = "ccoll copies 1";
constexpr std::string_view kNone = "none\n";
/// No such file is so long.
constexpr std::size_t kMostCopiesBytes = 4096;

/// A lock by which one process measures at a time; the kernel takes it back when that ends. The
/// directory is locked, so that no further file is left.
FileDescriptor lock_directory_of(const std::string& path) {
  const auto directory = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  FileDescriptor lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.open() && ::flock(lock.number(), LOCK_EX | LOCK_NB) != 0) lock.close();
  return lock;
}

/// A machine that was too busy to measure on may be idle an hour later.
bool is_old(const std::string& path) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  return error || std::filesystem::file_time_type::clock::now() - written > std::chrono::hours(1);
}

/// The costs in the file, or that there are none; fails if it says nothing of that origin.
Result<std::optional<CopyCosts>> read_kept(const CopyCostsFile& file) {
  const auto text = read_private_file("costs of copies", file.path, kMostCopiesBytes);
  if (!text) return tl::unexpected(text.error());
  return parse_kept(*text, file.origin);
}

/// Whether the file leaves nothing to measure.
bool has_answer(const CopyCostsFile& file) {
  const auto kept = read_kept(file);
  return kept && (*kept || !is_old(file.path));
}

}  // namespace

std::optional<CopyCostsFile> copy_costs_file(unsigned cores) {
  if (read_variable("CCOLL_TUNE_FILE")) return std::nullopt;
  auto path = cache_path("copies");
  const auto boot = boot_identity();
  if (path.empty() || !boot || boot->empty()) return std::nullopt;
  return CopyCostsFile{std::move(path), fmt::format("boot {} cores {}", *boot, cores)};
}

std::string kept_text(std::string_view origin, const std::optional<CopyCosts>& costs) {
  return fmt::format("{}\n{}\n{}", kCopiesHeadline, origin, costs ? to_text(*costs) : kNone);
}

Result<std::optional<CopyCosts>> parse_kept(std::string_view text, std::string_view origin) {
  const auto head = fmt::format("{}\n{}\n", kCopiesHeadline, origin);
  if (!text.starts_with(head))
    return fail(ErrorKind::mismatch, "it is not of this boot, these cores and this version");
  text.remove_prefix(head.size());
  if (text == kNone) return std::nullopt;
  const auto costs = parse_copy_costs(text);
  if (!costs) return tl::unexpected(costs.error());
  return *costs;
}

std::optional<CopyCosts> kept_copy_costs(const CopyCostsFile& file) {
  return read_kept(file).value_or(std::nullopt);
}

void learn_copy_costs(const CopyCostsFile& file) {
  if (known_copy_costs()) return;
  if (const auto costs = kept_copy_costs(file)) know_copy_costs(costs);
}

void measure_and_keep_copy_costs(const CopyCostsFile& file) {
  if (has_answer(file)) return;
  const auto lock = lock_directory_of(file.path);
  // Another process may have measured since this one looked. What cannot be kept would be measured
  // for every job.
  const auto directory = std::filesystem::path(file.path).parent_path();
  if (!lock.open() || ::access(directory.c_str(), W_OK) != 0 || has_answer(file)) return;
  const auto costs = measure_copy_costs();
  if (const auto kept = write_file(file.path, kept_text(file.origin, costs)); !kept)
    log().debug("{}", kept.error().message);
  // A child that another thread has forked meanwhile has the descriptor, too.
  ::flock(lock.number(), LOCK_UN);
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/copy_calibration.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/directory.hpp"

namespace ccoll {
namespace {

constexpr CopyCosts kSome{{{{{2, 4, 10, 40}, {3, 6, 20, 80}}, {{4, 8, 20, 80}, {3, 6, 22, 90}}}}};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("copy calibration: the text holds for its own boot and cores only", "[comm]") {
  const auto text = kept_text("boot a cores 2", kSome);
  const auto same = parse_kept(text, "boot a cores 2");
  REQUIRE(same);
  CHECK(*same == kSome);
  for (const auto* other : {"boot b cores 2", "boot a cores 4", "boot a cores 20"})
    CHECK_FALSE(parse_kept(text, other));
  const auto none = parse_kept(kept_text("boot a cores 2", std::nullopt), "boot a cores 2");
  REQUIRE(none);
  CHECK_FALSE(none->has_value());
  CHECK_FALSE(parse_kept("", "boot a cores 2"));
  CHECK_FALSE(parse_kept("ccoll copies 1\nboot a cores 2\nnonsense\n", "boot a cores 2"));
}

TEST_CASE("copy calibration: what is kept is learned, private, and from this boot", "[comm]") {
  const testing::Directory directory;
  const auto path = directory.file("host.copies");
  const CopyCostsFile file{path, "boot of today"};
  CHECK_FALSE(kept_copy_costs(file));
  std::ofstream(path) << kept_text(file.origin, kSome);
  // A file that others could have written counts for nothing.
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  CHECK_FALSE(kept_copy_costs(file));
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  CHECK(kept_copy_costs(file) == kSome);
  learn_copy_costs(file);
  REQUIRE(known_copy_costs());
  CHECK(*known_copy_costs() == kSome);
  know_copy_costs(std::nullopt);
  std::ofstream(path) << kept_text("boot of yesterday", kSome);
  learn_copy_costs(file);
  CHECK_FALSE(known_copy_costs());
}

TEST_CASE("copy calibration: a stale file is replaced, by one process at a time", "[comm]") {
  const testing::Directory directory;
  const auto path = directory.file("cache/ccoll/host.copies");
  const CopyCostsFile file{path, "boot of today"};
  // On a busy machine it may come to nothing, which is kept, too.
  measure_and_keep_copy_costs(file);
  CHECK(parse_kept(text_of(path), file.origin));
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 077) == 0);

  const auto stale = kept_text("boot of yesterday", kSome);
  std::ofstream(path) << stale;
  const int lock = ::open(directory.file("cache/ccoll").c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(::flock(lock, LOCK_EX) == 0);
  measure_and_keep_copy_costs(file);
  CHECK(text_of(path) == stale);
  ::close(lock);
  measure_and_keep_copy_costs(file);
  CHECK(parse_kept(text_of(path), file.origin));
  const std::filesystem::directory_iterator left(directory.file("cache/ccoll"));
  CHECK(std::distance(begin(left), end(left)) == 1);
}

TEST_CASE("copy calibration: a machine that was too busy is measured again an hour later",
          "[comm]") {
  const testing::Directory directory;
  const auto path = directory.file("host.copies");
  const CopyCostsFile file{path, "boot of today"};
  std::ofstream(path) << kept_text(file.origin, std::nullopt);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  const auto age = [&](std::chrono::minutes age) {
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - age);
    const auto before = std::filesystem::last_write_time(path);
    measure_and_keep_copy_costs(file);
    return std::filesystem::last_write_time(path) != before;
  };
  CHECK_FALSE(age(std::chrono::minutes(50)));
  CHECK(age(std::chrono::minutes(70)));
}

TEST_CASE("copy calibration: costs are kept for a boot and a number of cores, if at all",
          "[comm]") {
  ::setenv("CCOLL_TUNE_FILE", "/dev/null", 1);  // as for all tests (tests/meson.build)
  CHECK_FALSE(copy_costs_file(2));
  ::unsetenv("CCOLL_TUNE_FILE");
  ::setenv("XDG_CACHE_HOME", "/cache", 0);  // there may be no HOME
  const auto two = copy_costs_file(2), again = copy_costs_file(2), four = copy_costs_file(4);
  ::setenv("CCOLL_TUNE_FILE", "/dev/null", 1);
  REQUIRE((two && again && four));
  CHECK(two->path == four->path);
  CHECK(two->origin == again->origin);
  CHECK(two->origin != four->origin);
}

}  // namespace ccoll

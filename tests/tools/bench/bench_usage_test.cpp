// SPDX-License-Identifier: Apache-2.0

/// A new user of cc-bench sees this first: the measured sizes, their memory, the duration, and the
/// help.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/command/options.hpp"
#include "bench/command/sizes.hpp"
#include "bench/measure/memory.hpp"
#include "bench/measure/operations.hpp"
#include "bench/report/report.hpp"

namespace ccoll::bench::test {
namespace {

using Sizes = std::vector<std::uint64_t>;

Result<Options> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "cc-bench");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TEST_CASE("the largest size is always measured, and the usual ones are powers of 4",
          "[bench][unit]") {
  CHECK(size_list({8, 100, 4, 0}, 4) == Sizes{8, 32, 100});
  CHECK(size_list({8, 5000, 4, 0, true}, 4) == Sizes{8, 16, 64, 256, 1024, 4096, 5000});
  CHECK(size_list({0, 64, 4, 0, true}, 4) == Sizes{0, 4, 16, 64});
  const auto usual = parse({"all_reduce", "-e", "1M"});
  REQUIRE(usual);
  const Sizes sizes = size_list(usual->sizes, 4);
  CHECK(sizes.front() == 8);
  CHECK(sizes.back() == 1 << 20);
  for (const std::uint64_t size : {1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10}) {
    CAPTURE(size);
    CHECK(std::ranges::find(sizes, size) != sizes.end());
  }
  // A factor applies to every size.
  const auto asked = parse({"all_reduce", "-e", "100", "-f", "2"});
  REQUIRE(asked);
  CHECK(size_list(asked->sizes, 4) == Sizes{8, 16, 32, 64, 100});
}

TEST_CASE("an empty path is refused and named", "[bench][unit]") {
  for (const char* option : {"--csv", "--json", "--html", "--baseline"}) {
    const auto refused = parse({"all_reduce", option, ""});
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message,
               Catch::Contains(option) && Catch::Contains("the path is empty"));
  }
}

TEST_CASE("memory that a host has left is read, with that of its control groups", "[bench][unit]") {
  const auto root = std::filesystem::temp_directory_path() /
                    fmt::format("ccoll_memory_{}", static_cast<int>(::getpid()));
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  CHECK_FALSE(available_memory(root));
  write("proc/meminfo", "MemTotal:  900 kB\nMemAvailable:     500 kB\n");
  CHECK(available_memory(root) == 500u * 1024);
  write("proc/self/cgroup", "0::/outer/inner\n");
  CHECK(available_memory(root) == 500u * 1024);
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("sys/fs/cgroup/outer/inner/memory.current", "1000\n");
  CHECK(available_memory(root) == 500u * 1024);
  // The enclosing group has less left; its file pages can be reclaimed.
  write("sys/fs/cgroup/outer/memory.max", "300000\n");
  write("sys/fs/cgroup/outer/memory.current", "200000\n");
  CHECK(available_memory(root) == 100'000u);
  write("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 50000\n");
  CHECK(available_memory(root) == 150'000u);
  // Version 1, with a name from the host's view instead of the container's.
  write("proc/self/cgroup", "5:cpu:/a\n4:memory:/not/here\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "90000\n");
  CHECK(available_memory(root) == 0u);
  write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 30000\n");
  CHECK(available_memory(root) == 10'000u);
  std::filesystem::remove_all(root);
  CHECK(available_memory().value_or(1) > 0);
}

TEST_CASE("-e is lowered to what the host has memory for", "[bench][unit]") {
  const Buffers all_reduce{*find_operation("all_reduce"), DataType::float32, 4, 4, false};
  CHECK(bytes_on_host(all_reduce, 1 << 20) == 4 * 2 * (1 << 20));
  const Buffers in_place{*find_operation("all_reduce"), DataType::float32, 4, 4, true};
  CHECK(bytes_on_host(in_place, 1 << 20) == 4 * (1 << 20));
  // A gather's root has all blocks, too.
  const Buffers gather{*find_operation("gather"), DataType::float32, 4, 4, false};
  CHECK(bytes_on_host(gather, 4 << 20) == (4 * 1 + 4) << 20);
  const Buffers on_two_hosts{*find_operation("all_reduce"), DataType::float32, 4, 2, false};
  CHECK(bytes_on_host(on_two_hosts, 1 << 20) == 2 * 2 * (1 << 20));
  const SizeRange range{8, 32 << 20, 4, 0, true};
  CHECK(within_memory(range, all_reduce, 256 << 20).end == 32 << 20);
  CHECK(within_memory(range, all_reduce, (256 << 20) - 1).end == 16 << 20);
  CHECK(within_memory(range, all_reduce, 100 << 20).end == 8 << 20);
  CHECK(within_memory(range, all_reduce, 10).end < range.begin);
  // 99,999 GiB, and the largest number that there is.
  CHECK(within_memory({8, std::uint64_t{99'999} << 30, 4, 0}, all_reduce, 256 << 20).end ==
        32 << 20);
  CHECK(within_memory({8, ~std::uint64_t{0}, 4, 0}, all_reduce, 256 << 20).end == 32 << 20);
}

TEST_CASE("a long sweep says how far it is, and how long it will take", "[bench][unit]") {
  CHECK(progress_text("all_reduce 1M …", 0, 60, 30) == "all_reduce 1M …");
  CHECK(progress_text("all_reduce 1M …", 5, 60, 9.9) == "all_reduce 1M …");
  CHECK(progress_text("all_reduce 1M …", 20, 60, 11) ==
        "all_reduce 1M … row 21 of 60, about 22 s more");
  CHECK(progress_text("all_reduce 1M …", 1, 100, 60) ==
        "all_reduce 1M … row 2 of 100, about 99 min more");
}

TEST_CASE("a subcommand's help has its own options and nothing else, in 80 columns",
          "[bench][unit]") {
  const auto help = [](std::vector<const char*> words) {
    const auto options = parse(std::move(words));
    REQUIRE(options);
    std::istringstream lines(options->text);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 80 + 8);  // bytes; some characters have more than one
    }
    return options->text;
  };
  using Catch::Contains;
  CHECK_THAT(help({"matrix", "--help"}), Contains("bytes of a message [1M]") &&
                                             Contains("--transport") && !Contains("--csv") &&
                                             !Contains("The columns of"));
  CHECK_THAT(help({"tune", "--help"}), Contains("the longest calls [2M]") && !Contains("--json"));
  CHECK_THAT(help({"info", "--help"}), Contains("cc-bench info") && !Contains("--ranks"));
  CHECK_THAT(help({"explain", "--help"}),
             Contains("BYTES") && Contains("With --measure:") && Contains("--iters"));
  CHECK_THAT(help({"--help"}), Contains("--csv") && Contains("--max-memory"));
  CHECK_THAT(help({}), Contains("Type this first"));
}

}  // namespace
}  // namespace ccoll::bench::test

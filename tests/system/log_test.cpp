// SPDX-License-Identifier: Apache-2.0
#include "system/log.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "support/logged.hpp"

namespace ccoll {

TEST_CASE("log: levels are read in any case, others refused with a suggestion", "[core][unit]") {
  CHECK(parse_log_level("warn") == LogLevel::warn);
  CHECK(parse_log_level("INFO") == LogLevel::info);
  CHECK(parse_log_level("Debug") == LogLevel::debug);
  CHECK(parse_log_level("trace") == LogLevel::trace);
  CHECK(parse_log_level("inof").error().message ==
        "no level 'inof': did you mean info? There are warn, info, debug, trace");
  CHECK_FALSE(parse_log_level(""));
  CHECK_FALSE(parse_log_level("1"));
}

TEST_CASE("log: a file's name has the host and the process where it is to", "[core][unit]") {
  CHECK(log_file_name("/var/log/%h.%p.log", "node7", 4711) == "/var/log/node7.4711.log");
  CHECK(log_file_name("plain", "node7", 4711) == "plain");
  CHECK(log_file_name("%%p %x %", "node7", 4711) == "%p %x %");
  CHECK(log_file_name("", "node7", 4711).empty());
}

TEST_CASE("log: a test that fails while the log is looked at is heard all the same",
          "[core][unit]") {
  struct stat before {
  }, after{};
  REQUIRE(fstat(STDERR_FILENO, &before) == 0);
  CHECK_THROWS(testing::logged([] { throw std::runtime_error("a failure"); }));
  REQUIRE(fstat(STDERR_FILENO, &after) == 0);
  CHECK(before.st_dev == after.st_dev);
  CHECK(before.st_ino == after.st_ino);
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "core/os_error.hpp"

#include <sys/resource.h>

#include <asio/error.hpp>
#include <catch2/catch.hpp>
#include <cerrno>

#include "core/result.hpp"

namespace ccoll {

TEST_CASE("errors of the system: where descriptors lack, the limit is told, too", "[core][unit]") {
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  const auto lack = "Too many open files: this process may open " + std::to_string(files.rlim_cur) +
                    " files (ulimit -n)";
  CHECK(os_error(EMFILE) == lack);
  CHECK(os_error(asio::error::make_error_code(asio::error::no_descriptors)) == lack);
  CHECK(os_error(ENOENT) == "No such file or directory");
  const auto thrown = [](const std::error_code& error) {
    return failure_of(std::make_exception_ptr(std::system_error(error, "no socket")));
  };
  const auto asios = thrown(asio::error::no_descriptors);
  CHECK(asios.kind == ErrorKind::exhausted);
  CHECK(asios.message == "no socket: " + lack);
  CHECK(thrown(std::make_error_code(std::errc::too_many_files_open)).kind == ErrorKind::exhausted);
  const auto broken = thrown(std::make_error_code(std::errc::broken_pipe));
  CHECK(broken.kind == ErrorKind::internal);
  CHECK(broken.message == "no socket: Broken pipe");
}

}  // namespace ccoll

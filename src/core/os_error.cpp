// SPDX-License-Identifier: Apache-2.0
#include "core/os_error.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <string_view>

namespace ccoll {
namespace {

/// Asio's category has the system's numbers, but does not compare equal to std::errc. It is
/// recognized by name, since this folder does not link Asio.
std::error_code comparable(const std::error_code& error) {
  if (std::string_view(error.category().name()) != "asio.system") return error;
  return {error.value(), std::system_category()};
}

}  // namespace

bool ran_out(const std::error_code& error) {
  const auto code = comparable(error);
  return code == std::errc::too_many_files_open ||
         code == std::errc::too_many_files_open_in_system || code == std::errc::not_enough_memory ||
         code == std::errc::no_buffer_space || code == std::errc::resource_unavailable_try_again;
}

std::string os_error(const std::error_code& error) {
  rlimit files{};
  const bool lacks_files = comparable(error) == std::errc::too_many_files_open;
  if (!lacks_files || ::getrlimit(RLIMIT_NOFILE, &files) != 0) return error.message();
  return fmt::format("{}: this process may open {} files (ulimit -n)", error.message(),
                     files.rlim_cur);
}

std::string os_error(int code) { return os_error(std::error_code(code, std::system_category())); }

}  // namespace ccoll

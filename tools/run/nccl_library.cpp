// SPDX-License-Identifier: Apache-2.0
#include "run/nccl_library.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/os_error.hpp"
#include "system/variables.hpp"

namespace ccoll {

namespace {

constexpr const char* kPreload = "LD_PRELOAD";
constexpr const char* kSoname = "libnccl.so.2";

}  // namespace

Result<std::string> nccl_library() {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return fail(ErrorKind::internal, "this command's path: {}", error.message());
  // The build's install and build locations, both relative to this command's folder.
  const auto installed = (folder / CCOLL_NCCL_INSTALLED / kSoname).lexically_normal();
  const auto built = (folder / CCOLL_NCCL_BUILT / kSoname).lexically_normal();
  for (const auto& path : {installed, built}) {
    if (!std::filesystem::exists(path, error)) continue;
    // These separate the names in LD_PRELOAD and cannot be escaped.
    if (path.native().find_first_of(": ") != std::string::npos) {
      return fail(ErrorKind::unsupported,
                  "{} cannot be preloaded: a path in LD_PRELOAD has no colons and no spaces",
                  path.native());
    }
    return path.native();
  }
  return fail(ErrorKind::unsupported, "there is no {} at {} or {}: ccoll was built without it",
              kSoname, installed.native(), built.native());
}

Result<std::string> nccl_preload() {
  const auto library = nccl_library();
  if (!library) return tl::unexpected(library.error());
  const auto others = read_variable(kPreload).value_or("");
  return others.empty() ? *library : *library + ":" + others;
}

Status become_nccl_program(const std::vector<std::string>& command) {
  const auto preload = nccl_preload();
  if (!preload) return tl::unexpected(preload.error());
  ::setenv(kPreload, preload->c_str(), 1);
  std::vector<char*> arguments;
  for (const auto& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return fail(ErrorKind::invalid_argument, "cannot start '{}': {}", command[0], os_error(errno));
}

}  // namespace ccoll

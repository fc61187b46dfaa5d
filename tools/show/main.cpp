// SPDX-License-Identifier: Apache-2.0
/// cc-show: how collective operations work, for people to see.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/write_all.hpp"
#include "show/command.hpp"

namespace {

ccoll::Result<void> print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return ccoll::fail(ccoll::ErrorKind::exhausted, "cannot write standard output: {}",
                       std::strerror(errno));
  return {};
}

/// Returns the status to exit with.
ccoll::Result<int> run(int argc, char** argv) {
  const auto output = ccoll::show::run(argc, argv);
  CCOLL_TRY(output);
  CCOLL_TRY(print(output->text));
  while (output->more) {
    const auto text = output->more();
    CCOLL_TRY(text);
    if (text->empty()) break;
    CCOLL_TRY(print(*text));
  }
  return output->status;
}

}  // namespace

int main(int argc, char** argv) {
  ccoll::open_missing_streams();
  const auto status = run(argc, argv);
  if (status) return *status;
  fmt::print(stderr, "cc-show: {}\n", status.error().message);
  return ccoll::show::kWrongUsage;
}

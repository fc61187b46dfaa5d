// SPDX-License-Identifier: Apache-2.0
/// cc-show: shows people how collective operations work.
#include <fmt/format.h>

#include <cstdio>

#include "show/commands/command.hpp"
#include "system/write_all.hpp"

namespace {

/// Returns the exit status.
ccoll::Result<int> run(int argc, char** argv) {
  const auto output = ccoll::show::run(argc, argv);
  CCOLL_TRY(output);
  CCOLL_TRY(ccoll::print_whole(output->text));
  while (output->more) {
    const auto text = output->more();
    CCOLL_TRY(text);
    if (text->empty()) break;
    CCOLL_TRY(ccoll::print_whole(*text));
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

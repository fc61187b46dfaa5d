// SPDX-License-Identifier: Apache-2.0
/// cc-show: how collective operations work, for people to see.
#include <fmt/format.h>

#include <cstdio>

#include "show/command.hpp"

int main(int argc, char** argv) {
  const auto output = ccoll::show::run(argc, argv);
  if (!output) {
    fmt::print(stderr, "cc-show: {}\n", output.error().message);
    return ccoll::show::kWrongUsage;
  }
  std::fwrite(output->text.data(), 1, output->text.size(), stdout);
  return output->status;
}

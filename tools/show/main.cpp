// SPDX-License-Identifier: Apache-2.0
/// cc-show: how collective operations work, for people to see.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "show/command.hpp"

int main(int argc, char** argv) {
  const auto output = ccoll::show::run(argc, argv);
  if (!output) {
    fmt::print(stderr, "cc-show: {}\n", output.error().message);
    return ccoll::show::kWrongUsage;
  }
  if (std::fwrite(output->text.data(), 1, output->text.size(), stdout) != output->text.size() ||
      std::fflush(stdout) != 0) {
    fmt::print(stderr, "cc-show: cannot write standard output: {}\n", std::strerror(errno));
    return ccoll::show::kWrongUsage;
  }
  return output->status;
}

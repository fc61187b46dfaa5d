// SPDX-License-Identifier: Apache-2.0
/// cc-bench: measures and checks collective operations.
#include <fmt/format.h>

#include <cstdio>

#include "core/write_all.hpp"
#include "info.hpp"
#include "options.hpp"
#include "run.hpp"

namespace {

constexpr int kWrongUsage = 2;

/// Every rank that a launcher started has the same command line: one of them says it for all.
int refuse(const std::string& message) {
  if (ccoll::bench::speaks_for_all()) fmt::print(stderr, "cc-bench: {}\n", message);
  return kWrongUsage;
}

}  // namespace

int main(int argc, char** argv) {
  ccoll::open_missing_streams();
  using ccoll::bench::Options;
  const auto options = ccoll::bench::parse_command_line(argc, argv);
  if (!options) return refuse(options.error().message);
  switch (options->command) {
    case Options::Command::print:
      fmt::print("{}", options->text);
      return 0;
    case Options::Command::info:
      fmt::print("{}", ccoll::bench::info_text());
      return 0;
    case Options::Command::explain: {
      if (options->explain_measured) break;
      const auto text = ccoll::bench::explain_text(*options);
      if (!text) return refuse(text.error().message);
      fmt::print("{}", *text);
      return 0;
    }
    case Options::Command::measure:
    case Options::Command::matrix:
    case Options::Command::tune:
      break;
  }
  return ccoll::bench::run(*options, argc, argv);
}

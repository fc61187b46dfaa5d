// SPDX-License-Identifier: Apache-2.0
/// cc-bench: measures and checks collective operations.
#include <fmt/format.h>

#include <cstdio>

#include "bench/command/columns.hpp"
#include "bench/command/info.hpp"
#include "bench/command/options.hpp"
#include "bench/command/run.hpp"
#include "bench/command/width.hpp"
#include "system/variables.hpp"
#include "system/write_all.hpp"

namespace {

constexpr int kWrongUsage = 2;

/// Every rank that a launcher started has the same command line, so only one reports it.
int refuse(const std::string& message) {
  if (ccoll::bench::speaks_for_all()) fmt::print(stderr, "cc-bench: {}\n", message);
  return kWrongUsage;
}

int print(std::string_view text) {
  const auto printed = ccoll::print_whole(text);
  if (printed) return 0;
  fmt::print(stderr, "cc-bench: {}\n", printed.error().message);
  return 1;
}

}  // namespace

int main(int argc, char** argv) try {
  ccoll::open_missing_streams();
  using ccoll::bench::columns_of_sentences, ccoll::bench::Options, ccoll::bench::wrapped_lines;
  const auto options = ccoll::bench::parse_command_line(argc, argv);
  if (!options) return refuse(options.error().message);
  if (options->command == Options::Command::print) return print(options->text);
  if (const auto valid = ccoll::check_variables(); !valid) return refuse(valid.error().message);
  switch (options->command) {
    case Options::Command::info:
      return print(wrapped_lines(ccoll::bench::info_text(), columns_of_sentences(options->width)));
    case Options::Command::explain: {
      if (options->explain_measured) break;
      const auto text = ccoll::bench::explain_text(*options);
      if (!text) return refuse(text.error().message);
      return print(wrapped_lines(*text, columns_of_sentences(options->width)));
    }
    case Options::Command::print:
    case Options::Command::measure:
    case Options::Command::matrix:
    case Options::Command::tune:
      break;
  }
  return ccoll::bench::run(*options, argc, argv);
} catch (const ccoll::Error& error) {
  // Another error of the environment, such as an unreadable token file.
  return refuse(error.what());
}

// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "support/effort.hpp"

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
  // The long matrices are hidden tests, which `tools/test --full` also runs.
  auto& config = session.configData();
  if (ccoll::testing::full() && config.testsOrTags.empty()) config.testsOrTags = {"~[.],[.slow]"};
  return session.run();
}

// SPDX-License-Identifier: Apache-2.0
// A job that uses nccl.h on the host gets useful errors.
//   nccl_faults [NAME...]    the tests whose names contain one of these
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "job.hpp"

int main(int count, char** values) {
  ::setenv("CCOLL_NCCL_HOST", "1", 0);
  ::setenv("CCOLL_HEARTBEAT", "1", 0);  // so that a stopped rank is found soon
  std::vector<faults::Scenario> all;
  for (const auto& some : {faults::scenarios_of_ends(), faults::scenarios_of_mismatches(),
                           faults::scenarios_of_aborts(), faults::scenarios_of_starts(),
                           faults::scenarios_of_many(), faults::scenarios_of_waits()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  int failed = 0;
  int done = 0;
  for (const auto& scenario : all) {
    bool wanted = count == 1;
    for (int i = 1; i < count; ++i) {
      wanted = wanted || std::strstr(scenario.name, values[i]) != nullptr;
    }
    if (!wanted) continue;
    ++done;
    try {
      scenario.run();
      std::printf("ok: %s\n", scenario.name);
    } catch (const std::exception& error) {
      ++failed;
      std::printf("FAILED: %s: %s\n", scenario.name, error.what());
    }
    std::fflush(stdout);
  }
  std::printf("%d of %d scenarios are as they should be\n", done - failed, done);
  return failed == 0 && done > 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
/// The smallest program: joins its job and makes one collective call. bench/start runs it.
///
///     cc-run -n 2 start-cost
///
/// Rank 0 prints when the call was over: seconds of the clock that counts from the machine's start.
#include <cstdio>
#include <ctime>

#include "bench/costs/no_arguments.hpp"
#include "ccoll/ccoll.hpp"

int main(int count, char** values) try {
  if (const auto status = ccoll::bench::not_to_run(count, values, "cc-run -n 2 start-cost"))
    return *status;
  auto world = ccoll::Communicator::create();
  double sum = 1;
  world.all_reduce(ccoll::Block(&sum, 1, ccoll::DataType::float64));
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (world.rank() == 0) std::printf("%.6f\n", double(now.tv_sec) + double(now.tv_nsec) * 1e-9);
  return sum == world.size() ? 0 : 1;
} catch (const ccoll::Error& error) {
  std::fprintf(stderr, "start-cost: %s\n", error.what());
  return 1;
}

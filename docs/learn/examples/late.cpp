// SPDX-License-Identifier: Apache-2.0
// Three all_reduces; before each of them rank 2 has 20 ms of work more than the others.
#include <ccoll/ccoll.hpp>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

int main() try {
  auto world = ccoll::Communicator::create();
  std::vector<float> gradients(1000, 1.0F);
  for (int step = 0; step < 3; step++) {
    if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    world.all_reduce(gradients, ccoll::ReduceOp::avg);
  }
  if (world.rank() == 0) std::printf("the average is %g\n", gradients[0]);
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Every rank brings some numbers, every rank gets their sums: cc-run -n 4 ./all_reduce
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <vector>

int main() try {
  auto world = ccoll::Communicator::create();  // who and where: from the launcher's environment

  std::vector<float> gradients(1'000'000, static_cast<float>(world.rank() + 1));
  world.all_reduce(gradients);  // in place

  // Another one while this rank does something else.
  ccoll::Work work = world.all_reduce_async(gradients, ccoll::ReduceOp::avg);
  const double own_work = 0.5 * world.rank();
  work.wait();

  const std::vector<double> mine = {own_work};
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  world.all_gather(mine, all);

  if (world.rank() == 0)
    std::printf("%d ranks: the sum is %g, the last rank says %g\n", world.size(), gradients[0],
                all.back());
} catch (const ccoll::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Every rank says who it is, and learns what the others brought.
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <vector>

int main() try {
  auto world = ccoll::Communicator::create();  // the ranks meet here

  const std::vector<int> mine = {10 * world.rank()};
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  world.all_gather(mine, all);

  std::printf("I am rank %d of %d; the last rank brought %d\n", world.rank(), world.size(),
              all.back());
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// The last rank dies between two calls of all_reduce.
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main() try {
  auto world = ccoll::Communicator::create();
  const int last = world.size() - 1;
  std::vector<int> data(1000, 1), done(1);
  world.all_reduce(data);

  if (world.rank() == last) {
    for (int other = 0; other < last; other++) world.recv(done, other);
    std::_Exit(1);  // as if it had crashed
  }
  world.send(done, last);
  world.all_reduce(data);
  std::printf("the sum is %d\n", data[0]);
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

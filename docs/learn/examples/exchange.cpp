// SPDX-License-Identifier: Apache-2.0
// Three ways in which two ranks send each other a million numbers without a deadlock.
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <vector>

int main() try {
  auto world = ccoll::Communicator::create();
  const int me = world.rank(), other = 1 - me;
  const std::vector<int> out(1'000'000, me);
  std::vector<int> in(out.size());

  // 1. One of the two receives first.
  if (me == 0) {
    world.send(out, other);
    world.recv(in, other);
  } else {
    world.recv(in, other);
    world.send(out, other);
  }

  // 2. The send only begins; both directions are under way at once.
  ccoll::Work sent = world.send_async(out, other);
  world.recv(in, other);
  sent.wait();

  // 3. One call for both.
  world.send_recv(out, other, in, other);

  std::printf("got the numbers of rank %d three times\n", in[0]);
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

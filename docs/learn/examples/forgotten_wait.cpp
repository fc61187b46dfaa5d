// SPDX-License-Identifier: Apache-2.0
// An asynchronous call owns its buffer until wait(): two mistakes, made on purpose.
#include <algorithm>
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <vector>

namespace {

using Numbers = std::vector<int>;

/// Rank 1 looks at what it receives before it has come.
void looks_too_early(ccoll::Communicator& world) {
  Numbers data(1'000'000, world.rank() == 0 ? 1 : 0), go(1);
  if (world.rank() == 0) {
    world.recv(go, 1);
    world.send(data, 1);
    return;
  }
  ccoll::Work received = world.recv_async(data, 0);
  const int early = data.back();  // mistake: nothing has come yet
  world.send(go, 0);
  received.wait();
  std::printf("before wait: %d, after wait: %d\n", early, data.back());
}

/// Rank 0 changes what it sends before it has left.
void writes_too_early(ccoll::Communicator& world) {
  Numbers data(1'000'000, 1), go(1);
  if (world.rank() == 0) {
    ccoll::Work sent = world.send_async(data, 1);
    std::ranges::fill(data, 2);  // mistake: the ones may not have left yet
    world.send(go, 1, /*tag=*/1);
    sent.wait();
    return;
  }
  world.recv(go, 0, /*tag=*/1);
  world.recv(data, 0);
  std::printf("to be sent was 1, received is %d\n", data.back());
}

}  // namespace

int main() try {
  auto world = ccoll::Communicator::create();
  looks_too_early(world);
  writes_too_early(world);
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Two ranks send each other COUNT numbers; each sends first and receives afterwards.
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) try {
  auto options = ccoll::CommunicatorOptions::from_environment();
  options.timeout = std::chrono::seconds(1);
  auto world = ccoll::Communicator::create(options);

  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  if (count == 0 || count > 100'000'000 || world.size() != 2) {
    std::fprintf(stderr, "usage: cc-run -n 2 both_send [COUNT], from 1 to 100000000 numbers\n");
    return 2;
  }
  const std::vector<int> out(count, world.rank());
  std::vector<int> in(count);
  const int other = 1 - world.rank();
  world.send(out, other);
  world.recv(in, other);

  std::printf("got %zu numbers from rank %d\n", in.size(), in[0]);
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

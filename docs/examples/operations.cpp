// SPDX-License-Identifier: Apache-2.0
// Every operation once, with small numbers to follow by eye, on any number of ranks:
// cc-run -n 3 ./operations. Rank r of n begins with r + 1; the comments are for n = 3.
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using Numbers = std::vector<int>;

std::string text(const Numbers& numbers) {
  std::string all;
  for (const int number : numbers) all.append(" ").append(std::to_string(number));
  return all;
}

void show(int rank, const char* operation, const Numbers& result) {
  std::printf("rank %d  %-16s%s\n", rank, operation, text(result).c_str());
}

/// Blocks of one size.
void even(ccoll::Communicator& world) {
  const int me = world.rank();
  const auto n = static_cast<std::size_t>(world.size());
  const Numbers mine = {me + 1};
  Numbers one(1), all(n), ramp(n);
  for (std::size_t to = 0; to < n; to++) ramp[to] = 10 * (me + 1) + static_cast<int>(to);

  world.all_reduce(mine, one);  // 6 everywhere: 1 + 2 + 3
  show(me, "all_reduce", one);
  world.reduce(mine, one, ccoll::ReduceOp::max, 0);  // 3 at rank 0
  if (me == 0) show(me, "reduce max", one);
  one = mine;
  world.broadcast(one, 0);  // 1 everywhere
  show(me, "broadcast", one);
  world.all_gather(mine, all);  // 1 2 3 everywhere
  show(me, "all_gather", all);
  world.gather(mine, all, 0);  // 1 2 3 at rank 0
  if (me == 0) show(me, "gather", all);
  world.scatter(ramp, one, 0);  // 10, 11, 12
  show(me, "scatter", one);
  world.reduce_scatter(ramp, one);  // 60, 63, 66
  show(me, "reduce_scatter", one);
  world.all_to_all(ramp, all);  // rank 1: 11 21 31
  show(me, "all_to_all", all);
  world.barrier();
}

/// Blocks of different sizes: rank r has r + 1 elements, or r + 1 for everyone.
void uneven(ccoll::Communicator& world) {
  const auto me = static_cast<std::size_t>(world.rank());
  const auto n = static_cast<std::size_t>(world.size());
  const Numbers mine(me + 1, world.rank() + 1);
  std::vector<std::size_t> counts(n), to_each(n, me + 1);
  for (std::size_t r = 0; r < n; r++) counts[r] = r + 1;

  Numbers all(n * (n + 1) / 2);
  const auto outputs = ccoll::blocks(all, counts);
  world.all_gather_v(mine, outputs);  // 1 2 2 3 3 3 everywhere
  show(world.rank(), "all_gather_v", all);
  // Rank r sends r + 1 elements to each: every rank gets 1 2 2 3 3 3.
  const Numbers to_send(n * (me + 1), world.rank() + 1);
  world.all_to_all_v(ccoll::const_blocks(to_send, to_each), outputs);
  show(world.rank(), "all_to_all_v", all);
  // Several buffers in one call, each in place: 6, and 6 6.
  Numbers first = {world.rank() + 1}, second(2, world.rank() + 1);
  world.all_reduce(std::vector<ccoll::BufferPair>{first, second});
  show(world.rank(), "two buffers", second);
  // Whatever can be written as bytes: rank r says r times "ab".
  std::string word;
  for (std::size_t r = 0; r < me; r++) word += "ab";
  for (const auto& said : world.all_gather_bytes(word))
    std::printf("rank %zu  bytes            '%s'\n", me, said.c_str());
}

/// Round the ring, and from whoever comes first.
void messages(ccoll::Communicator& world) {
  const int me = world.rank(), n = world.size();
  const Numbers mine = {me + 1};
  Numbers got(1);
  world.send_recv(mine, (me + 1) % n, got, (me + n - 1) % n);
  show(me, "send_recv", got);  // 3, 1, 2
  if (me > 0) world.send(mine, 0, /*tag=*/7);
  for (int i = 1; me == 0 && i < n; i++) {
    const auto came = world.recv(got, ccoll::kAnyRank, 7);
    std::printf("rank 0  recv             %d from rank %d\n", got[0], came.from);
  }
}

}  // namespace

int main() try {
  auto world = ccoll::Communicator::create();
  even(world);
  uneven(world);
  messages(world);
} catch (const ccoll::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

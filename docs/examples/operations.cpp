// SPDX-License-Identifier: Apache-2.0
// Every operation once, with small numbers to follow by eye, on any number of ranks:
// cc-run -n 3 ./operations. Rank r of n begins with r + 1; the comments are for n = 3.
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace {

using Numbers = std::vector<int>;

std::string text(const Numbers& numbers) {
  std::string all;
  for (const int number : numbers) all.append(" ").append(std::to_string(number));
  return all;
}

std::string quoted(const std::string& bytes) { return std::string(" '").append(bytes).append("'"); }

void show(int rank, const char* operation, const std::string& result) {
  std::printf("rank %d  %-17s%s\n", rank, operation, result.c_str());
}

void show(int rank, const char* operation, const Numbers& result) {
  show(rank, operation, text(result));
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

  // Each of them also comes as *_async: `mine` and `one` are the operation's until it is over.
  ccoll::Work work = world.all_reduce_async(mine, one);
  work.wait();
  show(me, "all_reduce_async", one);
}

/// The operations by which all_reduce, reduce and reduce_scatter combine, beside the ReduceOps.
void reductions(ccoll::Communicator& world) {
  const int me = world.rank();
  const Numbers mine = {me + 1}, sixes = {12 + 6 * me};
  Numbers one(1);

  // Every rank's own factor, here r + 1: 1·1 + 2·2 + 3·3 = 14.
  world.all_reduce(mine, one, ccoll::Reduction::premultiplied_sum(me + 1));
  show(me, "premultiplied_sum", one);
  // A function of the program's, of any part of the buffers: the divisor of 12, 18 and 24 is 6.
  const auto divisor = ccoll::Reduction::custom(
      [](const void* in, void* inout, std::size_t count, ccoll::DataType) {
        const auto* left = static_cast<const int*>(in);
        auto* right = static_cast<int*>(inout);
        for (std::size_t i = 0; i < count; i++) right[i] = std::gcd(left[i], right[i]);
      },
      {.name = "gcd", .commutative = true});
  world.all_reduce(sixes, one, divisor);
  show(me, "custom", one);
}

/// Blocks of different sizes: rank r's has r + 1 elements.
void uneven(ccoll::Communicator& world) {
  const int rank = world.rank();
  const auto me = static_cast<std::size_t>(rank);
  const auto n = static_cast<std::size_t>(world.size());
  const Numbers mine(me + 1, rank + 1);
  std::vector<std::size_t> counts(n);
  std::iota(counts.begin(), counts.end(), 1);
  Numbers block(me + 1), all(n * (n + 1) / 2);
  const auto outputs = ccoll::blocks(all, counts);  // of `all`, 1, 2 and 3 elements

  world.all_gather_v(mine, outputs);  // 1 2 2 3 3 3 everywhere
  show(rank, "all_gather_v", all);
  world.gather_v(mine, outputs, 0);  // 1 2 2 3 3 3 at rank 0
  if (me == 0) show(rank, "gather_v", all);
  const auto inputs = ccoll::const_blocks(all, counts);
  world.scatter_v(inputs, block, 0);  // rank 1: 2 2
  show(rank, "scatter_v", block);
  world.reduce_scatter_v(inputs, block);  // rank 1: 6 6, for all have the same
  show(rank, "reduce_scatter_v", block);

  // To the rank d places further round go d numbers, and none to itself.
  std::vector<std::size_t> to(n), from(n);
  Numbers out, in(n * (n - 1) / 2);
  for (std::size_t other = 0; other < n; other++) {
    to[other] = (other + n - me) % n;
    from[other] = (me + n - other) % n;
    out.insert(out.end(), to[other], 10 * (rank + 1) + static_cast<int>(other));
  }
  // Rank 1: one from rank 0, none of its own, two from rank 2: 11 31 31.
  world.all_to_all_v(ccoll::const_blocks(out, to), ccoll::blocks(in, from));
  show(rank, "all_to_all_v", in);

  // Several buffers in one call, each in place: 6, and 6 6.
  Numbers first = {rank + 1}, second(2, rank + 1);
  world.all_reduce(std::vector<ccoll::BufferPair>{first, second});
  show(rank, "two buffers", second);
}

/// Whatever can be written as bytes: rank r says r times "ab".
void bytes(ccoll::Communicator& world) {
  const int me = world.rank(), last = world.size() - 1;
  std::string word;
  for (int r = 0; r < me; r++) word += "ab";

  show(me, "broadcast_bytes", quoted(world.broadcast_bytes(word, last)));  // 'abab'
  for (const auto& said : world.gather_bytes(word, 0))  // '', 'ab', 'abab' at rank 0
    show(me, "gather_bytes", quoted(said));
  for (const auto& said : world.all_gather_bytes(word))  // the same everywhere
    show(me, "all_gather_bytes", quoted(said));
}

/// Round the ring, and from whoever comes first.
void messages(ccoll::Communicator& world) {
  const int me = world.rank(), n = world.size();
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  const Numbers mine = {me + 1};
  Numbers got(1), other(1);
  world.send_recv(mine, next, got, before);
  show(me, "send_recv", got);  // 3, 1, 2
  // Both neighbours at once, in whatever order each rank lists them. Rank 1: 1 3.
  using Request = ccoll::MessageRequest;
  world.batch(std::vector{Request::send(mine, next, 1), Request::send(mine, before, 2),
                          Request::recv(got, before, 1), Request::recv(other, next, 2)});
  show(me, "batch", Numbers{got[0], other[0]});

  if (me > 0) world.send(mine, 0, /*tag=*/7);
  for (int i = 1; me == 0 && i < n; i++) {
    const auto came = world.recv(got, ccoll::kAnyRank, 7);
    show(me, "recv", text(got) + " from rank " + std::to_string(came.from));
  }
  // The receiver does not know the length: rank r sends r numbers.
  const Numbers several(static_cast<std::size_t>(me), me + 1);
  if (me > 0) world.send(several, 0, /*tag=*/8);
  for (int i = 1; me == 0 && i < n; i++) {
    const auto waits = world.probe(ccoll::kAnyRank, 8);
    Numbers numbers(waits.count);
    world.recv(numbers, waits.from, waits.tag);
    show(me, "probe", numbers);  // 2, and 3 3
  }
  if (!world.try_probe()) show(me, "try_probe", " nothing is left");
}

/// Communicators of some of the ranks, and of others.
void communicators(ccoll::Communicator& world) {
  const int me = world.rank(), n = world.size();
  const Numbers mine = {me + 1};
  Numbers one(1);
  auto parity = world.split(/*color=*/me % 2, /*key=*/me);  // all call; ranks 0 and 2, rank 1
  parity->all_reduce(mine, one);                            // 4, 2, 4
  show(me, "split", one);
  std::vector<int> members;  // only they call: all but the last, backwards
  for (int rank = n - 2; rank >= 0; rank--) members.push_back(rank);
  if (me < n - 1) {
    auto backwards = world.subgroup(members);
    Numbers all(members.size());
    backwards.all_gather(mine, all);  // 2 1 at ranks 0 and 1
    show(me, "subgroup", all);
  }
  auto own = world.duplicate();  // a library's, whose calls do not mix with its user's
  own.barrier();

  // Ranks that an id brings together, handed round by whatever means there are: each calls
  // create(id, rank, size). Here they are two in every process, and this thread drives both.
  const auto id = ccoll::UniqueId::create();
  auto pair = ccoll::Communicator::create_all(id, std::vector<int>{0, 1}, 2);
  Numbers sums[2] = {{1}, {2}};
  ccoll::CallGroup group;  // until its end, calls only begin
  for (auto& rank : pair) rank.all_reduce(sums[rank.rank()]);
  group.end();
  show(me, "CallGroup", Numbers{sums[0][0], sums[1][0]});  // 3 3
}

}  // namespace

int main() try {
  auto world = ccoll::Communicator::create();
  even(world);
  reductions(world);
  uneven(world);
  bytes(world);
  messages(world);
  communicators(world);
} catch (const ccoll::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

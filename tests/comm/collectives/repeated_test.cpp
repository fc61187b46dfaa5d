// SPDX-License-Identifier: Apache-2.0
// Repeats one call with new data each time, while the choice of copier changes
// (engine/copier_choice.hpp).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/on_transports.hpp"
#include "engine/copier_choice.hpp"
#include "support/effort.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using testing::expect;

namespace {

/// Windows in which either way is tried four times, and one is kept in between; or tried twice.
const int kCalls = testing::by_effort(4 * CopierChoice::kWindow, 16 * CopierChoice::kWindow,
                                      16 * CopierChoice::kWindow);
/// Elements of a block: more than its sender always copies itself.
constexpr std::size_t kElems = CopierChoice::kLeastBytes / sizeof(std::uint32_t) + 7;

/// The value that rank `from` has for rank `to` in that call.
std::uint32_t mark(int call, int from, int to) {
  return static_cast<std::uint32_t>((call * 16 + from) * 16 + to);
}

/// The sum of all ranks' values in that call.
std::uint32_t sum_of_marks(int call, int size) {
  std::uint32_t sum = 0;
  for (int from = 0; from < size; from++) sum += mark(call, from, 0);
  return sum;
}

std::span<std::uint32_t> block(std::vector<std::uint32_t>& data, int rank, std::size_t elems) {
  return std::span(data).subspan(static_cast<std::size_t>(rank) * elems, elems);
}

bool holds(std::span<const std::uint32_t> data, std::uint32_t value) {
  return std::ranges::all_of(data, [&](auto found) { return found == value; });
}

/// The last rank's mark to all, and the sum of what all then have back to it.
void broadcast_and_reduce(Communicator& world, int call, std::span<std::uint32_t> data,
                          std::span<std::uint32_t> sum) {
  const int root = world.size() - 1;
  if (world.rank() == root) std::ranges::fill(data, mark(call, root, 1));
  world.broadcast(data, root);
  expect(holds(data, mark(call, root, 1)), "broadcast");
  world.reduce(data, sum, ReduceOp::sum, root);
  if (world.rank() == root)
    expect(holds(sum, static_cast<std::uint32_t>(world.size()) * mark(call, root, 1)), "reduce");
}

}  // namespace

TEST_CASE("repeated: every call brings what was there when it was made", "[comm]") {
  const int size = GENERATE(2, 3);
  testing::on_all_transports(size, [&](Communicator& world) {
    const int me = world.rank(), next = (me + 1) % size, last = (me + size - 1) % size;
    // The message must exceed the eager limit (CommunicatorOptions::eager_limit).
    const std::size_t message = 5 * kElems;
    std::vector<std::uint32_t> in(kElems * static_cast<std::size_t>(size)), out(in.size()),
        sent(message), got(message);
    for (int call = 0; call < kCalls; call++) {
      for (int to = 0; to < size; to++)
        std::ranges::fill(block(in, to, kElems), mark(call, me, to));
      world.all_to_all(in, out);
      for (int from = 0; from < size; from++)
        expect(holds(block(out, from, kElems), mark(call, from, me)), "all_to_all");

      world.all_gather(block(in, 0, kElems), out);
      for (int from = 0; from < size; from++)
        expect(holds(block(out, from, kElems), mark(call, from, 0)), "all_gather");

      std::ranges::fill(sent, mark(call, me, next));
      world.send_recv(sent, next, got, last);
      expect(holds(got, mark(call, last, me)), "send_recv");

      // Ordinary memory, of a rank that may be ahead of those that read it.
      broadcast_and_reduce(world, call, sent, got);
    }
  });
}

TEST_CASE("repeated: so do reductions and broadcasts of registered memory", "[comm]") {
  const int size = GENERATE(2, 3);
  testing::on_all_transports(size, [&](Communicator& world) {
    const int me = world.rank();
    constexpr std::size_t kWhole = 12 * kElems;
    const Memory memory = allocate(2 * kWhole * sizeof(std::uint32_t));
    auto* const begin = reinterpret_cast<std::uint32_t*>(memory.data());
    const std::span in(begin, kWhole), out(begin + kWhole, kWhole);
    for (int call = 0; call < kCalls; call++) {
      std::ranges::fill(in, mark(call, me, 0));
      world.all_reduce(in, out);
      expect(holds(out, sum_of_marks(call, size)), "all_reduce");
      std::ranges::fill(in, mark(call, me, 0));
      world.all_reduce(in);
      expect(holds(in, sum_of_marks(call, size)), "all_reduce in place");
      broadcast_and_reduce(world, call, in, out);
      // Peers map the memory meanwhile.
      if (call == 0) testing::leave_time(std::chrono::milliseconds(20));
    }
  });
}

// SPDX-License-Identifier: Apache-2.0
// Known calls for trace_test: "calls", "late", "full" or "for ever".
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"

namespace {

constexpr auto kType = ccoll::DataType::float32;

void make_calls(ccoll::Communicator& world) {
  const int rank = world.rank(), size = world.size();
  std::vector<float> in(1 << 14, 1), out(in.size());
  world.all_reduce(in, ccoll::Block(out.data(), in.size(), kType));
  // Small calls, which take the short path from the second on.
  for (int i = 0; i < 100; i++)
    world.all_reduce(ccoll::ConstBlock(in.data(), 2, kType), ccoll::Block(out.data(), 2, kType));
  std::vector<ccoll::Block> blocks;
  for (int i = 0; i < size; i++)
    blocks.push_back({out.data() + 10 * i, static_cast<std::size_t>(i), kType});
  world.all_gather_v({in.data(), static_cast<std::size_t>(rank), kType}, blocks);
  // Rank r sends 3r + i elements to rank i, and rank 0 none to itself.
  std::vector<ccoll::ConstBlock> sent;
  for (int i = 0; i < size; i++) {
    sent.push_back({in.data(), static_cast<std::size_t>(3 * rank + i), kType});
    blocks[static_cast<std::size_t>(i)] = {out.data() + 100 * i,
                                           static_cast<std::size_t>(3 * i + rank), kType};
  }
  world.all_to_all_v(sent, blocks);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  world.send_recv(ccoll::ConstBlock(in.data(), 4, kType), next, ccoll::Block(out.data(), 4, kType),
                  previous);
  world.send_recv(in, next, out, previous);
  auto half = world.split(rank % 2, rank, {.name = "half", .timeout = {}});
  half->barrier();
}

void be_late(ccoll::Communicator& world) {
  const std::vector<float> in(10, 1);
  std::vector<float> out(10);
  world.barrier();
  if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  world.all_reduce(in, ccoll::Block(out.data(), in.size(), kType));
}

/// Limits files to 4 KiB; writes beyond fail as on a full disk.
void fill_up(ccoll::Communicator& world) {
  float one = 1, sum = 0;
  world.all_reduce(ccoll::ConstBlock(&one, 1, kType), ccoll::Block(&sum, 1, kType));
  const rlimit limit{4096, 4096};
  setrlimit(RLIMIT_FSIZE, &limit);
  for (int i = 0; i < 100; i++)
    world.all_reduce(ccoll::ConstBlock(&one, 1, kType), ccoll::Block(&sum, 1, kType));
}

[[noreturn]] void go_on(ccoll::Communicator& world) {
  if (world.rank() == 1) {
    fmt::print("process {}\n", getpid());
    std::fflush(stdout);
  }
  for (float one = 1, sum = 0;;)
    world.all_reduce(ccoll::ConstBlock(&one, 1, kType), ccoll::Block(&sum, 1, kType));
}

}  // namespace

int main(int argc, char** argv) {
  auto world = ccoll::Communicator::create();
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "late")
    be_late(world);
  else if (what == "full")
    fill_up(world);
  else if (what == "for ever")
    go_on(world);
  else
    make_calls(world);
}

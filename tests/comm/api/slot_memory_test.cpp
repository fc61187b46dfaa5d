// SPDX-License-Identifier: Apache-2.0
// One of many ranks on a host, in several communicators: the memory of their links' slots stays
// within CCOLL_SLOT_MEMORY, and other links take another transport. Run by cc-run.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "ccoll/ccoll.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using testing::expect;

namespace {

/// This process's share of the resident memory of its links.
std::uint64_t resident_bytes() {
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t kib = 0;
  bool of_link = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.find(':') == first.npos || first.back() != ':')
      of_link = line.find("/memfd:ccoll-link") != line.npos ||
                line.find("/memfd:ccoll-multicast") != line.npos;
    else if (std::uint64_t size = 0; of_link && first == "Pss:" && words >> size)
      kib += size;
  }
  return kib << 10;
}

void exchange(Communicator& communicator, std::size_t block) {
  const auto size = static_cast<std::size_t>(communicator.size());
  std::vector<std::int32_t> to(size * block), from(size * block);
  for (std::size_t i = 0; i < to.size(); i++)
    to[i] = communicator.rank() * 1000 + static_cast<std::int32_t>(i / block);
  communicator.all_to_all(to, from);
  for (std::size_t i = 0; i < from.size(); i++)
    expect(from[i] == static_cast<std::int32_t>(i / block) * 1000 + communicator.rank(),
           "what each has sent");
}

void run() {
  auto world = Communicator::create();
  auto half = world.split(world.rank() % 2, world.rank());
  auto again = world.split(0, -world.rank());
  for (int round = 0; round < 2; round++) {
    exchange(world, 32 << 10);
    exchange(*half, 32 << 10);
    exchange(*again, 8 << 10);
  }
  const auto limit = CommunicatorOptions::from_environment().shm.slot_bytes;
  std::vector<std::uint64_t> resident = {resident_bytes()};
  world.all_reduce(resident);
  // Each link has a page for announcing slices in addition to its slots.
  const auto ranks = static_cast<std::uint64_t>(world.size());
  const auto links = limit / (512 << 10);
  const auto most = ranks * (limit + links * 4096);
  expect(resident[0] > 0, "some share memory");
  expect(resident[0] <= most, fmt::format("{} bytes of {} are there", resident[0], most));
  if (world.rank() == 0)
    fmt::print("{} ranks: {:.1f} MiB of slots are there, at most {} MiB may be\n", ranks,
               static_cast<double>(resident[0]) / (1 << 20), ranks * limit >> 20);
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

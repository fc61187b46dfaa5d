// SPDX-License-Identifier: Apache-2.0
// One of the two ranks of way_test: way_rank STORE RANK. It makes one call; rank 1 only once its
// standard input has a line.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "ccoll/ccoll.hpp"

namespace {
constexpr unsigned kLimit = 90;  ///< seconds until SIGALRM kills the process
}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return EXIT_FAILURE;
  ::alarm(kLimit);
  const int rank = std::stoi(argv[2]);
  ccoll::CommunicatorOptions options;
  options.transport = "shm";
  options.timeout = std::chrono::minutes(2);
  // Slices then pass through the ring's slots, whatever the machine allows.
  options.shm.single_copy = false;
  auto world = ccoll::Communicator::create(ccoll::make_file_store(argv[1]), rank, 2, options);
  std::string line;
  if (rank == 1 && !std::getline(std::cin, line)) return EXIT_FAILURE;
  // So long that it takes several windows, for which the plan has no short executor.
  std::vector<float> buffer(1 << 20, 1);
  world.all_reduce(buffer);
  return buffer.front() == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

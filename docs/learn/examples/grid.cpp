// SPDX-License-Identifier: Apache-2.0
// Ranks as a grid: grid DATA MODEL. Who shares a row with whom, and who a column?
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

/// The numbers in the world of all ranks of a group.
std::string members(ccoll::Communicator& group, int me) {
  const std::vector<int> mine = {me};
  std::vector<int> ranks(static_cast<std::size_t>(group.size()));
  group.all_gather(mine, ranks);
  std::string text;
  for (const int rank : ranks) text.append(" ").append(std::to_string(rank));
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  auto world = ccoll::Communicator::create();
  const int data = argc > 1 ? std::atoi(argv[1]) : 2, model = argc > 2 ? std::atoi(argv[2]) : 2;
  ccoll::Mesh mesh(world, {{"data", data}, {"model", model}});

  const std::string row = members(mesh.axis("model"), world.rank());
  const std::string column = members(mesh.axis("data"), world.rank());
  std::printf("rank %d: one copy of the model is on%s; the same part of it is on%s\n", world.rank(),
              row.c_str(), column.c_str());
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

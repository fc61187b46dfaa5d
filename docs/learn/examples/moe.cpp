// SPDX-License-Identifier: Apache-2.0
// Mixture of experts: rank r is expert r. Tokens go to the experts that a router has chosen for
// them, and what the experts make of them goes back.
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace {

using Counts = std::vector<std::size_t>;

std::size_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

int main() try {
  auto world = ccoll::Communicator::create();
  const int me = world.rank();
  const auto n = static_cast<std::size_t>(world.size());

  // This rank's tokens, ordered by expert: rank r has 2r tokens for expert 0, one for any other.
  Counts to(n, 1), from(n);
  to[0] = static_cast<std::size_t>(2 * me);
  std::vector<float> tokens(total(to));
  std::iota(tokens.begin(), tokens.end(), 10.0F * static_cast<float>(me));

  world.all_to_all(to, from);  // how many come from whom
  std::vector<float> received(total(from));
  world.all_to_all_v(ccoll::const_blocks(tokens, to), ccoll::blocks(received, from));
  for (float& token : received) token += 1000.0F * static_cast<float>(me + 1);  // the expert's work
  world.all_to_all_v(ccoll::const_blocks(received, from), ccoll::blocks(tokens, to));

  std::string text;
  for (const float token : tokens) text.append(" ").append(std::to_string(static_cast<int>(token)));
  std::printf("expert %d worked on %zu tokens; rank %d has back%s\n", me, received.size(), me,
              text.c_str());
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

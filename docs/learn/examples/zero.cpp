// SPDX-License-Identifier: Apache-2.0
// One step of training as ZeRO does it: every rank keeps, and updates, its share of the parameters.
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <vector>

int main() try {
  auto world = ccoll::Communicator::create();
  const auto n = static_cast<std::size_t>(world.size());
  const int me = world.rank();

  // Four parameters for each rank's share; this rank's gradient of all of them, from its own data.
  std::vector<float> parameters(4 * n, 1.0F);
  const std::vector<float> gradient(4 * n, static_cast<float>(me + 1));

  std::vector<float> own_gradient(4);
  world.reduce_scatter(gradient, own_gradient, ccoll::ReduceOp::avg);  // its share, averaged

  const auto own = std::span(parameters).subspan(4 * static_cast<std::size_t>(me), 4);
  for (std::size_t i = 0; i < own.size(); i++) own[i] -= 0.5F * own_gradient[i];

  const std::vector<float> updated(own.begin(), own.end());
  world.all_gather(updated, parameters);  // everyone's shares, to compute with

  std::printf("rank %d updated 4 of %zu parameters, and has %g ... %g\n", me, parameters.size(),
              parameters.front(), parameters.back());
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// A softmax and a norm of a row of numbers that is spread over all ranks.
#include <algorithm>
#include <ccoll/ccoll.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

int main() try {
  auto world = ccoll::Communicator::create();
  const std::vector<double> row = {100.0 * world.rank(), 100.0 * world.rank() + 1};  // this part

  std::vector<double> largest = {*std::ranges::max_element(row)};
  world.all_reduce(largest, ccoll::ReduceOp::max);  // 1. the largest of all

  std::vector<double> sum = {0};
  for (const double x : row) sum[0] += std::exp(x - largest[0]);  // no exponent above 0
  world.all_reduce(sum);                                          // 2. the sum of all

  std::vector<double> squares = {0};
  for (const double x : row) squares[0] += x * x;
  world.all_reduce(squares);

  std::printf("rank %d: largest %g, sum %.4f, softmax of its last %.4f, norm %.2f\n", world.rank(),
              largest[0], sum[0], std::exp(row[1] - largest[0]) / sum[0], std::sqrt(squares[0]));
} catch (const ccoll::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}

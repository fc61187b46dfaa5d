// SPDX-License-Identifier: Apache-2.0
// A 2×2 mesh: a matrix is cut in two along "model", and each half is kept twice, along "data".
// Every rank multiplies its half by its own batch; the halves of a result meet along "model",
// gradients are averaged along "data": cc-run -n 4 ./mesh
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <vector>

int main() try {
  auto world = ccoll::Communicator::create();
  ccoll::Mesh mesh(world, {{"data", 2}, {"model", 2}});
  ccoll::Communicator& model = mesh.axis("model");
  ccoll::Communicator& data = mesh.axis("data");

  // This rank's two columns of a 4-column weight, and its share of the input.
  const int batch = mesh.coordinate("data"), half = mesh.coordinate("model");
  std::vector<double> weight = {half + 1.0, half + 2.0};
  const std::vector<double> input = {batch + 1.0, batch + 3.0};
  std::vector<double> product = {weight[0] * input[0] + weight[1] * input[1]};
  model.all_reduce(product);  // the sum of both halves

  std::vector<double> gradient = {product[0] * input[0], product[0] * input[1]};
  data.all_reduce(gradient, ccoll::ReduceOp::avg);  // over both batches

  std::printf("rank %d stands at data %d, model %d: product %g, gradient %g and %g\n", world.rank(),
              batch, half, product[0], gradient[0], gradient[1]);
} catch (const ccoll::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Data parallel training in small: the gradients of a bucket of layers are averaged over all ranks
// while those of the layers before it are still being computed: cc-run -n 4 ./gradient_buckets
#include <ccoll/ccoll.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t kLayers = 12;
constexpr std::size_t kLayerValues = 50'000;
constexpr std::size_t kBucketLayers = 4;

/// Stands for a layer's backward pass over this rank's share of the data.
void backward(std::size_t layer, int rank, std::span<float> gradient) {
  for (std::size_t i = 0; i < gradient.size(); i++)
    gradient[i] = static_cast<float>(layer) + static_cast<float>(rank) * std::cos(float(i % 4));
}

}  // namespace

int main() try {
  auto world = ccoll::Communicator::create();

  // All gradients lie in one buffer, so that a bucket is a part of it and nothing is copied.
  std::vector<float> gradients(kLayers * kLayerValues);
  std::vector<ccoll::Work> under_way;
  for (std::size_t layer = kLayers; layer-- > 0;) {  // the last layer's gradient comes first
    const auto own = std::span(gradients).subspan(layer * kLayerValues, kLayerValues);
    backward(layer, world.rank(), own);
    if (layer % kBucketLayers != 0) continue;
    const auto bucket =
        std::span(gradients).subspan(layer * kLayerValues, kBucketLayers * kLayerValues);
    under_way.push_back(world.all_reduce_async(bucket, ccoll::ReduceOp::avg));
  }
  for (ccoll::Work& work : under_way) work.wait();

  if (world.rank() == 0)
    std::printf("%zu buckets averaged over %d ranks; layer 3 begins with %g\n", under_way.size(),
                world.size(), gradients[3 * kLayerValues]);
} catch (const ccoll::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// A pipeline: rank r is stage r. Batches enter at rank 0, every stage works on one batch while its
// neighbours work on others, results leave at the last rank: cc-run -n 4 ./pipeline
#include <ccoll/ccoll.hpp>
#include <cstdio>
#include <vector>

namespace {

constexpr int kBatches = 8;
constexpr std::size_t kValues = 100'000;

void work_on(std::vector<float>& batch, int stage) {
  for (float& value : batch) value = value * 2 + static_cast<float>(stage);
}

}  // namespace

int main() try {
  auto world = ccoll::Communicator::create();
  const int stage = world.rank();
  const int last = world.size() - 1;

  // Two buffers: one is worked on and sent while the next batch arrives in the other.
  std::vector<float> buffers[2] = {std::vector<float>(kValues), std::vector<float>(kValues)};
  ccoll::Work sent[2];
  double sum = 0;
  for (int number = 0; number < kBatches; number++) {
    std::vector<float>& batch = buffers[number % 2];
    sent[number % 2].wait();  // until then the buffer is still being sent
    if (stage == 0)
      batch.assign(kValues, static_cast<float>(number));
    else
      world.recv(batch, stage - 1);
    work_on(batch, stage);
    if (stage < last)
      sent[number % 2] = world.send_async(batch, stage + 1);
    else
      sum += batch[0];
  }
  for (ccoll::Work& work : sent) work.wait();

  if (stage == last)
    std::printf("%d batches went through %d stages, their first values sum up to %g\n", kBatches,
                world.size(), sum);
} catch (const ccoll::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

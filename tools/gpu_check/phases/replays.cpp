// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/phases/replays.hpp"

namespace ccoll::gpu_check {
namespace {

std::vector<cudaStream_t> both(std::vector<cudaStream_t> a, const std::vector<cudaStream_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Graph graph_of(const std::vector<Part*>& parts) {
  const auto streams = parts[0]->streams();
  return {streams, [&] {
            for (Part* const part : parts) part->call(streams);
          }};
}

}  // namespace

Replays::Replays(Part& first, Part& second, std::uint64_t seed)
    : first_(first),
      second_(second),
      same_(seed),
      all_(both(first.streams(), second.streams())),
      both_(graph_of({&first, &second})),
      only_first_(graph_of({&first})),
      only_second_(graph_of({&second})) {}

int Replays::run(int rounds, const std::function<void(const std::string& wrong, int round)>& judge,
                 const std::function<bool(int round)>& goes_on) {
  constexpr int kAsksAfter = 20;
  for (int round = 0; round < rounds; round++) {
    if (round % kAsksAfter == kAsksAfter - 1 && !goes_on(round)) return round;
    first_.put(round);
    second_.put(round);
    // The very first is the one graph of both.
    const auto way = static_cast<unsigned>(same_() % 4);
    const bool by_chance = same_() % 16 == 0;
    make_calls(round == 0 ? 0 : way);
    if (round >= 3 && round + 1 < rounds && !by_chance) continue;
    judge(first_.wrong() + second_.wrong(), round);
  }
  return rounds;
}

void Replays::make_calls(unsigned way) {
  if (way == 0) return both_.launch(all_);
  if (way == 1) {
    first_.call(first_.streams());
    second_.call(second_.streams());
    return;
  }
  // Two graphs run at once, or one beside plain calls.
  only_first_.launch(first_.streams());
  if (way == 2) return only_second_.launch(second_.streams());
  second_.call(second_.streams());
}

}  // namespace ccoll::gpu_check

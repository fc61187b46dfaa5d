// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/phases/known_calls.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>

#include "gpu_check/phases/graph.hpp"

namespace ccoll::gpu_check {
namespace {

constexpr std::size_t kOutputs = 5;
constexpr std::size_t kGuard = 16;
/// Each round's inputs are shifted by this much against the last one's.
constexpr std::size_t kShift = 7;
constexpr int kPoison = 0xee;

}  // namespace

KnownCalls::KnownCalls(std::size_t count, int most_ranks, int rounds)
    : count_(count),
      block_(count * static_cast<std::size_t>(most_ranks) + kGuard),
      rounds_(rounds),
      table_(value_or_throw(
          device::allocate_on_device(4 * (block_ + kShift * static_cast<std::size_t>(rounds))))),
      input_(value_or_throw(device::allocate_on_device(4 * block_))),
      outputs_(value_or_throw(device::allocate_on_device(4 * block_ * kOutputs))) {}

std::uint32_t KnownCalls::value(int rank, std::size_t i, int round) {
  const auto place = static_cast<std::uint32_t>(i + kShift * static_cast<std::size_t>(round));
  const std::uint32_t mixed =
      (place + 0x10001U * static_cast<std::uint32_t>(rank + 1)) * 2654435761U;
  return mixed ^ (mixed >> 15);
}

std::uint32_t* KnownCalls::output(std::size_t number) const {
  return reinterpret_cast<std::uint32_t*>(outputs_.get()) + block_ * number;
}

void KnownCalls::put(int round, int rank, int size, cudaStream_t stream) {
  if (rank != rank_) {
    Words table(block_ + kShift * static_cast<std::size_t>(rounds_));
    for (std::size_t i = 0; i < table.size(); i++) table[i] = value(rank, i, 0);
    check(cudaMemcpyAsync(table_.get(), table.data(), 4 * table.size(), cudaMemcpyHostToDevice,
                          stream),
          "copying inputs to the GPU");
  }
  rank_ = rank;
  size_ = size;
  round_ = round;
  const auto* const from = table_.get() + 4 * kShift * static_cast<std::size_t>(round);
  check(cudaMemcpyAsync(input_.get(), from, 4 * block_, cudaMemcpyDeviceToDevice, stream),
        "copying a round's inputs");
  check(cudaMemsetAsync(outputs_.get(), kPoison, 4 * block_ * kOutputs, stream), "poison");
}

void KnownCalls::call(Communicator& communicator, cudaStream_t stream) const {
  constexpr auto kType = DataType::uint32;
  CallOptions in_stream;
  in_stream.stream = stream;
  const void* const input = input_.get();
  communicator.all_reduce(ConstBlock(input, count_, kType), Block(output(0), count_, kType),
                          ReduceOp::sum, in_stream);
  communicator.all_gather(ConstBlock(input, count_, kType),
                          Block(output(1), communicator.size() * count_, kType), in_stream);
  communicator.reduce_scatter(ConstBlock(input, communicator.size() * count_, kType),
                              Block(output(2), count_, kType), ReduceOp::sum, in_stream);
  communicator.all_to_all(ConstBlock(input, communicator.size() * count_, kType),
                          Block(output(3), communicator.size() * count_, kType), in_stream);
  communicator.broadcast(ConstBlock(input, count_, kType), Block(output(4), count_, kType),
                         communicator.size() - 1, in_stream);
}

std::uint32_t KnownCalls::sum(std::size_t i) const {
  std::uint32_t sum = 0;
  for (int rank = 0; rank < size_; rank++) sum += value(rank, i, round_);
  return sum;
}

KnownCalls::Words KnownCalls::expected() const {
  Words words(block_ * kOutputs, 0x01010101U * kPoison);
  const std::size_t own = count_ * static_cast<std::size_t>(rank_);
  for (std::size_t i = 0; i < count_; i++) {
    words[i] = sum(i);
    words[2 * block_ + i] = sum(own + i);
    words[4 * block_ + i] = value(size_ - 1, i, round_);
    for (int peer = 0; peer < size_; peer++) {
      const std::size_t at = count_ * static_cast<std::size_t>(peer) + i;
      words[block_ + at] = value(peer, i, round_);
      words[3 * block_ + at] = value(peer, own + i, round_);
    }
  }
  return words;
}

std::string KnownCalls::wrong(cudaStream_t stream) const {
  constexpr std::string_view kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                         "broadcast"};
  Words got(block_ * kOutputs);
  check(cudaMemcpyAsync(got.data(), outputs_.get(), 4 * got.size(), cudaMemcpyDeviceToHost, stream),
        "copying results from the GPU");
  check(cudaStreamSynchronize(stream), "waiting for a stream");
  const Words right = expected();
  const auto [here, there] = std::ranges::mismatch(got, right);
  if (here == got.end()) return {};
  const auto at = static_cast<std::size_t>(here - got.begin());
  return fmt::format(
      "round {}, rank {} of {}: {} elements of its results are wrong, the first is "
      "number {} of its {}: {:#x}, expected {:#x}",
      round_, rank_, size_,
      std::inner_product(got.begin(), got.end(), right.begin(), std::size_t{0}, std::plus<>(),
                         std::not_equal_to<>()),
      at % block_, kNames[at / block_], *here, *there);
}

}  // namespace ccoll::gpu_check

// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/phases/communicators/tried_rank.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "gpu_check/phases/graph.hpp"
#include "support/differences.hpp"

namespace ccoll::gpu_check {

namespace {

using device::cuda_status;

constexpr std::size_t kGuardBytes = 64;

}  // namespace

/// A graph captured before the communicator's first call; it runs a thousand times, with plain
/// calls in between.
void TriedRank::graphs(Communicator& communicator, Communicator& host) {
  constexpr std::size_t kCount = 1000, kShare = 100;
  constexpr int kLaunches = 5;
  const int rounds = testing::by_effort(8, 200, 1000);
  auto* const sums = reinterpret_cast<std::uint32_t*>(device_in_.get());
  auto* const gathered = reinterpret_cast<std::uint32_t*>(device_out_.get());
  const cudaStream_t streams[] = {stream_.get()};
  const Graph graph(streams, [&] {
    communicator.all_reduce(Block(sums, kCount, DataType::uint32), ReduceOp::sum, in(stream_));
    communicator.all_gather(ConstBlock(sums, kShare, DataType::uint32),
                            Block(gathered, communicator.size() * kShare, DataType::uint32),
                            in(stream_));
  });
  std::vector<std::uint32_t> values(kCount), got(kCount), parts(kShare);
  const auto size = static_cast<std::uint32_t>(size_);
  for (int round = 0; round < rounds; round++) {
    if (round % 10 == 9 && !goes_on(host, fmt::format("{} rounds of graphs", rounds - round)))
      return;
    watch_.at(
        fmt::format("a graph's launches {} to {}", kLaunches * round, kLaunches * (round + 1) - 1));
    const auto from = static_cast<std::uint32_t>(7 * round);
    std::iota(values.begin(), values.end(), from + static_cast<std::uint32_t>(rank_));
    copy(sums, values.data(), 4 * kCount, cudaMemcpyHostToDevice);
    for (int i = 0; i < kLaunches; i++) graph.launch(streams);
    communicator.all_reduce(Block(sums, kCount, DataType::uint32), ReduceOp::sum, in(stream_));
    copy(got.data(), sums, 4 * kCount, cudaMemcpyDeviceToHost);
    copy(parts.data(), gathered + (size - 1) * kShare, 4 * kShare, cudaMemcpyDeviceToHost);
    wait(stream_);
    expect_none(communicator);
    std::uint32_t factor = 1;  // of all but the first sum and the last
    for (int i = 0; i + 1 < kLaunches; i++) factor *= size;
    std::string wrong;
    const auto expect = [&](const char* what, std::uint32_t i, std::uint32_t found,
                            std::uint32_t expected) {
      if (found != expected && wrong.empty())
        wrong = fmt::format("element {} of {}: found {}, expected {}", i, what, found, expected);
    };
    for (std::uint32_t i = 0; i < kCount; i++) {
      const std::uint32_t sum = size * (from + i) + size * (size - 1) / 2;
      expect("the sums", i, got[i], sum * factor * size);
      if (i < kShare) expect("what was gathered last", i, parts[i], sum * factor);
    }
    judge(wrong.empty(),
          fmt::format("a graph, launched {} times: {}", kLaunches * (round + 1), wrong));
  }
}

void TriedRank::trials(Communicator& communicator, Communicator& host) {
  const int count = testing::by_effort(20, 400, 2000);
  for (int i = 0; i < count; i++) {
    if (i % 20 == 19 && !goes_on(host, fmt::format("{} calls", count - i))) return;
    trial(communicator, host, random_draw(same_, size_));
  }
}

/// Makes one call on the host, then in the stream on buffers in either memory.
void TriedRank::trial(Communicator& communicator, Communicator& host, const Draw& draw) {
  watch_.at(draw.text());
  const std::size_t input_bytes = draw.bytes(true, size_);
  const std::size_t output_bytes = draw.bytes(false, size_);
  Bytes input(input_bytes), before(output_bytes + 2 * kGuardBytes);
  fill(input.data(), input_bytes, draw.type, own_);
  fill(before.data(), before.size(), DataType::uint8, own_);
  if (draw.in_place) std::ranges::copy(input, before.begin() + kGuardBytes);
  Bytes expected = before;
  std::byte* const result = expected.data() + kGuardBytes;
  draw.begin(host, draw.in_place ? result : input.data(), result, {}).wait();

  const bool input_there = own_() % 4 != 0, output_there = own_() % 4 != 0;
  // Behind the offset and the guards there is room for the largest.
  std::byte* const from = (input_there ? device_in_.get() : host_in_.data()) + own_() % 256;
  std::byte* const to = (output_there ? device_out_.get() : host_out_.data()) + own_() % 256;
  const auto put = [&](bool there, std::byte* place, const Bytes& bytes) {
    if (there)
      copy(place, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
    else
      std::ranges::copy(bytes, place);
  };
  put(input_there, from, input);
  put(output_there, to, before);
  make_call(communicator, draw, draw.in_place ? to + kGuardBytes : from, to + kGuardBytes);
  const auto get = [&](bool there, const std::byte* place, Bytes& bytes) {
    if (there)
      copy(bytes.data(), place, bytes.size(), cudaMemcpyDeviceToHost);
    else
      std::copy_n(place, bytes.size(), bytes.data());
  };
  Bytes got(before.size()), kept(input_bytes);
  get(output_there, to, got);
  get(input_there, from, kept);
  wait(stream_);
  expect_none(communicator);
  judge(got, expected, draw.text());
  judge(kept, input, draw.text() + ": its input was written");
}

/// Makes the call in a random way and waits for it.
void TriedRank::make_call(Communicator& communicator, const Draw& draw, const void* input,
                          void* output) {
  const auto begin = [&] { return draw.begin(communicator, input, output, in(stream_)); };
  // All ranks replay graphs equally often, so that is drawn alike; how they wait may differ.
  if (same_() % 3 == 0) {
    const cudaStream_t streams[] = {stream_.get()};
    const Graph graph(streams, begin);
    const auto launches = draw.in_place ? 1 : 1 + same_() % 3;
    for (std::size_t i = 0; i < launches; i++) graph.launch(streams);
    wait(stream_);
    return;
  }
  auto work = begin();
  if (own_() % 2 == 0) return work.wait();
  wait(stream_);
}

/// To the next rank and from the one before, with lengths for whole copies and for pieces.
void TriedRank::messages(Communicator& communicator, Communicator& host) {
  const int to = (rank_ + 1) % size_, from = (rank_ + size_ - 1) % size_;
  const auto content = [](int i, int sender, std::size_t bytes) {
    std::mt19937_64 random(static_cast<std::uint64_t>(100 * i + sender));
    Bytes all(bytes);
    fill(all.data(), bytes, DataType::uint8, random);
    return all;
  };
  const int count = testing::by_effort(4, 60, 300);
  for (int i = 0; i < count; i++) {
    if (i % 10 == 9 && !goes_on(host, fmt::format("{} messages", count - i))) return;
    std::vector<std::size_t> lengths;  // by sender
    for (int rank = 0; rank < size_; rank++)
      lengths.push_back(same_() % (same_() % 2 == 0 ? std::size_t{300} << 10 : kArena - 256));
    const auto sent = lengths[static_cast<std::size_t>(rank_)];
    const auto received = lengths[static_cast<std::size_t>(from)];
    const auto text = fmt::format("message {}: {} bytes to rank {}, {} from rank {}", i, sent, to,
                                  received, from);
    watch_.at(text);
    std::byte* const out = device_in_.get() + own_() % 256;
    std::byte* const place = device_out_.get() + own_() % 256;
    const Bytes sent_bytes = content(i, rank_, sent);
    copy(out, sent_bytes.data(), sent, cudaMemcpyHostToDevice);
    wait(stream_);
    const auto exchange = [&] {
      return communicator.send_recv_async(ConstBlock(out, sent, DataType::uint8), to,
                                          Block(place, received, DataType::uint8), from, i,
                                          in(stream_));
    };
    if (same_() % 3 == 0) {
      const cudaStream_t streams[] = {stream_.get()};
      const Graph graph(streams, exchange);
      for (int launch = 0; launch < 2; launch++) graph.launch(streams);
      wait(stream_);
    } else {
      exchange().wait();
    }
    Bytes got(received);
    copy(got.data(), place, received, cudaMemcpyDeviceToHost);
    wait(stream_);
    expect_none(communicator);
    judge(got, content(i, from, received), text);
  }
}

/// More calls in two streams than there is memory for, one larger than all of it.
void TriedRank::crowd(Communicator& communicator, Communicator& host) {
  const int calls = testing::by_effort(30, 120, 120);
  const device::OwnStream* const streams[] = {&stream_, &other_stream_};
  const auto size = static_cast<std::uint32_t>(size_);
  auto* const all = reinterpret_cast<std::uint32_t*>(device_in_.get());
  for (int round = 0; round < testing::by_effort(1, 5, 20); round++) {
    if (!goes_on(host, fmt::format("crowds of {} calls", calls))) return;
    watch_.at(fmt::format("{} calls under way, round {}", calls, round));
    std::vector<std::uint32_t> values(kArena / 4);
    std::iota(values.begin(), values.end(), static_cast<std::uint32_t>(rank_));
    copy(all, values.data(), kArena, cudaMemcpyHostToDevice);
    wait(stream_);
    std::size_t end = 0;
    for (int i = 0; i < calls; i++) {
      const std::size_t count = i % 40 == 20 ? 40'000 : same_() % 6000;
      communicator.all_reduce(Block(all + end, count, DataType::uint32), ReduceOp::sum,
                              in(*streams[i % 2]));
      end += count;
    }
    for (const auto* stream : streams) wait(*stream);
    expect_none(communicator);
    std::vector<std::uint32_t> got(end);
    copy(got.data(), all, 4 * end, cudaMemcpyDeviceToHost);
    wait(stream_);
    std::vector<std::uint32_t> expected(end);
    for (std::uint32_t i = 0; i < end; i++) expected[i] = size * i + size * (size - 1) / 2;
    judge(got == expected, fmt::format("{} calls under way: {}", calls,
                                       testing::differences(std::as_bytes(std::span(got)),
                                                            std::as_bytes(std::span(expected)))));
  }
}

double TriedRank::median_of(Communicator& communicator, const std::function<void()>& what) const {
  std::vector<double> seconds;
  for (int i = 0; i < testing::by_effort(3, 31, 31); i++) {
    communicator.barrier();
    const auto begin = std::chrono::steady_clock::now();
    what();
    wait(stream_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds.push_back(took.count());
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void TriedRank::figures(Communicator& communicator) {
  const auto in_stream = in(stream_);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{64} << 10, kMostTimed})
    figure(communicator, "all_reduce", bytes, [&] {
      communicator.all_reduce(ConstBlock(device_in_.get(), bytes / 4, DataType::uint32),
                              Block(device_out_.get(), bytes / 4, DataType::uint32), ReduceOp::sum,
                              in_stream);
    });
  figure(communicator, "send_recv", kMostTimed, [&] {
    communicator.send_recv(ConstBlock(device_in_.get(), kMostTimed, DataType::uint8), 1 - rank_,
                           Block(device_out_.get(), kMostTimed, DataType::uint8), 1 - rank_, 0,
                           in_stream);
  });
}

/// Compares with the copies alone, which both ranks make at once, too.
void TriedRank::figure(Communicator& communicator, const char* call, std::size_t bytes,
                       const std::function<void()>& make) {
  watch_.at(fmt::format("timed calls of {}, {} bytes", call, bytes));
  const double seconds = median_of(communicator, make);
  expect_none(communicator);
  const double copies = median_of(communicator, [&] {
    check(cudaMemcpyAsync(pinned_.get(), device_in_.get(), bytes, cudaMemcpyDefault, stream_.get()),
          "copying to the host");
    check(
        cudaMemcpyAsync(device_out_.get(), pinned_.get(), bytes, cudaMemcpyDefault, stream_.get()),
        "copying to the GPU");
  });
  report_.figures.push_back({{"what", "a call in streams"},
                             {"call", call},
                             {"way", way_},
                             {"ranks", size_},
                             {"bytes", bytes},
                             {"seconds", seconds},
                             {"copies_s", copies}});
}

}  // namespace ccoll::gpu_check

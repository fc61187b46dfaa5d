// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/phases/disturbance.hpp"

#include <chrono>
#include <random>
#include <stdexcept>

#include "gpu_check/phases/graph.hpp"
#include "gpu_check/phases/wayward_kernels.hpp"

namespace ccoll::gpu_check {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::size_t kStreams = 40;
constexpr std::uint32_t kWords = 1 << 12;

void expect(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what);
}

Words read(const device::DeviceMemory& memory, std::size_t count, cudaStream_t stream) {
  Words words(count);
  check(cudaMemcpyAsync(words.data(), memory.get(), 4 * count, cudaMemcpyDeviceToHost, stream),
        "reading back");
  check(cudaStreamSynchronize(stream), "reading back");
  return words;
}

/// Allocates memory of any size, writes it, and frees it.
struct TakesMemory {
  std::mt19937 random{1};

  bool operator()() {
    const std::size_t bytes = 1 + random() % (4 << 20);
    const auto memory = value_or_throw(device::allocate_on_device(bytes));
    check(cudaMemset(memory.get(), 0x5a, bytes), "writing memory");
    return true;
  }
};

/// Launches kernels for the first time, as long as there are new ones.
struct LaunchesFirst {
  device::OwnStream stream = value_or_throw(device::make_stream());
  device::DeviceMemory memory = value_or_throw(device::allocate_on_device(4 * kWords));
  std::uint32_t next = 0;

  bool operator()() {
    if (next == kFreshKernels) return false;
    std::byte* words = memory.get();
    std::uint32_t count = kWords;
    void* arguments[] = {&words, &count};
    check(cudaMemsetAsync(words, 0, 4 * kWords, stream.get()), "zeroing words");
    check(cudaLaunchKernel(fresh_kernel(next), dim3(kWords / 256), dim3(256), arguments, 0,
                           stream.get()),
          "launching a kernel for the first time");
    next++;
    expect(read(memory, kWords, stream.get()) == Words(kWords, next),
           "a kernel launched for the first time is wrong");
    return true;
  }
};

struct CopiesOnLegacyStream {
  device::DeviceMemory memory = value_or_throw(device::allocate_on_device(4 * kWords));
  std::uint32_t round = 0;

  bool operator()() {
    const Words words(kWords, ++round);
    check(cudaMemcpy(memory.get(), words.data(), 4 * kWords, cudaMemcpyHostToDevice), "copying");
    expect(read(memory, kWords, nullptr) == words, "a copy on the legacy default stream is wrong");
    return true;
  }
};

/// Passes a word through all streams. Each stream waits for the one before.
struct UsesStreams {
  std::vector<device::OwnStream> streams = make();
  device::DeviceMemory memory = value_or_throw(device::allocate_on_device(4 * (kStreams + 1)));
  std::uint32_t round = 0;

  static std::vector<device::OwnStream> make() {
    std::vector<device::OwnStream> streams(kStreams);
    for (auto& each : streams) each = value_or_throw(device::make_stream());
    return streams;
  }
  bool operator()() {
    round++;
    check(cudaMemcpyAsync(memory.get(), &round, 4, cudaMemcpyHostToDevice, streams[0].get()),
          "copying a word");
    for (std::size_t i = 0; i < kStreams; i++) {
      if (i > 0) order(streams[i - 1].get(), streams[i].get());
      std::byte* const from = memory.get() + 4 * i;
      check(cudaMemcpyAsync(from + 4, from, 4, cudaMemcpyDeviceToDevice, streams[i].get()),
            "copying a word on");
    }
    expect(read(memory, kStreams + 1, streams.back().get()) == Words(kStreams + 1, round),
           fmt::format("what went through {} streams is wrong", kStreams));
    return true;
  }
};

}  // namespace

template <typename Once>
void Disturbance::start(Kind kind, Once once) {
  threads_.emplace_back([this, kind, once = std::move(once)](const std::stop_token& stop) mutable {
    // Other threads may be capturing.
    const device::BesideCaptures beside;
    try {
      while (!stop.stop_requested() && once()) {
        rounds_[kind]++;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } catch (const std::exception& error) {
      wrong_.lock()->emplace_back(error.what());
    }
  });
}

Disturbance::Disturbance() {
  start(memory, TakesMemory());
  start(first_use, LaunchesFirst());
  start(legacy_stream, CopiesOnLegacyStream());
  start(many_streams, UsesStreams());
}

std::vector<std::string> Disturbance::end() {
  for (auto& each : threads_) each.request_stop();
  threads_.clear();
  constexpr const char* kNames[] = {"takes memory", "launches kernels for the first time",
                                    "copies on the legacy default stream", "uses many streams"};
  const auto wrong = wrong_.lock();
  for (std::size_t kind = 0; kind < kinds; kind++) {
    if (rounds_[kind] == 0)
      wrong->push_back(fmt::format("the thread that {} has never done so", kNames[kind]));
  }
  return *wrong;
}

}  // namespace ccoll::gpu_check

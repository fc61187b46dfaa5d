// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstring>
#include <functional>
#include <random>

#include "core/deadline.hpp"
#include "gpu/cuda/cuda.hpp"
#include "gpu/team/word_hammer.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/word_kernels.hpp"
#include "kernels/device/launch.hpp"
#include "kernels/device/trial.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

using testing::Alignment;
using testing::Trial;

/// A trial's buffers on the device, guards included, each with the host's alignment in a word.
class Bench {
 public:
  Bench()
      : stream_(value_or_throw(device::make_stream())),
        memory_(value_or_throw(device::allocate_on_device(kBytes))),
        staging_(kBytes) {}

  template <typename T>
  Status run(Trial<T>& trial, device::LaunchShape shape) {
    std::vector<std::size_t> places;
    std::size_t used = 0;
    for (auto& buffer : trial.buffers()) {
      places.push_back(used);
      std::memcpy(staging_.data() + used, buffer.bytes().data(), buffer.bytes().size());
      used += (buffer.bytes().size() + 255) / 256 * 256;
      if (used > kBytes) return fail(ErrorKind::internal, "a trial of too many bytes");
    }
    CCOLL_TRY(copy(memory_.get(), staging_.data(), used, cudaMemcpyHostToDevice));
    std::vector<const std::byte*> sources;
    for (std::size_t s = 0; s < trial.shape().source_count; ++s) {
      sources.push_back(memory_.get() + places[s] + trial.buffers()[s].offset());
    }
    std::byte* const out =
        memory_.get() + places[trial.out()] + trial.buffers()[trial.out()].offset();
    CCOLL_TRY(device::launch_combine(data_type_of<T>, trial.shape().op, sources, out,
                                     trial.shape().elems, trial.divisor(), shape, stream_.get()));
    CCOLL_TRY(copy(staging_.data(), memory_.get(), used, cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto bytes = trial.buffers()[i].bytes();
      std::memcpy(bytes.data(), staging_.data() + places[i], bytes.size());
    }
    return {};
  }

 private:
  static constexpr std::size_t kBytes = 8 << 20;

  Status copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    CCOLL_TRY(device::cuda_status(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()),
                                  "copying a trial"));
    return device::cuda_status(cudaStreamSynchronize(stream_.get()), "running a trial");
  }

  device::OwnStream stream_;
  device::DeviceMemory memory_;
  std::vector<std::byte> staging_;
};

/// Head, middle and tail; enough elements that a block of few threads loops several times; or none.
std::size_t random_count(std::mt19937_64& random, std::size_t elem_bytes) {
  switch (random() % 4) {
    case 0:
      return random() % (7 * 16 / elem_bytes + 4);
    case 1:
      return random() % 40'000 / elem_bytes;
    default:
      return random() % 4'000 / elem_bytes;
  }
}

template <typename T>
void try_type(Bench& bench, Findings& findings, std::mt19937_64& random) {
  const std::vector<std::size_t> all = {1, 2, 3, 4, 5, 6, 7, 8, 17, 64};
  const auto kinds = testing::reduced() ? std::vector<std::size_t>{1, 3} : all;
  const int draws = testing::by_effort(1, 2, 2);
  const Check check(findings, std::string(to_string(data_type_of<T>)));
  for (const ReduceOp op : testing::ops_of<T>()) {
    if (is_late()) return findings.leave_out(fmt::format("{}", to_string(op)));
    for (const std::size_t sources : kinds) {
      for (const Alignment alignment : testing::kAlignments) {
        for (int draw = 0; draw < draws && !findings.is_hopeless(); ++draw) {
          const device::LaunchShape shape{static_cast<std::uint32_t>(1 + random() % 4),
                                          static_cast<std::uint32_t>(32 << random() % 5)};
          Trial<T> trial({op, random_count(random, sizeof(T)), sources, alignment}, random);
          findings.tried();
          if (const Status ran = bench.run(trial, shape); !ran) {
            findings.wrong(ran.error().message);
          } else if (const std::string what = trial.what_is_wrong(); !what.empty()) {
            findings.wrong(
                fmt::format("{}, {} blocks of {} threads", what, shape.blocks, shape.threads));
          }
        }
      }
    }
  }
}

template <typename... Types>
void try_types(Bench& bench, Findings& findings, std::mt19937_64& random) {
  (try_type<Types>(bench, findings, random), ...);
}

/// Tests the words of tiny slices by reading them for a while as they are written.
class WordTrial {
 public:
  /// Words start as a launch leaves those that it has written.
  WordTrial() : host_(kMostWords, test::hammered_word(rounds_ - 1)) {
    host_.resize(kMostWords + 2);
  }

  Status run_on_device(std::mt19937_64& random) {
    constexpr const char* kWhat = "copying words";
    const std::size_t bytes = host_.size() * sizeof(std::uint64_t);
    device::DeviceMemory there;
    CCOLL_TRY(device::put(device::allocate_on_device(bytes), there));
    CCOLL_TRY(device::cuda_status(
        cudaMemcpy(there.get(), host_.data(), bytes, cudaMemcpyHostToDevice), kWhat));
    return hammer(there.get(), random, [&] {
      return device::cuda_status(
          cudaMemcpy(host_.data(), there.get(), bytes, cudaMemcpyDeviceToHost), kWhat);
    });
  }

  /// In host memory that is mapped for the device.
  Status run_on_host(std::mt19937_64& random) {
    const std::size_t bytes = host_.size() * sizeof(std::uint64_t);
    device::MappedMemory here;
    CCOLL_TRY(device::put(device::allocate_mapped(bytes), here));
    std::memcpy(here.get(), host_.data(), bytes);
    std::byte* seen = nullptr;
    CCOLL_TRY(device::put(device::on_device(here.get()), seen));
    return hammer(seen, random, [&] {
      std::memcpy(host_.data(), here.get(), bytes);
      return Status();
    });
  }

 private:
  static constexpr std::uint32_t kMostWords = 4096;

  /// `fetch`: copies the words and the findings to the host.
  Status hammer(std::byte* memory, std::mt19937_64& random, const std::function<Status()>& fetch) {
    device::OwnStream stream;
    CCOLL_TRY(device::put(device::make_stream(), stream));
    auto* const words = reinterpret_cast<std::uint64_t*>(memory);
    test::WordHammer with{words, 0, rounds_, words + kMostWords, words + kMostWords + 1};
    void* each[] = {&with};
    const auto end = deadline_after(std::chrono::milliseconds(testing::by_effort(200, 500, 2000)));
    // If other programs have the cores of a host that plays the GPU, readers may take longer to
    // meet the writer.
    while (std::chrono::steady_clock::now() < end ||
           (!have_met() && std::chrono::steady_clock::now() < end + std::chrono::minutes(1))) {
      with.count = static_cast<std::uint32_t>(1 + random() % kMostWords);
      constexpr const char* kWhat = "words under stress";
      CCOLL_TRY(device::cuda_status(
          cudaLaunchKernel(hammer_kernel(), dim3(8), dim3(256), each, 0, stream.get()), kWhat));
      CCOLL_TRY(device::cuda_status(cudaStreamSynchronize(stream.get()), kWhat));
      CCOLL_TRY(fetch());
    }
    return found();
  }

  bool have_met() const { return host_[kMostWords + 1] > 100; }

  Status found() const {
    const std::uint64_t torn = host_[kMostWords], changes = host_[kMostWords + 1];
    if (torn == 0 && have_met()) return {};
    return fail(ErrorKind::corrupt,
                "words read while they were written: {} torn, and {} seen that had changed, of "
                "which there are many",
                torn, changes);
  }

  const std::uint64_t rounds_ = testing::by_effort(100U, 1000U, 1000U);
  std::vector<std::uint64_t> host_;  ///< the findings follow the words
};

}  // namespace

int run_kernels(const PhaseContext& context) {
  Findings findings(context);
  std::mt19937_64 random(context.seed);
  Bench bench;
  try_types<CCOLL_ALL_TYPES>(bench, findings, random);
  for (const bool is_on_device : {true, false}) {
    const Check check(
        findings, is_on_device ? "words in memory of the device" : "words in memory of the host");
    WordTrial trial;
    findings.tried();
    const Status whole = is_on_device ? trial.run_on_device(random) : trial.run_on_host(random);
    if (!whole) findings.wrong(whole.error().message);
  }
  return findings.close("combinations");
}

}  // namespace ccoll::gpu_check

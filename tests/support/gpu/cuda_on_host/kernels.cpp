// SPDX-License-Identifier: Apache-2.0

/// Kernels of one device at a time: what their addresses stand for, and how they are launched.

#include "support/gpu/cuda_on_host/kernels.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "bench/measure/pattern_kernels.hpp"
#include "gpu/kernel/claim.hpp"
#include "gpu/kernel/team_kernel.hpp"
#include "gpu/team/word_hammer.hpp"
#include "gpu_check/figures/figure_kernels.hpp"
#include "gpu_check/phases/wayward_kernels.hpp"
#include "gpu_check/phases/word_kernels.hpp"
#include "kernels/device/combine.hpp"
#include "kernels/device/combine_kernel.hpp"
#include "kernels/device/ordered_copies.hpp"
#include "support/gpu/cuda_on_host/copies.hpp"
#include "support/gpu/cuda_on_host/memory.hpp"
#include "support/gpu/cuda_on_host/streams.hpp"

namespace ccoll::testing::cuda {

using namespace device;

namespace {

// The addresses that stand for kernels.
char combine_kernels[4], claim_kernels[2], pattern_kernels[2], ordered_copies,
    fresh_kernels[gpu_check::kFreshKernels];
/// Kernels without an effect.
char idle_kernels[7];
char hammer_of_words;

std::atomic<int> kernels_launched = 0;

/// Like a kernel that is loaded at its first launch: it waits for all earlier work of the device.
cudaError_t launch_fresh(std::uint32_t number, void** arguments, cudaStream_t stream) {
  static std::set<std::uint32_t> loaded;  // guarded by mu
  is_stalled = is_stalled || has_fault("stall");
  if (loaded.insert(number).second) cudaDeviceSynchronize();
  auto* const words = *static_cast<std::uint32_t**>(arguments[0]);
  const auto count = *static_cast<const std::uint32_t*>(arguments[1]);
  return put_data(stream, [=] {
    for (std::uint32_t i = 0; i < count; ++i) words[i] += number + 1;
  });
}

/// Stores the halves of the first word one by one. The word is torn half of the time.
void tear(const test::WordHammer& with, const std::stop_token& end) {
  auto* const halves = reinterpret_cast<std::uint32_t*>(with.words);
  for (std::uint64_t round = 0; !end.stop_requested(); ++round) {
    const std::uint64_t word = test::hammered_word(round);
    store_relaxed(&halves[0], static_cast<std::uint32_t>(word));
    relax();
    store_relaxed(&halves[1], static_cast<std::uint32_t>(word >> 32));
    relax();
  }
}

/// Runs the blocks concurrently, as they only end together.
cudaError_t launch_hammer(std::uint32_t blocks, void** arguments, cudaStream_t stream) {
  return put_data(stream, [blocks, with = *static_cast<const test::WordHammer*>(arguments[0])] {
    // It ends after all blocks: they may be over before it has its turn.
    std::jthread tearing;
    if (has_fault("torn"))
      tearing = std::jthread([&with](const std::stop_token& end) { tear(with, end); });
    std::vector<std::jthread> running;
    for (std::uint32_t number = 0; number < blocks; ++number)
      running.emplace_back([&with, number] { test::hammer(LoneThread(), number, with); });
  });
}

/// Whether the kernel reads or writes another device's memory.
bool crosses(const CombineArguments& arguments, int device) {
  const auto is_others = [device](const void* place) {
    const Stretch* const there = find(on_device, place);
    return there != nullptr && there->device != device;
  };
  bool does = is_others(arguments.out);
  for (std::uint32_t i = 0; i < arguments.source_count; ++i)
    does = does || is_others(arguments.sources[i]);
  return does;
}

/// Only for kernels whose sources are all known at launch.
bool reads_opened(const CombineArguments& arguments) {
  return std::ranges::any_of(std::span(arguments.sources, arguments.source_count),
                             [](const std::byte* source) { return is_opened(source); });
}

void run_combine(const CombineArguments& arguments, int device) {
  if (!begin(arguments.words, true)) return;
  const std::byte* sources[kMostSources] = {};
  for (std::uint32_t i = 0; i < arguments.source_count; ++i)
    check_reach(device, sources[i] = source_of(arguments, i));
  check_reach(device, arguments.out);
  if (broken_by != cudaSuccess) return;
  combine(LoneThread(), arguments.type, arguments.op,
          {sources, arguments.source_count, arguments.out, arguments.bytes, arguments.divisor});
  maybe_spoil(arguments.out, arguments.bytes);
  if (peering == kPeersWrong && crosses(arguments, device)) arguments.out[0] ^= std::byte{1};
}

/// All its arguments must be memory that the device reaches, from the first byte to the last.
cudaError_t launch_pattern(bool fills, const bench::PatternRun& run, cudaStream_t stream) {
  return put_data(stream, [fills, run, device = current_device] {
    const auto check = [device](const void* first, std::uint64_t bytes) {
      const void* const last = static_cast<const std::byte*>(first) + bytes - 1;
      const Stretch* const there = find(on_device, first);
      if (there == nullptr || there != find(on_device, last) || !reaches(device, first))
        broken_by = cudaErrorIllegalAddress;
    };
    check(run.data, run.elems * run.elem_bytes);
    check(run.period, std::uint64_t{run.period_elems} * run.elem_bytes);
    check(run.wrong, sizeof *run.wrong);
    if (broken_by != cudaSuccess) return;
    fills ? bench::fill_part(LoneThread(), run) : bench::count_wrong_part(LoneThread(), run);
  });
}

/// Once it has begun, it is held like copies: it then copies what it has taken of its order.
void put_ordered_copies(cudaStream_t to, unsigned blocks, unsigned threads, const CopyOrder* order,
                        std::uint32_t number) {
  const auto taken = std::make_shared<TakenOrder>();
  Item item;
  item.what = Item::wait;
  item.is_ready = [=, &room = Room::of(known(to)->device)] {
    if (taken->count == 0) {
      if (!room.has(blocks, threads)) return false;
      take_order(LoneThread(), order, number, *taken);
      held_copies += holds_copies && taken->count > 0 ? 1 : 0;
    }
    return taken->count == 0 || !holds_copies;
  };
  item.run = [taken, device = known(to)->device] {
    // The order must be empty again when a graph is replayed.
    TakenOrder all = std::exchange(*taken, {});
    for (OrderedCopy& each : std::span(all.copies, all.count)) {
      check_reach(device, each.from);
      check_reach(device, each.to);
      each = {seen(each.from), seen(each.to), each.bytes};
      ++copies;
      copied += each.bytes;
    }
    if (broken_by != cudaSuccess) return;
    make_copies(LoneThread(), all);
    for (const OrderedCopy& each : std::span(all.copies, all.count))
      maybe_spoil(each.to, each.bytes);
  };
  item.moves_data = true;
  put(to, std::move(item));
}

}  // namespace

bool may_launch(const void* kernel, cudaStream_t stream) {
  static std::set<const void*> launched;  // guarded by mu
  if (!known(stream)->capture) launched.insert(kernel);
  return launched.contains(kernel) || !has_fault("first");
}

bool leaves_nothing(const void* kernel) {
  return std::ranges::any_of(idle_kernels, [=](const char& each) { return kernel == &each; });
}

void put_when_there_is_room(cudaStream_t to, unsigned blocks, unsigned threads,
                            std::function<void()> run, bool moves_data) {
  Item item;
  item.what = Item::wait;
  item.run = std::move(run);
  item.is_ready = [&room = Room::of(known(to)->device), blocks, threads] {
    return room.has(blocks, threads);
  };
  item.moves_data = moves_data;
  put(to, std::move(item));
}

}  // namespace ccoll::testing::cuda

namespace ccoll::device {

using namespace testing::cuda;

const void* combine_kernel_of_bits() { return &combine_kernels[0]; }
const void* combine_kernel_of_floats() { return &combine_kernels[1]; }
const void* combine_kernel_of_integers() { return &combine_kernels[2]; }
const void* combine_kernel_of_small_floats() { return &combine_kernels[3]; }
const void* team_kernel_of_bits(bool by_words) { return &team_kernels[0][by_words ? 1 : 0]; }
const void* team_kernel_of_floats(bool by_words) { return &team_kernels[1][by_words ? 1 : 0]; }
const void* team_kernel_of_integers(bool by_words) { return &team_kernels[2][by_words ? 1 : 0]; }
const void* team_kernel_of_small_floats(bool by_words) {
  return &team_kernels[3][by_words ? 1 : 0];
}
const void* ordered_copies_kernel() { return &ordered_copies; }
const void* copies_begin_kernel() { return &claim_kernels[0]; }
const void* copies_end_kernel() { return &claim_kernels[1]; }

}  // namespace ccoll::device

namespace ccoll::bench {

using namespace testing::cuda;

const void* fill_kernel() { return &pattern_kernels[0]; }
const void* count_wrong_kernel() { return &pattern_kernels[1]; }

}  // namespace ccoll::bench

namespace ccoll::gpu_check {

using namespace testing::cuda;

const void* read_kernel() { return &idle_kernels[0]; }
const void* fan_kernel() { return &idle_kernels[3]; }
const void* empty_kernel() { return &idle_kernels[4]; }
const void* round_trip_kernel() { return &idle_kernels[5]; }
const void* fresh_kernel(std::uint32_t number) { return &fresh_kernels[number]; }
const void* kernel_out_of_bounds() { return &idle_kernels[1]; }
const void* kernel_beside_barrier() { return &idle_kernels[2]; }
const void* occupying_kernel() { return &idle_kernels[6]; }
const void* hammer_kernel() { return &hammer_of_words; }

}  // namespace ccoll::gpu_check

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  use_current_device();
  *attributes = {};
  return cudaSuccess;
}
/// Assumes that a block takes 64 registers per thread.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*kernel*/,
                                                          int threads, std::size_t /*shared*/) {
  use_current_device();
  *blocks = static_cast<int>(kThreadsAtOnce) / threads;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             std::size_t /*shared*/, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (known(stream)->device != current_device) return cudaErrorInvalidResourceHandle;
  if (!may_launch(kernel, stream)) return cudaErrorStreamCaptureUnsupported;
  ++kernels_launched;
  if (leaves_nothing(kernel)) return put(stream, [] {});
  for (std::uint32_t i = 0; i < ccoll::gpu_check::kFreshKernels; ++i) {
    if (kernel == &fresh_kernels[i]) return launch_fresh(i, arguments, stream);
  }
  if (kernel == copies_begin_kernel() || kernel == copies_end_kernel()) {
    if (refusing.contains(current_device)) return cudaErrorLaunchOutOfResources;
    const auto& claim = *static_cast<const CopyClaim*>(arguments[0]);
    const bool begins = kernel == copies_begin_kernel();
    put_when_there_is_room(stream, grid.x, block.x,
                           [claim, begins] { begins ? begin_copies(claim) : end_copies(claim); });
    return cudaSuccess;
  }
  if (kernel == ccoll::bench::fill_kernel() || kernel == ccoll::bench::count_wrong_kernel()) {
    const auto& run = *static_cast<const ccoll::bench::PatternRun*>(arguments[0]);
    return launch_pattern(kernel == ccoll::bench::fill_kernel(), run, stream);
  }
  if (kernel == ordered_copies_kernel()) {
    const auto* const order = *static_cast<const CopyOrder* const*>(arguments[0]);
    const auto number = *static_cast<const std::uint32_t*>(arguments[1]);
    // There may be room for a single warp beside a team (gpu/program/block_budget.hpp).
    if (block.x > 32) return cudaErrorInvalidConfiguration;
    put_ordered_copies(stream, grid.x, block.x, order, number);
    return cudaSuccess;
  }
  if (kernel == &hammer_of_words) return launch_hammer(grid.x, arguments, stream);
  const auto& call = *static_cast<const CombineArguments*>(arguments[0]);
  const auto run = [call, device = current_device] { run_combine(call, device); };
  put_when_there_is_room(stream, 1, block.x, run, true);
  const bool hangs = has_fault("endless") && reads_opened(call);
  if (hangs || (peering == kPeersHang && crosses(call, current_device))) {
    put_never(stream, hangs ? std::make_shared<std::atomic<bool>>(false) : peers_go_on);
  }
  return cudaSuccess;
}
int cuda_on_host_kernels() { return kernels_launched; }

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// A quick check: whether the GPU works at all, and whether an all_reduce of two ranks does, by a
// kernel and by the host. The steps are independent, so a failure hides no other.
#include <array>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

#include "ccoll/communicator.hpp"
#include "gpu_check/phases/graph.hpp"
#include "gpu_check/watchdog.hpp"
#include "kernels/device/launch.hpp"
#include "support/effort.hpp"
#include "system/locks.hpp"

namespace ccoll::gpu_check {
namespace {

using device::cuda_status;
using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kFirstWords = 1 << 16;

/// The driver's own version, which CUDA does not report: "580.159.04".
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    const bool is_number = word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_number && word.find('.') != std::string::npos) return word;
  }
  return "?";
}

std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

/// Identifies the GPU with its properties.
Status describe(const PhaseContext& context) {
  int driver = 0;
  int runtime = 0;
  cudaDeviceProp of = {};
  CCOLL_TRY(cuda_status(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
  CCOLL_TRY(cuda_status(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
  CCOLL_TRY(cuda_status(cudaGetDeviceProperties(&of, 0), "cudaGetDeviceProperties"));
  const std::string version = driver_version();
  context.records.add({{"phase", context.name},
                       {"what", "device"},
                       {"name", of.name},
                       {"driver", version},
                       {"driver_cuda", cuda_version(driver)},
                       {"runtime_cuda", cuda_version(runtime)},
                       {"compute", fmt::format("{}.{}", of.major, of.minor)},
                       {"memory_bytes", of.totalGlobalMem},
                       {"l2_bytes", of.l2CacheSize},
                       {"multiprocessors", of.multiProcessorCount},
                       {"threads_per_multiprocessor", of.maxThreadsPerMultiProcessor},
                       {"registers_per_multiprocessor", of.regsPerMultiprocessor},
                       {"memory_bus_bits", of.memoryBusWidth},
                       {"cooperative_launch", of.cooperativeLaunch},
                       {"can_map_host_memory", of.canMapHostMemory},
                       {"host_native_atomics", of.hostNativeAtomicSupported},
                       {"copy_engines", of.asyncEngineCount}});
  std::printf("%s, compute %d.%d, driver %s for CUDA %s, runtime %s\n", of.name, of.major, of.minor,
              version.c_str(), cuda_version(driver).c_str(), cuda_version(runtime).c_str());
  std::fflush(stdout);
  return {};
}

/// Fails with the first element that is not as expected.
Status same(const Words& found, const Words& expected) {
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = expected.size(); i-- > 0;) {
    if (found[i] == expected[i]) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return {};
  return fail(ErrorKind::corrupt,
              "{} of {} elements are wrong, the first is number {}: found {:#x}, expected {:#x}",
              wrong, expected.size(), first, found[first], expected[first]);
}

Words numbers(std::uint32_t from) {
  Words words(kFirstWords);
  std::iota(words.begin(), words.end(), from);
  return words;
}

/// Copies to the GPU, within it and back, and lets CUDA fill memory.
Status copy_and_fill() {
  constexpr std::size_t kBytes = 4 * kFirstWords;
  device::DeviceMemory memory;
  CCOLL_TRY(device::put(device::allocate_on_device(3 * kBytes), memory));
  std::byte* const there = memory.get();
  const Words words = numbers(1);
  CCOLL_TRY(cuda_status(cudaMemcpy(there, words.data(), kBytes, cudaMemcpyHostToDevice),
                        "cudaMemcpy to the GPU"));
  CCOLL_TRY(cuda_status(cudaMemcpy(there + kBytes, there, kBytes, cudaMemcpyDeviceToDevice),
                        "cudaMemcpy within the GPU"));
  CCOLL_TRY(cuda_status(cudaMemset(there + 2 * kBytes, 0x5a, kBytes), "cudaMemset"));
  CCOLL_TRY(cuda_status(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  Words copied(kFirstWords), filled(kFirstWords);
  CCOLL_TRY(cuda_status(cudaMemcpy(copied.data(), there + kBytes, kBytes, cudaMemcpyDeviceToHost),
                        "cudaMemcpy from the GPU"));
  CCOLL_TRY(
      cuda_status(cudaMemcpy(filled.data(), there + 2 * kBytes, kBytes, cudaMemcpyDeviceToHost),
                  "cudaMemcpy from the GPU"));
  CCOLL_TRY(same(copied, words));
  return same(filled, Words(kFirstWords, 0x5a5a5a5a));
}

/// Runs a kernel of ccoll, which this program contains as machine code or PTX.
Status add_up() {
  device::DeviceMemory memory;
  device::OwnStream stream;
  CCOLL_TRY(device::put(device::allocate_on_device(8 * kFirstWords), memory));
  CCOLL_TRY(device::put(device::make_stream(), stream));
  const Words words = numbers(3);
  std::byte* const there = memory.get();
  CCOLL_TRY(cuda_status(cudaMemcpy(there, words.data(), 4 * kFirstWords, cudaMemcpyHostToDevice),
                        "cudaMemcpy to the GPU"));
  const std::byte* const sources[] = {there, there};
  CCOLL_TRY(device::launch_combine(DataType::uint32, ReduceOp::sum, sources,
                                   there + 4 * kFirstWords, kFirstWords, 1, {4, 256},
                                   stream.get()));
  CCOLL_TRY(cuda_status(cudaStreamSynchronize(stream.get()), "a kernel that adds"));
  Words found(kFirstWords), expected = words;
  for (std::uint32_t& each : expected) each *= 2;
  CCOLL_TRY(cuda_status(
      cudaMemcpy(found.data(), there + 4 * kFirstWords, 4 * kFirstWords, cudaMemcpyDeviceToHost),
      "cudaMemcpy from the GPU"));
  return same(found, expected);
}

/// One of two ranks: an all_reduce in a stream.
Status reduce_with_other(const std::shared_ptr<Store>& store, int rank, const std::string& way,
                         const std::function<void(const char*)>& at) {
  device::DeviceMemory memory;
  device::OwnStream stream;
  CCOLL_TRY(device::put(device::allocate_on_device(8 * kFirstWords), memory));
  CCOLL_TRY(device::put(device::make_stream(), stream));
  CommunicatorOptions options;
  options.device.ordinal = 0;
  for (const auto each : {DeviceWay::team, DeviceWay::host})
    if (way == to_string(each)) options.device.way = each;
  options.timeout = std::chrono::seconds(8);
  at("making the communicator");
  auto communicator = Communicator::create(store, rank, 2, options);
  std::byte* const there = memory.get();
  Words expected = numbers(1), found(kFirstWords);
  for (std::uint32_t round = 0; round < 3; ++round) {
    at("copying its input");
    const Words words = numbers(static_cast<std::uint32_t>(rank) + round);
    CCOLL_TRY(cuda_status(
        cudaMemcpyAsync(there, words.data(), 4 * kFirstWords, cudaMemcpyHostToDevice, stream.get()),
        "cudaMemcpyAsync to the GPU"));
    for (std::uint32_t i = 0; i < kFirstWords; ++i) expected[i] = 2 * (i + round) + 1;
    CallOptions in_stream;
    in_stream.stream = stream.get();
    at("all_reduce");
    communicator.all_reduce(ConstBlock(there, kFirstWords, DataType::uint32),
                            Block(there + 4 * kFirstWords, kFirstWords, DataType::uint32),
                            ReduceOp::sum, in_stream);
    at("waiting for its stream");
    CCOLL_TRY(cuda_status(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize"));
    if (const auto broken = communicator.error(); !broken.empty())
      return fail(ErrorKind::internal, "{}", broken);
    CCOLL_TRY(cuda_status(
        cudaMemcpy(found.data(), there + 4 * kFirstWords, 4 * kFirstWords, cudaMemcpyDeviceToHost),
        "cudaMemcpy from the GPU"));
    CCOLL_TRY(same(found, expected));
  }
  // Freeing memory waits for all streams of the process, so both must be done first.
  at("the last barrier");
  communicator.barrier();
  return {};
}

void try_two_ranks(const std::string& way, Watchdog& watchdog, Findings& findings) {
  const Check check(findings, fmt::format("all_reduce of 2 threads by {}", way));
  const auto store = make_inproc_store();
  std::array<Status, 2> ended;
  Guarded<std::array<std::string, 2>> stages;
  const auto reduce = [&](int rank) {
    auto& mine = ended[static_cast<std::size_t>(rank)];
    const auto at = [&](const char* what) {
      const auto stage = stages.lock();
      stage->at(static_cast<std::size_t>(rank)) = what;
      watchdog.at(fmt::format("all_reduce of 2 threads by {}: rank 0 in {}, rank 1 in {}", way,
                              stage->front(), stage->back()));
    };
    try {
      mine = reduce_with_other(store, rank, way, at);
    } catch (const std::exception& error) {
      mine = fail(ErrorKind::internal, "{}", error.what());
    }
  };
  {
    const std::jthread other(reduce, 1);
    reduce(0);
  }
  const auto stage = stages.lock();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    findings.tried();
    if (!ended[rank])
      findings.wrong(fmt::format("rank {} by {}, in {}: {}", rank, way, stage->at(rank),
                                 ended[rank].error().message));
  }
}

void try_step(const char* name, Watchdog& watchdog, Findings& findings,
              const std::function<Status()>& step) {
  const Check check(findings, name);
  watchdog.at(name);
  findings.tried();
  if (const Status ended = step(); !ended)
    findings.wrong(fmt::format("{}: {}", name, ended.error().message));
}

}  // namespace

int run_health(const PhaseContext& context) {
  Findings findings(context);
  Watchdog watchdog(context, std::chrono::seconds(15));
  try_step("what the GPU is", watchdog, findings, [&] { return describe(context); });
  try_step("a copy", watchdog, findings, copy_and_fill);
  return findings.close("steps");
}

int run_first(const PhaseContext& context) {
  Findings findings(context);
  Watchdog watchdog(context, std::chrono::seconds(testing::by_effort(60, 12, 12)));
  try_step("a kernel", watchdog, findings, add_up);
  for (const char* way : {"team", "host"}) try_two_ranks(way, watchdog, findings);
  return findings.close("steps");
}

}  // namespace ccoll::gpu_check

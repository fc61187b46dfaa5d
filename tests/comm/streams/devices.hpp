// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls in streams of a device that the host plays (support/gpu/cuda_on_host).

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/streams/device_ways.hpp"
#include "schedule/problem.hpp"
#include "support/effort.hpp"
#include "support/eventually.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/gpu/device_buffer.hpp"
#include "support/ranks.hpp"

namespace ccoll::testing {

using Values = std::vector<std::int32_t>;
using Device = DeviceBuffer<std::int32_t>;
constexpr DataType kType = DataType::int32;

/// The value of CCOLL_TEST_DEVICE_WAY; the tests run once for each.
inline std::string asked_way() {
  const char* const asked = std::getenv("CCOLL_TEST_DEVICE_WAY");
  return asked != nullptr ? asked : "host";
}

/// How device collectives are made in this run of the tests; "copies" is a team that copies
/// whatever it can.
inline std::string way() { return asked_way() == "copies" ? "team" : asked_way(); }

/// How many GPUs the ranks use in this run of the tests.
inline int gpus() {
  const char* const asked = std::getenv("CCOLL_TEST_GPUS");
  static const int count = asked != nullptr ? std::atoi(asked) : 1;
  return count;
}
/// The ranks take GPUs in turn, shifted so that some neighbours share one.
inline int gpu_of(int rank) { return (rank + rank / gpus()) % gpus(); }

/// Makes the rank's GPU the current one, if there are several.
inline void use_gpu_of(int rank) {
  cuda_on_host_has(gpus());
  if (gpus() > 1) check_cuda(cudaSetDevice(gpu_of(rank)), "a device");
}

/// A stream of each of two ranks, whose GPU is current when it is used.
class TwoStreams {
 public:
  const OwnedStream& operator[](std::size_t rank) const { return rank == 0 ? first_ : second_; }

 private:
  static unsigned flags_on_gpu_of(int rank) {
    use_gpu_of(rank);
    return cudaStreamNonBlocking;
  }
  OwnedStream first_{flags_on_gpu_of(0)};
  OwnedStream second_{flags_on_gpu_of(1)};
};

/// Options with the rank's device and the requested way.
inline CommunicatorOptions on_device(CommunicatorOptions options = options_for(""), int rank = 0) {
  options.device.ordinal = gpu_of(rank);
  options.device.way = *parse_device_way(way());
  if (asked_way() == "copies") options.device.copies = DeviceCopies::always;
  return options;
}

/// Empty if it has none, or was closed.
inline std::string error_of(const Communicator& c) {
  try {
    return c.error();
  } catch (const Error&) {
    return "";
  }
}

/// Runs ranks as threads; those that `has_device` selects have the device. The body also gets a
/// second communicator of the same ranks, which makes calls on the host.
inline std::vector<std::string> run_on_devices_and_host(
    int size, const std::function<void(Communicator&, Communicator&)>& body,
    const CommunicatorOptions& options, const std::function<bool(int)>& has_device) {
  const auto store = make_inproc_store();
  use_gpu_of(0);
  return run_threads(size, [&](int rank) {
    auto host = Communicator::create(make_prefix_store(store, "host"), rank, size, options);
    if (gpus() > 1 && has_device(rank)) check_cuda(cudaSetDevice(gpu_of(rank)), "a device");
    auto communicator = Communicator::create(
        make_prefix_store(store, "devices"), rank, size,
        has_device(rank) ? on_device(options, rank) : [&] {
          auto mine = options;
          mine.device.way = *parse_device_way(way());
          return mine;
        }());
    try {
      body(communicator, host);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      // A call in a stream tells nobody that it failed: its output is only not what was wanted.
      const auto failure = error_of(communicator);
      if (failure.empty()) throw;
      throw std::runtime_error(std::string(error.what()) + "; " + failure);
    }
  });
}

inline std::vector<std::string> run_on_devices(
    int size, const std::function<void(Communicator&)>& body,
    const CommunicatorOptions& options = options_for(""),
    const std::function<bool(int)>& has_device = [](int) { return true; }) {
  return run_on_devices_and_host(
      size, [&](Communicator& communicator, Communicator&) { body(communicator); }, options,
      has_device);
}

inline void check_all_well(const std::vector<std::string>& errors) {
  CHECK(errors == std::vector<std::string>(errors.size()));
}

/// The GPUs of run_on_gpus().
inline constexpr int kGpus = 20;

/// Ranks as threads; each has the given GPU, which is its current one.
inline std::vector<std::string> run_on_gpus(const std::vector<int>& gpu_of_rank,
                                            const std::function<void(Communicator&)>& body,
                                            DeviceWay way = DeviceWay::automatic,
                                            DeviceCopies copies = DeviceCopies::by_size) {
  cuda_on_host_has(kGpus);
  const auto store = make_inproc_store();
  const auto size = static_cast<int>(gpu_of_rank.size());
  return run_threads(size, [&](int rank) {
    auto options = options_for("");
    options.device.ordinal = gpu_of_rank[static_cast<std::size_t>(rank)];
    options.device.way = way;
    options.device.copies = copies;
    check_cuda(cudaSetDevice(options.device.ordinal), "a device");
    auto communicator = Communicator::create(store, rank, size, options);
    body(communicator);
  });
}

/// Waits until it has an error.
inline void wait_for_error(const Communicator& c) {
  static_cast<void>(eventually([&] { return !c.error().empty(); }));
}

inline Values ramp(std::size_t count, int from) {
  Values values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

/// The way in which a communicator's collectives are made.
inline std::string way_of(const Communicator& c) {
  const auto explained = c.explain("all_reduce", 1000, kType);
  const std::string before = "made by GPUs, by ";
  if (!explained.starts_with(before)) return "host";
  return explained.substr(before.size(), explained.find(' ', before.size()) - before.size());
}

inline CallOptions in(cudaStream_t stream) {
  CallOptions options;
  options.stream = stream;
  return options;
}

/// Acts like a long kernel of the caller's, for at most 5 s.
inline void hold_until(std::atomic<bool>& may_go, cudaStream_t stream) {
  const auto wait = [](void* go) {
    static_cast<void>(eventually([&] { return static_cast<std::atomic<bool>*>(go)->load(); },
                                 std::chrono::seconds(5)));
  };
  check_cuda(cudaLaunchHostFunc(stream, wait, &may_go), "a host function");
}

/// Whether the current device's stream finishes within the limit.
inline bool ends_within(std::chrono::milliseconds limit, cudaStream_t stream) {
  cudaEvent_t end = nullptr;
  check_cuda(cudaEventCreateWithFlags(&end, cudaEventDisableTiming), "an event");
  check_cuda(cudaEventRecord(end, stream), "recording an event");
  const auto deadline = std::chrono::steady_clock::now() + limit;
  auto error = cudaErrorNotReady;
  while (error == cudaErrorNotReady && std::chrono::steady_clock::now() < deadline)
    error = cudaEventQuery(end);
  check_cuda(cudaEventDestroy(end), "an event");
  return error == cudaSuccess;
}

struct Collective {
  Kind kind;
  std::size_t count;
  int root;
  Reduction op = ReduceOp::sum;
  DataType type = kType;

  std::size_t elems(bool input, int size) const {
    const bool many = input ? kind == Kind::reduce_scatter || kind == Kind::scatter
                            : kind == Kind::all_gather || kind == Kind::gather;
    return many || kind == Kind::all_to_all ? count * static_cast<std::size_t>(size) : count;
  }
  /// `async`: the form that returns a Work.
  std::optional<Work> make_on(Communicator& c, const ConstBlock& input, const Block& output,
                              const CallOptions& options, bool async) const;
  /// The same on memory without gaps.
  std::optional<Work> make(Communicator& communicator, const void* input, void* output,
                           const CallOptions& options, bool async) const {
    const ConstBlock from(input, elems(true, communicator.size()), type);
    return make_on(communicator, from, Block(output, elems(false, communicator.size()), type),
                   options, async);
  }
  /// Uses a type other than kType; returns when the call does.
  void make_of(DataType type, Communicator& communicator, const void* input, void* output,
               const CallOptions& options) const {
    auto other = *this;
    other.type = type;
    other.make(communicator, input, output, options, false);
  }
};

inline std::optional<Work> Collective::make_on(Communicator& c, const ConstBlock& input,
                                               const Block& output, const CallOptions& options,
                                               bool async) const {
  switch (kind) {
    case Kind::all_reduce:
      if (async) return c.all_reduce_async(input, output, op, options);
      c.all_reduce(input, output, op, options);
      break;
    case Kind::reduce:
      if (async) return c.reduce_async(input, output, op, root, options);
      c.reduce(input, output, op, root, options);
      break;
    case Kind::broadcast:
      if (async) return c.broadcast_async(input, output, root, options);
      c.broadcast(input, output, root, options);
      break;
    case Kind::all_gather:
      if (async) return c.all_gather_async(input, output, options);
      c.all_gather(input, output, options);
      break;
    case Kind::reduce_scatter:
      if (async) return c.reduce_scatter_async(input, output, op, options);
      c.reduce_scatter(input, output, op, options);
      break;
    case Kind::all_to_all:
      if (async) return c.all_to_all_async(input, output, options);
      c.all_to_all(input, output, options);
      break;
    case Kind::gather:
      if (async) return c.gather_async(input, output, root, options);
      c.gather(input, output, root, options);
      break;
    case Kind::scatter:
      if (async) return c.scatter_async(input, output, root, options);
      c.scatter(input, output, root, options);
      break;
    case Kind::barrier:
      if (async) return c.barrier_async(options);
      c.barrier(options);
      break;
  }
  return std::nullopt;
}

constexpr Kind kKinds[] = {Kind::all_reduce,     Kind::reduce,     Kind::broadcast,
                           Kind::all_gather,     Kind::all_to_all, Kind::gather,
                           Kind::reduce_scatter, Kind::scatter,    Kind::barrier};

}  // namespace ccoll::testing

// SPDX-License-Identifier: Apache-2.0
// nccl.h over GPUs that the host plays: several streams, graphs and the null stream.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "nccl/nccl.h"
#include "support/gpu/cuda_on_host.hpp"

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCount = 1000;

void ok(ncclResult_t result) {
  INFO(ncclGetLastError(nullptr));
  REQUIRE(result == ncclSuccess);
}
void ok(cudaError_t error) { REQUIRE(error == cudaSuccess); }

/// All ranks in this thread, on that many GPUs. Each rank has an input filled with its number plus
/// 1, an output and two streams.
class Job {
 public:
  explicit Job(int ranks, int gpus = 1, bool blocking = true)
      : comms(static_cast<std::size_t>(ranks)) {
    cuda_on_host_has(gpus);
    for (int i = 0; i < ranks; i++) devices.push_back(i % gpus);
    if (blocking)
      ok(ncclCommInitAll(comms.data(), ranks, devices.data()));
    else
      make_polled();
    for (int i = 0; i < ranks; i++) {
      ok(cudaSetDevice(devices[static_cast<std::size_t>(i)]));
      const std::vector<float> values(kCount, static_cast<float>(i + 1));
      inputs.push_back(memory());
      outputs.push_back(memory());
      ok(cudaMemcpy(inputs.back(), values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
      streams.push_back(stream());
      others.push_back(stream());
    }
    ok(cudaSetDevice(0));
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    for (auto* const comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
    for (auto* const each : {&inputs, &outputs})
      for (auto* const one : *each) CHECK(cudaFree(one) == cudaSuccess);
    for (auto* const each : {&streams, &others})
      for (auto* const one : *each) CHECK(cudaStreamDestroy(one) == cudaSuccess);
  }

  /// Calls `call` with each rank's number, in a group.
  template <typename Call>
  void together(Call&& call) {
    ok(ncclGroupStart());
    for (std::size_t i = 0; i < comms.size(); i++) call(i);
    ok(ncclGroupEnd());
  }
  void sum(std::vector<float*>& from, std::vector<cudaStream_t>& in) {
    together([&](std::size_t i) {
      ok(ncclAllReduce(from[i], outputs[i], kCount, ncclFloat, ncclSum, comms[i], in[i]));
    });
  }
  void finish() {
    for (auto* const each : {&streams, &others})
      for (auto* const one : *each) ok(cudaStreamSynchronize(one));
  }
  /// Whether every element of every output has that value once the streams are done.
  bool holds(float value) {
    finish();
    return holds_already(value);
  }
  /// The same, without waiting for a stream.
  bool holds_already(float value) const {
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < outputs.size(); i++) {
      ok(cudaMemcpy(values.data(), outputs[i], kCount * sizeof(float), cudaMemcpyDeviceToHost));
      const auto wrong = std::ranges::find_if(values, [&](float each) { return each != value; });
      if (wrong == values.end()) continue;
      UNSCOPED_INFO("element " << wrong - values.begin() << " of rank " << i << " is " << *wrong
                               << ", not " << value);
      return false;
    }
    return true;
  }
  float total() const { return static_cast<float>(comms.size() * (comms.size() + 1)) / 2; }

  /// Makes the rank's device current, as for making events in its streams.
  void use_device_of(std::size_t rank) { ok(cudaSetDevice(devices[rank])); }

  std::vector<ncclComm_t> comms;
  std::vector<int> devices;
  std::vector<float*> inputs, outputs;
  std::vector<cudaStream_t> streams, others;

  ncclResult_t state(std::size_t rank) const {
    ncclResult_t state = ncclSuccess;
    ok(ncclCommGetAsyncError(comms[rank], &state));
    return state;
  }
  /// Waits until no rank makes progress any more.
  void settle() const {
    for (std::size_t i = 0; i < comms.size(); i++) {
      while (state(i) == ncclInProgress) std::this_thread::sleep_for(1ms);
      REQUIRE(state(i) == ncclSuccess);
    }
  }

 private:
  void make_polled() {
    ncclUniqueId id;
    ok(ncclGetUniqueId(&id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ok(ncclGroupStart());
    for (std::size_t i = 0; i < comms.size(); i++) {
      use_device_of(i);
      const auto size = static_cast<int>(comms.size());
      const auto code = ncclCommInitRankConfig(&comms[i], size, id, static_cast<int>(i), &config);
      REQUIRE((code == ncclSuccess || code == ncclInProgress));
    }
    REQUIRE(ncclGroupEnd() == ncclInProgress);
    settle();
  }
  static float* memory() {
    void* made = nullptr;
    ok(cudaMalloc(&made, kCount * sizeof(float)));
    return static_cast<float*>(made);
  }
  static cudaStream_t stream() {
    cudaStream_t made = nullptr;
    ok(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, 0));
    return made;
  }
};

/// Blocks streams until it is opened.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void put(cudaStream_t stream) {
    ok(cudaLaunchHostFunc(
        stream, [](void* gate) { static_cast<Gate*>(gate)->is_open_.wait(false); }, this));
  }
  ~Gate() { open(); }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }

 private:
  std::atomic<bool> is_open_ = false;
};

bool is_done(cudaEvent_t event) { return cudaEventQuery(event) == cudaSuccess; }

struct Layout {
  int ranks, gpus;
};
constexpr Layout kLayouts[] = {{1, 1}, {2, 1}, {4, 1}, {2, 2}, {3, 3}};

}  // namespace

TEST_CASE("nccl devices: collectives, messages and factors in streams", "[faces]") {
  for (const auto layout : kLayouts) {
    CAPTURE(layout.ranks, layout.gpus);
    Job job(layout.ranks, layout.gpus);
    const auto n = job.comms.size();
    job.sum(job.inputs, job.streams);
    CHECK(job.holds(job.total()));
    int current = -1;
    ok(cudaGetDevice(&current));
    CHECK(current == 0);

    // A ring of messages, then the sum of the received data.
    job.together([&](std::size_t i) {
      ok(ncclSend(job.inputs[i], kCount, ncclFloat, static_cast<int>((i + 1) % n), job.comms[i],
                  job.streams[i]));
      ok(ncclRecv(job.outputs[i], kCount, ncclFloat, static_cast<int>((i + n - 1) % n),
                  job.comms[i], job.streams[i]));
    });
    job.sum(job.outputs, job.streams);
    CHECK(job.holds(job.total()));
  }
}

TEST_CASE("nccl devices: the null stream is the one of the communicator's device", "[faces]") {
  for (const int ranks : {1, 3}) {
    Job job(ranks, ranks);
    job.together([&](std::size_t i) {
      ok(ncclAllReduce(job.inputs[i], job.outputs[i], kCount, ncclFloat, ncclMax, job.comms[i],
                       nullptr));
    });
    for (std::size_t i = 0; i < job.comms.size(); i++) {
      job.use_device_of(i);
      ok(cudaDeviceSynchronize());
    }
    job.use_device_of(0);
    CHECK(job.holds(static_cast<float>(ranks)));
  }
}

TEST_CASE("nccl devices: calls of one communicator are in order over several streams", "[faces]") {
  for (const auto layout : kLayouts) {
    CAPTURE(layout.ranks, layout.gpus);
    Job job(layout.ranks, layout.gpus);
    Gate gate;
    for (std::size_t i = 0; i < job.comms.size(); i++) {
      job.use_device_of(i);
      gate.put(job.streams[i]);
    }
    job.use_device_of(0);
    job.sum(job.inputs, job.streams);
    // The second call reads the first one's output, in another stream.
    job.sum(job.outputs, job.others);
    std::vector<cudaEvent_t> behind(job.comms.size());
    for (std::size_t i = 0; i < behind.size(); i++) {
      job.use_device_of(i);
      ok(cudaEventCreateWithFlags(&behind[i], cudaEventDisableTiming));
      ok(cudaEventRecord(behind[i], job.others[i]));
    }
    job.use_device_of(0);
    std::this_thread::sleep_for(50ms);
    for (auto* const event : behind) CHECK_FALSE(is_done(event));
    gate.open();
    CHECK(job.holds(job.total() * static_cast<float>(layout.ranks)));
    for (auto* const event : behind) ok(cudaEventDestroy(event));
  }
}

TEST_CASE("nccl devices: each of a group's streams waits for the group's calls", "[faces]") {
  Job job(2);
  job.together([&](std::size_t i) {
    const auto half = kCount / 2;
    ok(ncclAllReduce(job.inputs[i], job.outputs[i], half, ncclFloat, ncclSum, job.comms[i],
                     job.streams[i]));
    ok(ncclAllReduce(job.inputs[i] + half, job.outputs[i] + half, half, ncclFloat, ncclSum,
                     job.comms[i], job.others[i]));
  });
  // One stream comes behind both halves.
  for (auto* const stream : job.others) ok(cudaStreamSynchronize(stream));
  CHECK(job.holds(job.total()));
}

namespace {

/// A factor for each rank, in memory of its GPU.
class Factors {
 public:
  explicit Factors(Job& job) {
    for (std::size_t i = 0; i < job.comms.size(); i++) {
      job.use_device_of(i);
      void* place = nullptr;
      ok(cudaMalloc(&place, sizeof(float)));
      places_.push_back(static_cast<float*>(place));
    }
    job.use_device_of(0);
    // It is complete on return, while cudaMemset may not be.
    write(0);
  }
  Factors(const Factors&) = delete;
  Factors& operator=(const Factors&) = delete;
  ~Factors() {
    for (auto* const place : places_) CHECK(cudaFree(place) == cudaSuccess);
  }
  float* of(std::size_t rank) const { return places_[rank]; }
  void write(float value) const {
    for (auto* const place : places_)
      ok(cudaMemcpy(place, &value, sizeof value, cudaMemcpyHostToDevice));
  }
  void sum(Job& job) const {
    job.together([&](std::size_t i) {
      ncclRedOp_t op{};
      ok(ncclRedOpCreatePreMulSum(&op, of(i), ncclFloat, ncclScalarDevice, job.comms[i]));
      ok(ncclAllReduce(job.inputs[i], job.outputs[i], kCount, ncclFloat, op, job.comms[i],
                       job.streams[i]));
      ok(ncclRedOpDestroy(op, job.comms[i]));
    });
  }

 private:
  std::vector<float*> places_;
};

}  // namespace

TEST_CASE("nccl devices: a factor on the device is read when its stream comes to it", "[faces]") {
  for (const auto layout : kLayouts) {
    CAPTURE(layout.ranks, layout.gpus);
    Job job(layout.ranks, layout.gpus);
    const Factors factors(job);
    Gate gate;
    for (std::size_t i = 0; i < job.comms.size(); i++) {
      job.use_device_of(i);
      gate.put(job.streams[i]);
    }
    job.use_device_of(0);
    factors.sum(job);
    // It is written only at this point, before any stream reaches the call.
    factors.write(3);
    gate.open();
    CHECK(job.holds(3 * job.total()));
  }
}

TEST_CASE("nccl devices: calls of a graph run at each launch, plain ones beside them", "[faces]") {
  Job job(2);
  std::vector<cudaGraphExec_t> launched(2);
  for (auto* const stream : job.streams)
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  job.sum(job.inputs, job.streams);
  for (std::size_t i = 0; i < 2; i++) {
    cudaGraph_t graph = nullptr;
    ok(cudaStreamEndCapture(job.streams[i], &graph));
    ok(cudaGraphInstantiate(&launched[i], graph, 0));
    ok(cudaGraphDestroy(graph));
  }
  for (int round = 0; round < 3; round++) {
    for (auto* const output : job.outputs) ok(cudaMemset(output, 0, kCount * sizeof(float)));
    for (std::size_t i = 0; i < 2; i++) ok(cudaGraphLaunch(launched[i], job.streams[i]));
    CHECK(job.holds(3));
    job.sum(job.outputs, job.others);
    CHECK(job.holds(6));
  }
  for (auto* const graph : launched) ok(cudaGraphExecDestroy(graph));
}

TEST_CASE("nccl devices: a graph reads a factor on the device at each launch", "[faces]") {
  for (const auto layout : kLayouts) {
    CAPTURE(layout.ranks, layout.gpus);
    Job job(layout.ranks, layout.gpus);
    const Factors factors(job);
    std::vector<cudaGraphExec_t> launched(job.comms.size());
    for (auto* const stream : job.streams)
      ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    factors.sum(job);
    for (std::size_t i = 0; i < launched.size(); i++) {
      cudaGraph_t graph = nullptr;
      ok(cudaStreamEndCapture(job.streams[i], &graph));
      ok(cudaGraphInstantiate(&launched[i], graph, 0));
      ok(cudaGraphDestroy(graph));
    }
    for (const float factor : {3.F, -0.5F, 0.F}) {
      factors.write(factor);
      for (std::size_t i = 0; i < launched.size(); i++)
        ok(cudaGraphLaunch(launched[i], job.streams[i]));
      CHECK(job.holds(factor * job.total()));
    }
    for (auto* const graph : launched) ok(cudaGraphExecDestroy(graph));
  }
}

TEST_CASE("nccl devices: a captured stream beside one that is not is refused", "[faces]") {
  Job job(1);
  ok(cudaStreamBeginCapture(job.streams[0], cudaStreamCaptureModeThreadLocal));
  ok(ncclGroupStart());
  for (auto* const stream : {job.streams[0], job.others[0]})
    ok(ncclAllReduce(job.inputs[0], job.outputs[0], kCount, ncclFloat, ncclSum, job.comms[0],
                     stream));
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(job.streams[0], &graph));
  ok(cudaGraphDestroy(graph));
  job.sum(job.inputs, job.streams);
  CHECK(job.holds(1));
}

TEST_CASE("nccl devices: finalising waits for what is in the streams", "[faces]") {
  Job job(2);
  for (auto* const stream : job.streams)
    ok(cudaLaunchHostFunc(
        stream, [](void*) { std::this_thread::sleep_for(50ms); }, nullptr));
  job.sum(job.inputs, job.streams);
  job.together([&](std::size_t i) { ok(ncclCommFinalize(job.comms[i])); });
  CHECK(job.holds_already(3));
}

TEST_CASE("nccl devices: finalising is in progress while a stream has calls", "[faces]") {
  Job job(2, 1, false);
  Gate gate;
  for (auto* const stream : job.streams) gate.put(stream);
  job.sum(job.inputs, job.streams);
  for (auto* const comm : job.comms) CHECK(ncclCommFinalize(comm) == ncclInProgress);
  std::this_thread::sleep_for(50ms);
  for (std::size_t i = 0; i < 2; i++) CHECK(job.state(i) == ncclInProgress);
  gate.open();
  job.settle();
  CHECK(job.holds_already(3));
}

TEST_CASE("nccl devices: destroying waits for what is in the streams", "[faces]") {
  Job job(2);
  Gate gate;
  for (auto* const stream : job.streams) gate.put(stream);
  job.sum(job.inputs, job.streams);
  std::atomic<int> destroyed = 0;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (auto* const comm : job.comms)
    threads.emplace_back([&destroyed, &failed, comm] {
      if (ncclCommDestroy(comm) != ncclSuccess) failed++;
      destroyed++;
    });
  std::this_thread::sleep_for(50ms);
  CHECK(destroyed == 0);
  gate.open();
  for (auto& thread : threads) thread.join();
  job.comms.clear();
  CHECK(failed == 0);
  CHECK(job.holds_already(3));
}

TEST_CASE("nccl devices: an abort ends a call that other ranks never make", "[faces]") {
  Job job(2);
  std::atomic<ncclResult_t> code = ncclInProgress;
  // Rank 0 alone would wait for ever; its stream continues when it is aborted.
  std::thread caller([&] {
    code = ncclAllReduce(job.inputs[0], job.outputs[0], kCount, ncclFloat, ncclSum, job.comms[0],
                         job.streams[0]);
  });
  std::this_thread::sleep_for(50ms);
  const auto begun = std::chrono::steady_clock::now();
  ok(ncclCommAbort(job.comms[0]));
  caller.join();
  ok(cudaStreamSynchronize(job.streams[0]));
  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  ok(ncclCommAbort(job.comms[1]));
  job.comms.clear();
}

TEST_CASE("nccl devices: memory that is given out or registered", "[faces]") {
  Job job(2);
  void* memory = nullptr;
  ok(ncclMemAlloc(&memory, kCount * sizeof(float)));
  REQUIRE(memory != nullptr);
  ok(ncclMemFree(memory));
  // Register with both communicators, twice each.
  std::vector<void*> handles(4);
  for (std::size_t i = 0; i < handles.size(); i++)
    ok(ncclCommRegister(job.comms[i % 2], job.inputs[0], kCount * sizeof(float), &handles[i]));
  job.sum(job.inputs, job.streams);
  CHECK(job.holds(3));
  for (std::size_t i = 0; i < handles.size(); i++)
    ok(ncclCommDeregister(job.comms[i % 2], handles[i]));
  CHECK(ncclCommDeregister(job.comms[0], job.inputs[0]) == ncclInvalidUsage);
}

// SPDX-License-Identifier: Apache-2.0

/// A GPU for who has none: as much of CUDA's runtime as ccoll calls, and its kernels, on the host.
/// Programs that are linked with this instead of CUDA run as they would on a device whose streams
/// come to anything in any order that events leave open: what is put into a stream is kept, and
/// taken from streams at random when somebody waits. Memory of the device is not zero at first.
/// CCOLL_WRONG_BITS=1: a bit in 200 kernels' outputs is wrong.

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "engine/device/team_kernel.hpp"
#include "kernels/device/combine.hpp"
#include "kernels/device/combine_kernel.hpp"
#include "read_kernel.hpp"
#include "support/team_on_host.hpp"

struct Item;

/// What a stream or a graph does in order.
using Queue = std::deque<Item>;
using Done = std::shared_ptr<std::atomic<bool>>;

/// In a graph, events are numbered, for each launch has its own.
struct Item {
  enum { work, record, wait } what = work;
  std::function<void()> run;
  Done done;
  std::size_t number = 0;
};

struct CUgraph_st {
  std::map<CUstream_st*, Queue> queues;
  std::size_t events = 0;
  std::size_t id = 0;
  bool ended = false;
};

struct CUstream_st {
  Queue queue;
  std::shared_ptr<CUgraph_st> capture;
};

struct CUevent_st {
  Done done = std::make_shared<std::atomic<bool>>(true);
  std::shared_ptr<CUgraph_st> capture;
  std::size_t number = 0;
};

struct CUgraphExec_st {
  CUgraph_st graph;
};

namespace {

using namespace ccoll;
using namespace ccoll::device;

std::recursive_mutex mu;
std::mt19937_64 chance{std::random_device{}()};
CUstream_st legacy;
std::set<CUstream_st*> streams{&legacy};
std::map<const CUgraph_st*, std::shared_ptr<CUgraph_st>> graphs;
std::size_t captures = 0;
std::atomic<std::size_t> kernels_run = 0;
std::atomic<int> kernels_running = 0;

char combine_kernels[4], team_kernels[4], reading;

CUstream_st* known(cudaStream_t stream) { return stream == nullptr ? &legacy : stream; }

/// Runs one item of one of the queues that can go on; false where there is none.
template <typename Queues, typename IsDone>
bool step(const Queues& queues, const IsDone& is_done) {
  std::vector<Queue*> ready;
  for (Queue* queue : queues) {
    if (!queue->empty() && (queue->front().what != Item::wait || is_done(queue->front()))) {
      ready.push_back(queue);
    }
  }
  if (ready.empty()) return false;
  Queue& queue = *ready[chance() % ready.size()];
  const Item item = std::move(queue.front());
  queue.pop_front();
  item.run();
  return true;
}

bool step_streams() {
  std::vector<Queue*> queues;
  for (CUstream_st* stream : streams) queues.push_back(&stream->queue);
  return step(queues, [](const Item& item) { return item.done->load(); });
}

void run_graph(const CUgraph_st& graph) {
  auto copies = graph.queues;
  auto done = std::make_shared<std::vector<char>>(graph.events, 0);
  std::vector<Queue*> queues;
  for (auto& [stream, queue] : copies) {
    for (Item& item : queue) {
      if (item.what == Item::record) item.run = [done, n = item.number] { (*done)[n] = 1; };
    }
    queues.push_back(&queue);
  }
  while (step(queues, [&](const Item& item) { return (*done)[item.number] != 0; })) {
  }
  for (const Queue* queue : queues) {
    if (!queue->empty()) std::abort();  // a graph that waits for itself
  }
}

cudaError_t drain(const std::function<bool()>& until) {
  while (!until()) {
    if (step_streams()) continue;
    // Nothing can go on but what a kernel that runs may let go on.
    if (kernels_running == 0 && !step_streams()) {
      return until() ? cudaSuccess : cudaErrorLaunchTimeout;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return cudaSuccess;
}

cudaError_t put(cudaStream_t to, std::function<void()> run) {
  CUstream_st* const stream = known(to);
  Item item;
  item.run = std::move(run);
  Queue& queue = stream->capture ? stream->capture->queues[stream] : stream->queue;
  queue.push_back(std::move(item));
  return cudaSuccess;
}

void maybe_spoil(std::byte* out, std::uint64_t bytes) {
  static const bool spoils = std::getenv("CCOLL_WRONG_BITS") != nullptr;
  if (spoils && bytes != 0 && ++kernels_run % 200 == 100) out[chance() % bytes] ^= std::byte{1};
}

void run_combine(const CombineArguments& arguments) {
  combine(LoneThread(), arguments.type, arguments.op,
          {arguments.sources, arguments.source_count, arguments.out, arguments.bytes,
           arguments.divisor});
  maybe_spoil(arguments.out, arguments.bytes);
}

bool is_capturing_any() {
  for (const CUstream_st* stream : streams) {
    if (stream->capture) return true;
  }
  return false;
}

thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;

/// What a capture of the global kind forbids.
bool is_forbidden() { return mode != cudaStreamCaptureModeRelaxed && is_capturing_any(); }

template <typename T>
cudaError_t allocate(T** memory, std::size_t bytes) {
  const std::lock_guard lock(mu);
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*memory, 0xcd, bytes);
  return cudaSuccess;
}

}  // namespace

namespace ccoll::device {

const void* combine_kernel_of_bits() { return &combine_kernels[0]; }
const void* combine_kernel_of_floats() { return &combine_kernels[1]; }
const void* combine_kernel_of_integers() { return &combine_kernels[2]; }
const void* combine_kernel_of_small_floats() { return &combine_kernels[3]; }
const void* team_kernel_of_bits() { return &team_kernels[0]; }
const void* team_kernel_of_floats() { return &team_kernels[1]; }
const void* team_kernel_of_integers() { return &team_kernels[2]; }
const void* team_kernel_of_small_floats() { return &team_kernels[3]; }

}  // namespace ccoll::device

namespace ccoll::gpu_check {

const void* read_kernel() { return &reading; }

}  // namespace ccoll::gpu_check

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  std::strcpy(properties->name, "a GPU on the host");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int /*device*/) {
  *value = which == cudaDevAttrMultiProcessorCount ? 16 : 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(mu);
  return drain([] {
    for (const CUstream_st* stream : streams) {
      if (!stream->queue.empty()) return false;
    }
    return true;
  });
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t /*error*/) { return "an error of the host's GPU"; }
const char* cudaGetErrorName(cudaError_t error) {
  static thread_local char name[32];
  std::snprintf(name, sizeof name, "%d", static_cast<int>(error));
  return name;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return allocate(memory, bytes); }
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  return allocate(memory, bytes);
}
cudaError_t cudaFree(void* memory) {
  cudaDeviceSynchronize();
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaHostGetDevicePointer(void** there, void* here, unsigned /*flags*/) {
  *there = here;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const std::lock_guard lock(mu);
  if (kind == cudaMemcpyHostToDevice) {
    // Of pageable memory: read before the call returns.
    const auto* const first = static_cast<const std::byte*>(from);
    return put(stream, [to, staged = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  }
  put(stream, [=] { std::memcpy(to, from, bytes); });
  // To pageable memory: written before the call returns.
  return kind == cudaMemcpyDeviceToHost ? cudaStreamSynchronize(stream) : cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(mu);
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  return put(stream, [=] { std::memset(memory, value, bytes); });
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  const std::lock_guard lock(mu);
  if (flags != cudaStreamNonBlocking) return cudaErrorNotSupported;
  streams.insert(*stream = new CUstream_st);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mu);
  cudaStreamSynchronize(stream);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(mu);
  if (known(stream)->capture) return cudaErrorStreamCaptureUnsupported;
  return drain([=] { return known(stream)->queue.empty(); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t to, cudaEvent_t event, unsigned /*flags*/) {
  const std::lock_guard lock(mu);
  CUstream_st* const stream = known(to);
  Item item;
  item.what = Item::wait;
  item.run = [] {};
  if (!event->capture) {
    // What is outside of a capture cannot be waited for in it.
    if (stream->capture) return cudaErrorStreamCaptureIsolation;
    item.done = event->done;
    stream->queue.push_back(std::move(item));
    return cudaSuccess;
  }
  if (event->capture->ended) return cudaErrorCapturedEvent;
  if (stream->capture && stream->capture != event->capture) return cudaErrorStreamCaptureMerge;
  stream->capture = event->capture;
  item.number = event->number;
  stream->capture->queues[stream].push_back(std::move(item));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t on) {
  const std::lock_guard lock(mu);
  CUstream_st* const stream = known(on);
  Item item;
  item.what = Item::record;
  event->capture = stream->capture;
  if (stream->capture) {
    event->number = item.number = stream->capture->events++;
    stream->capture->queues[stream].push_back(std::move(item));
    return cudaSuccess;
  }
  event->done = std::make_shared<std::atomic<bool>>(false);
  item.run = [done = event->done] { *done = true; };
  stream->queue.push_back(std::move(item));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mu);
  if (event->capture || is_forbidden()) return cudaErrorCapturedEvent;
  if (!*event->done) step_streams();
  return *event->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mu);
  return drain([=] { return event->done->load(); });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t /*begin*/, cudaEvent_t /*end*/) {
  *ms = 1;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* other) {
  std::swap(mode, *other);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const std::lock_guard lock(mu);
  if (stream == nullptr || stream->capture) return cudaErrorStreamCaptureUnsupported;
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->id = ++captures;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* /*graph*/,
                                     const cudaGraphNode_t** /*dependencies*/,
                                     const cudaGraphEdgeData** /*edges*/, std::size_t* /*count*/) {
  const std::lock_guard lock(mu);
  const auto& capture = known(stream)->capture;
  *status = capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (capture) *id = capture->id;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mu);
  const auto capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  capture->ended = true;
  for (CUstream_st* each : streams) {
    if (each->capture == capture) each->capture = nullptr;
  }
  *graph = capture.get();
  graphs[capture.get()] = capture;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *made = new CUgraphExec_st{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  return put(stream, [graph] { run_graph(graph->graph); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(mu);
  graphs.erase(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  *attributes = {};
  return cudaSuccess;
}
/// As if a block took 64 registers for each thread.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*kernel*/,
                                                          int threads, std::size_t /*shared*/) {
  *blocks = 1024 / threads;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 /*grid*/, dim3 /*block*/, void** arguments,
                             std::size_t /*shared*/, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  if (kernel == &reading) return put(stream, [] {});
  return put(stream,
             [call = *static_cast<const CombineArguments*>(arguments[0])] { run_combine(call); });
}
cudaError_t cudaLaunchCooperativeKernel(const void* /*kernel*/, dim3 grid, dim3 block,
                                        void** arguments, std::size_t shared, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  const TeamLaunch& call = *static_cast<const TeamLaunch*>(arguments[0]);
  if (grid.x != call.program.block_count || shared != 8 * call.program.shared_words() ||
      grid.x > 16 * 1024 / block.x) {
    return cudaErrorCooperativeLaunchTooLarge;
  }
  TeamLaunch patient = call;
  patient.spins_per_look = 1;  // each look lets other threads run first
  const auto kernel = [patient] {
    testing::run_on_host(patient, 1);
    maybe_spoil(patient.buffers[1], 1);
  };
  if (known(stream)->capture) return put(stream, kernel);
  // The host goes on meanwhile: such a kernel may end only when it is told to.
  Item ended;
  ended.what = Item::wait;
  ended.run = [] {};
  ended.done = std::make_shared<std::atomic<bool>>(false);
  put(stream, [kernel, done = ended.done] {
    ++kernels_running;
    std::thread([kernel, done] {
      kernel();
      *done = true;
      --kernels_running;
    }).detach();
  });
  known(stream)->queue.push_back(std::move(ended));
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* /*name*/, void** /*address*/,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* /*result*/) {
  return cudaErrorNotSupported;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* /*handle*/, void* /*memory*/) {
  return cudaErrorNotSupported;
}
cudaError_t cudaIpcOpenMemHandle(void** /*memory*/, cudaIpcMemHandle_t /*handle*/,
                                 unsigned /*flags*/) {
  return cudaErrorNotSupported;
}
cudaError_t cudaIpcCloseMemHandle(void* /*memory*/) { return cudaErrorNotSupported; }

}  // extern "C"

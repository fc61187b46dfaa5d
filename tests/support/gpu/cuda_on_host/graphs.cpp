// SPDX-License-Identifier: Apache-2.0

/// Captures of streams, and the graphs they become.

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "support/gpu/cuda_on_host/streams.hpp"

namespace ccoll::testing::cuda {

namespace {

auto& graphs = *new std::map<const CUgraph_st*, std::shared_ptr<CUgraph_st>>;
std::size_t captures = 0;
thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;

void begin_graph(const std::shared_ptr<const CUgraph_st>& graph, const Done& ended) {
  RunningGraph& begun = running.emplace_back(graph->queues, ended, graph);
  static std::size_t launches = 0;
  const bool is_stale = ++launches % 3 == 0 && has_fault("stale");
  std::vector<Done> events;
  for (std::size_t i = 0; i < graph->events; ++i) {
    events.push_back(std::make_shared<std::atomic<bool>>(false));
  }
  for (auto& [stream, queue] : begun.queues) {
    for (Item& item : queue) {
      if (item.what == Item::record) item.run = [done = events[item.number]] { *done = true; };
      if (item.what == Item::wait && !item.is_ready) item.done = events[item.number];
      if (item.moves_data && is_stale) item.run = [] {};
    }
  }
}

/// Whether everything in a capture's streams comes before the end of its origin stream.
bool is_joined(const CUgraph_st& graph) {
  std::map<std::size_t, std::pair<CUstream_st*, std::size_t>> records;  // by number, where each is
  for (const auto& [stream, queue] : graph.queues)
    for (std::size_t i = 0; i < queue.size(); ++i)
      if (queue[i].what == Item::record) records[queue[i].number] = {stream, i};
  // For each stream, how many of its items come before that end.
  std::map<CUstream_st*, std::size_t> before;
  const std::function<void(CUstream_st*, std::size_t)> mark = [&](CUstream_st* stream,
                                                                  std::size_t count) {
    std::size_t& marked = before[stream];
    while (marked < count) {
      const Item& item = graph.queues.at(stream)[marked++];
      if (item.what != Item::wait || item.is_ready || item.done) continue;
      const auto& [on, place] = records.at(item.number);
      mark(on, place + 1);
    }
  };
  const auto first = graph.queues.find(graph.origin);
  if (first != graph.queues.end()) mark(graph.origin, first->second.size());
  return std::ranges::all_of(graph.queues, [&](const auto& each) {
    const auto& [stream, queue] = each;
    // Trailing events need no join, because they do nothing.
    std::size_t count = queue.size();
    while (count > 0 && queue[count - 1].what == Item::record) --count;
    return before[stream] >= count;
  });
}

bool is_capturing_any() {
  for (const CUstream_st* stream : streams) {
    if (stream->capture) return true;
  }
  return false;
}

}  // namespace

bool is_forbidden() { return mode != cudaStreamCaptureModeRelaxed && is_capturing_any(); }

}  // namespace ccoll::testing::cuda

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* other) {
  std::swap(mode, *other);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (stream == nullptr || stream->capture) return cudaErrorStreamCaptureUnsupported;
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->id = ++captures;
  stream->capture->origin = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** /*dependencies*/,
                                     const cudaGraphEdgeData** /*edges*/, std::size_t* /*count*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  const auto is_in_its_way = [](auto* each) { return each->is_blocking && each->capture; };
  if (stream == nullptr && std::ranges::any_of(streams, is_in_its_way))
    return cudaErrorStreamCaptureImplicit;
  const auto& capture = known(stream)->capture;
  *status = capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (capture && id != nullptr) *id = capture->id;
  if (capture && graph != nullptr) *graph = capture.get();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mu);
  use_current_device();
  const auto capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (stream != capture->origin) return cudaErrorStreamCaptureUnmatched;
  capture->ended = true;
  for (CUstream_st* each : streams) {
    if (each->capture == capture) each->capture = nullptr;
  }
  *graph = nullptr;
  if (!is_joined(*capture)) return cudaErrorStreamCaptureUnjoined;
  *graph = capture.get();
  graphs[capture.get()] = capture;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *made = new CUgraphExec_st{std::make_shared<CUgraph_st>(*graph)};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  Item ended;
  ended.what = Item::wait;
  ended.run = [] {};
  ended.done = std::make_shared<std::atomic<bool>>(false);
  put(stream, [graph = graph->graph, done = ended.done] { begin_graph(graph, done); });
  known(stream)->queue.push_back(std::move(ended));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(mu);
  if (graph == nullptr) return cudaErrorInvalidValue;
  // Events recorded in it may still refer to it, but its objects are released.
  graph->objects.clear();
  graphs.erase(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0

/// Streams: their order, their progress, and the runtime's calls for them.

#include "support/gpu/cuda_on_host/streams.hpp"

#include <algorithm>
#include <utility>

#include "support/gpu/cuda_on_host/kernels.hpp"

namespace ccoll::testing::cuda {

namespace {

/// Each device has a default stream of its own.
CUstream_st* legacy_of(int device) {
  static auto& all = *new std::map<int, CUstream_st*>;  // guarded by mu
  CUstream_st*& stream = all[device];
  if (stream == nullptr) {
    streams.insert(stream = new CUstream_st);
    stream->device = device;
  }
  return stream;
}

std::vector<Queue*> all_queues() {
  std::vector<Queue*> queues;
  for (CUstream_st* stream : streams) queues.push_back(&stream->queue);
  for (RunningGraph& graph : running) {
    for (auto& [stream, queue] : graph.queues) queues.push_back(&queue);
  }
  return queues;
}

bool can_go_on(const Item& item) {
  return item.what != Item::wait || (item.is_ready ? item.is_ready() : item.done->load());
}

/// Whether a queue waits for a word that another process may write.
bool waits_for_word() {
  for (const Queue* queue : all_queues()) {
    if (!queue->empty() && queue->front().what == Item::wait && queue->front().is_ready) {
      return true;
    }
  }
  return false;
}

}  // namespace

CUstream_st* known(cudaStream_t stream) {
  return stream == nullptr ? legacy_of(current_device) : stream;
}

bool step_streams() {
  if (is_stalled) return false;
  std::vector<Queue*> ready;
  for (Queue* queue : all_queues()) {
    if (!queue->empty() && can_go_on(queue->front())) ready.push_back(queue);
  }
  if (ready.empty()) return false;
  Queue& queue = *ready[chance() % ready.size()];
  const Item item = std::move(queue.front());
  queue.pop_front();
  item.run();
  running.remove_if([](RunningGraph& graph) {
    for (const auto& [stream, queue] : graph.queues) {
      if (!queue.empty()) return false;
    }
    *graph.ended = true;
    return true;
  });
  return true;
}

cudaError_t drain(const std::function<bool()>& until) {
  while (!until()) {
    if (broken_by != cudaSuccess) return broken_by;
    if (step_streams()) continue;
    // Nothing here can make progress until a running kernel ends or a word is written.
    if (kernels_running == 0 && !is_stalled && !waits_for_word() && !step_streams()) {
      return until() ? cudaSuccess : cudaErrorLaunchTimeout;
    }
    mu.rest();
  }
  return cudaSuccess;
}

void put(cudaStream_t to, Item item) {
  CUstream_st* const stream = known(to);
  Queue& queue = stream->capture ? stream->capture->queues[stream] : stream->queue;
  queue.push_back(std::move(item));
}

cudaError_t put(cudaStream_t to, std::function<void()> run, bool moves_data) {
  Item item;
  item.run = std::move(run);
  item.moves_data = moves_data;
  put(to, std::move(item));
  return cudaSuccess;
}

cudaError_t put_data(cudaStream_t to, std::function<void()> run) {
  return put(to, std::move(run), true);
}

void put_never(cudaStream_t to, const Done& done) {
  Item item;
  item.what = Item::wait;
  item.run = [] {};
  item.done = done;
  put(to, std::move(item));
}

}  // namespace ccoll::testing::cuda

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  streams.insert(*stream = new CUstream_st);
  (*stream)->device = current_device;
  (*stream)->is_blocking = flags != cudaStreamNonBlocking;
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const std::lock_guard lock(mu);
  use_current_device();
  *device = known(stream)->device;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  cudaStreamSynchronize(stream);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (known(stream)->capture) return cudaErrorStreamCaptureUnsupported;
  return drain([=] { return known(stream)->queue.empty(); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t to, cudaEvent_t event, unsigned /*flags*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  CUstream_st* const stream = known(to);
  Item item;
  item.what = Item::wait;
  item.run = [] {};
  if (!event->capture) {
    // A capture cannot wait for work outside of it.
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

}  // extern "C"

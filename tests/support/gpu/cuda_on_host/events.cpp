// SPDX-License-Identifier: Apache-2.0

/// The runtime's calls for events.

#include <algorithm>

#include "support/gpu/cuda_on_host/streams.hpp"

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const std::lock_guard lock(mu);
  use_current_device();
  *event = new CUevent_st;
  (*event)->device = current_device;
  (*event)->has_time = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(mu);
  use_current_device();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t on) {
  const std::lock_guard lock(mu);
  use_current_device();
  CUstream_st* const stream = known(on);
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  Item item;
  item.what = Item::record;
  event->capture = stream->capture;
  if (stream->capture) {
    event->number = item.number = stream->capture->events++;
    stream->capture->queues[stream].push_back(std::move(item));
    return cudaSuccess;
  }
  event->recorded_in = stream;
  if (event->has_time) event->time_ms = ++stream->clock_ms;
  event->done = std::make_shared<std::atomic<bool>>(false);
  item.run = [done = event->done] { *done = true; };
  stream->queue.push_back(std::move(item));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (broken_by != cudaSuccess) return broken_by;
  if (event->capture || is_forbidden()) return cudaErrorCapturedEvent;
  for (std::size_t i = chance() % 8; !*event->done && step_streams() && i > 0; --i) {
  }
  return *event->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mu);
  use_current_device();
  return drain([=] { return event->done->load(); });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(mu);
  use_current_device();
  for (const CUevent_st* event : {begin, end})
    if (!event->has_time || event->capture || event->recorded_in == nullptr)
      return cudaErrorInvalidResourceHandle;
  if (!*begin->done || !*end->done) return cudaErrorNotReady;
  if (begin->recorded_in != end->recorded_in) return cudaErrorNotSupported;  // the clocks differ
  static int asked = 0;
  *ms = static_cast<float>(has_fault("drift") ? ++asked : end->time_ms - begin->time_ms);
  return cudaSuccess;
}

}  // extern "C"

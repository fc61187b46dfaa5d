// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/stream_hold.hpp"

#include "gpu/cuda/cuda.hpp"

namespace ccoll::device {
namespace {

thread_local bool in_listener = false;

void CUDART_CB on_reached(void* held) {
  const InListener here;
  auto& hold = *static_cast<StreamHold*>(held);
  hold.marks.parts_reached.store(1, std::memory_order_release);
  hold.marks.reached.store(true, std::memory_order_release);
  hold.listener->reached();
}

void CUDART_CB on_part_reached(void* held) {
  const InListener here;
  auto& hold = *static_cast<StreamHold*>(held);
  hold.marks.parts_reached.fetch_add(1, std::memory_order_release);
  hold.listener->part_reached();
}

void CUDART_CB on_passed(void* held) {
  const InListener here;
  auto* const hold = static_cast<StreamHold*>(held);
  const bool is_captured = hold->marks.is_captured;
  if (!is_captured) hold->marks.passed.store(true, std::memory_order_release);
  hold->listener->passed();
  if (!is_captured) delete hold;
}

void CUDART_CB drop(void* held) {
  const InListener here;
  delete static_cast<StreamHold*>(held);
}

}  // namespace

InListener::InListener() { in_listener = true; }
InListener::~InListener() { in_listener = false; }
bool is_in_listener() { return in_listener; }

Status give_to_graph(cudaStream_t stream, std::unique_ptr<StreamHold> hold) {
  constexpr const char* kWhat = "making a call's memory part of a graph";
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  CCOLL_TRY(cuda_status(cudaStreamGetCaptureInfo(stream, &status, &id, &graph), kWhat));
  cudaUserObject_t object = nullptr;
  CCOLL_TRY(cuda_status(
      cudaUserObjectCreate(&object, hold.get(), &drop, 1, cudaUserObjectNoDestructorSync), kWhat));
  (void)hold.release();
  const auto error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  if (error != cudaSuccess) cudaUserObjectRelease(object, 1);
  return cuda_status(error, kWhat);
}

Status tell_reached(cudaStream_t stream, StreamHold& hold) {
  return put_function(stream, &on_reached, &hold);
}

Status tell_part_reached(cudaStream_t stream, StreamHold& hold) {
  return put_function(stream, &on_part_reached, &hold);
}

Status tell_passed(cudaStream_t stream, StreamHold& hold) {
  return put_function(stream, &on_passed, &hold);
}

Status put_function(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return cuda_status(cudaLaunchHostFunc(stream, function, argument),
                     "putting a function of the host into a stream");
}

}  // namespace ccoll::device

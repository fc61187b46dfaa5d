// SPDX-License-Identifier: Apache-2.0

/// The calls of CUDA that torch makes beyond ccoll's, for the GPU of cuda_on_host. They suffice
/// for tensors that are made from the CPU's and copied back, streams, events and graphs; kernels of
/// torch's own do not run.

#include <cuda_runtime_api.h>

#include <cstddef>

extern "C" {

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = std::size_t{4} << 30;
  *total = std::size_t{8} << 30;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  cudaEvent_t end = nullptr;
  cudaEventCreateWithFlags(&end, cudaEventDisableTiming);
  cudaEventRecord(end, stream);
  const auto result = cudaEventQuery(end);
  cudaEventDestroy(end);
  return result;
}

cudaError_t cudaStreamGetPriority(cudaStream_t /*stream*/, int* priority) {
  *priority = 0;
  return cudaSuccess;
}

cudaError_t cudaPeekAtLastError() { return cudaSuccess; }

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned /*flags*/) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(made, graph, flags);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t /*graph*/, cudaGraphNode_t* /*nodes*/,
                              std::size_t* count) {
  *count = 1;
  return cudaSuccess;
}
}

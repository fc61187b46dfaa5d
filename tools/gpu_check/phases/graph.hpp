// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Helpers for CUDA's streams and graphs. CUDA's errors are thrown.

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "gpu/cuda/cuda.hpp"

namespace ccoll::gpu_check {

inline void check(cudaError_t error, std::string_view what) {
  value_or_throw(device::cuda_status(error, what));
}

/// Work put into `later` from here on comes after the present work of `earlier`.
inline void order(cudaStream_t earlier, cudaStream_t later) {
  if (earlier == later) return;
  const auto event = value_or_throw(device::make_event());
  check(cudaEventRecord(event.get(), earlier), "recording an event");
  check(cudaStreamWaitEvent(later, event.get(), 0), "a stream waiting for another");
}

class Graph {
 public:
  /// Captures the work of `body` in `streams`; the first begins and ends the capture.
  Graph(std::span<const cudaStream_t> streams, const std::function<void()>& body) {
    const cudaStream_t lead = streams[0];
    check(cudaStreamBeginCapture(lead, cudaStreamCaptureModeThreadLocal), "beginning a graph");
    for (const cudaStream_t other : streams) order(lead, other);
    body();
    for (const cudaStream_t other : streams) order(other, lead);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(lead, &graph), "ending a graph");
    cudaGraphExec_t made = nullptr;
    const auto error = cudaGraphInstantiate(&made, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "instantiating a graph");
    made_.reset(made);
  }

  /// Launches in the first of `streams`, after all their present work and before their later work.
  void launch(std::span<const cudaStream_t> streams) const {
    for (const cudaStream_t other : streams) order(other, streams[0]);
    check(cudaGraphLaunch(made_.get(), streams[0]), "launching a graph");
    for (const cudaStream_t other : streams) order(streams[0], other);
  }

 private:
  struct Destroy {
    void operator()(CUgraphExec_st* graph) const { cudaGraphExecDestroy(graph); }
  };
  std::unique_ptr<CUgraphExec_st, Destroy> made_;
};

}  // namespace ccoll::gpu_check

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What phases do with CUDA's streams and graphs. What CUDA refuses is thrown.

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "gpu/cuda/cuda.hpp"

namespace ccoll::gpu_check {

inline void check(cudaError_t error, std::string_view what) {
  value_or_throw(device::cuda_status(error, what));
}

/// What is put into `later` from here on comes after what `earlier` has.
inline void order(cudaStream_t earlier, cudaStream_t later) {
  if (earlier == later) return;
  const auto event = value_or_throw(device::make_event());
  check(cudaEventRecord(event.get(), earlier), "recording an event");
  check(cudaStreamWaitEvent(later, event.get(), 0), "a stream waiting for another");
}

class Graph {
 public:
  /// What `body` puts into `streams`, of which the first begins and ends it.
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

  /// In the first of `streams`, after what all of them have and before what comes later there.
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

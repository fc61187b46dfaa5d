// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The device's streams: queues of work, which callers' waits and the device's own threads take.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "support/gpu/cuda_on_host/device.hpp"

namespace ccoll::testing::cuda {

struct Item;

/// How often something has begun and ended: once per launch of a graph.
struct Runs {
  std::atomic<std::size_t> begun = 0, ended = 0;
};

/// The work of a stream or a graph, in order.
using Queue = std::deque<Item>;
using Done = std::shared_ptr<std::atomic<bool>>;

/// Events in a graph have numbers, because each launch has its own events.
struct Item {
  enum { work, record, wait } what = work;
  std::function<void()> run;
  Done done;
  std::function<bool()> is_ready;  ///< set if the item waits for something other than an event
  std::size_t number = 0;
  bool moves_data = false;
};
}  // namespace ccoll::testing::cuda

struct CUgraph_st {
  std::map<CUstream_st*, ccoll::testing::cuda::Queue> queues;
  std::vector<std::shared_ptr<void>> objects;  ///< kept alive for the graph's makers
  std::size_t events = 0;
  std::size_t id = 0;
  CUstream_st* origin = nullptr;  ///< the stream where the capture began
  bool ended = false;
};

struct CUstream_st {
  int device = 0;
  ccoll::testing::cuda::Queue queue;
  std::shared_ptr<CUgraph_st> capture;
  bool is_blocking = false;  ///< used only for capturing
  int clock_ms = 0;          ///< the time of the last recorded event
};

struct CUevent_st {
  int device = 0;
  ccoll::testing::cuda::Done done = std::make_shared<std::atomic<bool>>(true);
  std::shared_ptr<CUgraph_st> capture;
  std::size_t number = 0;
  bool has_time = false;
  const CUstream_st* recorded_in = nullptr;  ///< null for events in captures; may dangle
  int time_ms = 0;
};

/// A launch keeps the parts it needs alive while it runs.
struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
};

namespace ccoll::testing::cuda {

/// Never destroyed, as the device's other state.
inline auto& streams = *new std::set<CUstream_st*>;

/// The stream that CUDA's handle stands for: null is the current device's default stream.
CUstream_st* known(cudaStream_t stream);

/// Runs one item of a queue that can make progress; false if there is none.
bool step_streams();

/// Runs streams until then, or until nothing here can make progress.
cudaError_t drain(const std::function<bool()>& until);

/// Adds to a stream, or to the graph that it captures.
void put(cudaStream_t to, Item item);
cudaError_t put(cudaStream_t to, std::function<void()> run, bool moves_data = false);
cudaError_t put_data(cudaStream_t to, std::function<void()> run);
/// Blocks the items behind it until `done` is set.
void put_never(cudaStream_t to, const Done& done);

/// Whether a capture of the global mode forbids the call.
bool is_forbidden();

/// A kernel or copy that hangs between peers ends once this is set.
inline Done peers_go_on = std::make_shared<std::atomic<bool>>(false);

/// Starts the device's own threads, which go on with streams and host functions by themselves.
void start_motor();
/// Host functions that streams have reached.
inline auto& host_functions = *new std::deque<std::function<void()>>;  // guarded by mu

/// A launched graph, whose queues make progress beside the streams.
struct RunningGraph {
  std::map<CUstream_st*, Queue> queues;
  Done ended;
  std::shared_ptr<const CUgraph_st> of;
};
inline auto& running = *new std::list<RunningGraph>;

}  // namespace ccoll::testing::cuda

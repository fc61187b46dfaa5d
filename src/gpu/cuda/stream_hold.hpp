// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A stream's, or a graph's, hold on a call, and the host functions by which the stream reports how
/// far it has come. Needs CUDA's headers: only sources include this.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <memory>

#include "core/result.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

/// How far a stream has come with a call.
struct StreamMarks {
  std::atomic<bool> reached{false};
  std::atomic<std::size_t> parts_reached{0};  ///< if captured, in the graph's present run
  std::atomic<bool> passed{false};            ///< never set if captured
  bool is_captured = false;
};

struct StreamHold {
  std::shared_ptr<void> stream_op;  ///< has the marks
  StreamMarks& marks;
  std::shared_ptr<StreamListener> listener;
};

/// Marks this thread, until the end of a scope, as one of CUDA's in a host function.
class InListener {
 public:
  InListener();
  InListener(const InListener&) = delete;
  InListener& operator=(const InListener&) = delete;
  ~InListener();
};
/// Whether this thread is one of CUDA's in a host function, where CUDA must not be called.
bool is_in_listener();

/// Gives the hold to the graph into which `stream` is captured, even if this fails.
Status give_to_graph(cudaStream_t stream, std::unique_ptr<StreamHold> hold);
/// The stream marks that it has reached the call, and calls the listener.
Status tell_reached(cudaStream_t stream, StreamHold& hold);
/// The same for a part of the call behind the first.
Status tell_part_reached(cudaStream_t stream, StreamHold& hold);
/// The same when it has passed the call; it then frees the hold if the call is not captured.
Status tell_passed(cudaStream_t stream, StreamHold& hold);
/// The stream calls `function` as part of a call. The function must make an InListener.
Status put_function(cudaStream_t stream, cudaHostFn_t function, void* argument);

}  // namespace ccoll::device

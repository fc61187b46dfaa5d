// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a stream, or a graph, holds of a call, and the functions of the host by which it tells how
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
  std::atomic<std::size_t> parts_reached{0};  ///< of one that is captured, since its graph runs
  std::atomic<bool> passed{false};            ///< of one that is captured never
  bool is_captured = false;
};

struct StreamHold {
  std::shared_ptr<void> stream_op;  ///< which has the marks
  StreamMarks& marks;
  std::shared_ptr<StreamListener> listener;
};

/// Says until the end of a scope that this thread is one of CUDA's, in a function of the host.
class InListener {
 public:
  InListener();
  InListener(const InListener&) = delete;
  InListener& operator=(const InListener&) = delete;
  ~InListener();
};
/// Whether this thread is one of CUDA's, in a function of the host, where nothing of CUDA may be
/// called.
bool is_in_listener();

/// The graph into which `stream` is captured has it from now on, also where this fails.
Status give_to_graph(cudaStream_t stream, std::unique_ptr<StreamHold> hold);
/// The stream marks that it has come to the call, and tells the listener.
Status tell_reached(cudaStream_t stream, StreamHold& hold);
/// The same of a part of the call behind the first.
Status tell_part_reached(cudaStream_t stream, StreamHold& hold);
/// The same when it has passed the call; of one that is not captured the hold goes with that.
Status tell_passed(cudaStream_t stream, StreamHold& hold);
/// The stream calls `function`, which says that it is InListener, as part of a call.
Status put_function(cudaStream_t stream, cudaHostFn_t function, void* argument);

}  // namespace ccoll::device

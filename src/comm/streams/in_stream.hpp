// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a collective stands in its stream, for the queue that it joins. Calls outside of streams
/// have none of it.

#include <memory>
#include <optional>

#include "ccoll/types.hpp"
#include "comm/call/call.hpp"
#include "gpu/way.hpp"

namespace ccoll {

struct StreamParts;

struct InStream {
  /// The stream step that the call waits for.
  std::shared_ptr<const device::StreamOp> gate = nullptr;
  /// For a call that is made in parts; its input and output are the first part's.
  std::shared_ptr<const StreamParts> parts = nullptr;
  /// For a call that devices make: their algorithm. The host runs a barrier beside it, under the
  /// call's signature.
  std::optional<Algorithm> on_device = std::nullopt;
  bool from_graph = false;  ///< from a graph that runs: precedes calls that streams hold back
};

struct StreamedCall {
  Call call;
  InStream in_stream;
};

}  // namespace ccoll

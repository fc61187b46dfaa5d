// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that the host makes. The stream copies the call's inputs to host memory, notifies the
/// host, waits for its release, copies the results to the device, and notifies the host again. No
/// thread blocks on the device meanwhile. The kind of call does not matter here.
///
/// A call of several parts has memory for two of them, used in turn: while the host makes one part,
/// the stream copies for its neighbours. (If the ring has no room for two, it has memory for one.)
///
/// Host memory is a ring of a fixed size. If the ring is full, a call waits for room in its stream,
/// not in its caller, until earlier calls have passed. So the ring serves only calls that end in
/// the order in which their operations were made. An operation that may end after later ones, such
/// as a message, takes a block of other memory. Separate memory, kept for reuse, serves a call that
/// finds no block there, exceeds the ring, or is captured and not a message. A message of any
/// length can do with less: its stream then copies it while it travels, piece by piece
/// (pieces.hpp).
///
/// Needs no CUDA headers. A build without CUDA has no staging.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "ccoll/memory.hpp"
#include "core/result.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

class Leases;

class Staging : public Way {
 public:
  virtual int device() const = 0;
  /// Host memory, and rooms, held at present, in bytes.
  virtual std::uint64_t held_bytes() const = 0;
  /// Whether a block has room for messages whose streams copy `bytes` bytes.
  virtual bool has_block(std::uint64_t bytes) const = 0;
  /// Whether copying the messages in pieces is better than copying them whole.
  virtual bool suits_pieces(const StreamOpRequest& request) const = 0;
  /// Memory of the device for a Packing, kept for reuse. Only one thread at a time may call it, or
  /// stream_op().
  virtual Result<std::shared_ptr<std::byte>> room(std::uint64_t bytes) = 0;
  /// Takes the ring if that has not happened yet; otherwise the first call that needs it does.
  virtual Status take_ring() = 0;
  /// The streams, events and memory of calls, for other ways of the same communicator.
  virtual std::shared_ptr<Leases> leases() = 0;
};

struct StagingOptions {
  int device = 0;
  std::uint32_t ranks = 1;       ///< of the communicator
  std::size_t bytes = 64 << 20;  ///< of the ring, of the blocks and of the pieces
  /// Allocates memory; may throw.
  std::function<Memory(std::size_t bytes)> allocate;
};

/// Makes a new one, or takes an idle one: CUDA gets memory back only when no staging of the process
/// is in use. `unsupported`, with CUDA's message, if there is no such device or this build has no
/// CUDA; `exhausted` if memory runs out.
Result<std::shared_ptr<Staging>> make_staging(StagingOptions options);

}  // namespace ccoll::device

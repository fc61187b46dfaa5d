// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The way of calls that the host makes: the stream copies what the call reads to memory of the
/// host, tells, waits until it is let go on, copies what the call has written to the device, and
/// tells again. Nobody waits for the device meanwhile. What the call is, this does not know.
///
/// A call of several parts has memory for two of them, which they take in turn: while the host
/// makes one, the stream copies for those beside it. (Where the ring has no room for two, for one.)
///
/// Memory of the host is a ring of a fixed size. A call that finds it full waits for room in its
/// stream, not in its caller, until calls before it have passed; so only calls that come to their
/// ends in the order in which their passages were made have a part in it. What may end after later
/// ones, as messages do, has a block of other memory; what finds none there, is larger than the
/// ring, or is captured and no message, has memory apart, which is kept for the next that needs
/// some. A message of any length can do with less: then its stream copies it while it travels,
/// piece by piece (pieces.hpp).
///
/// Without CUDA's headers; in a build without CUDA there is none to be had.

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
  /// Of the host's memory, what it has now.
  virtual std::uint64_t held_bytes() const = 0;
  /// Whether messages with so much for streams to copy would have a block.
  virtual bool has_block(std::uint64_t bytes) const = 0;
  /// Whether that is better than to copy its messages as a whole.
  virtual bool suits_pieces(const StreamOpRequest& request) const = 0;
  /// Takes the ring, if it is not there yet: else the first that needs some of it does.
  virtual Status take_ring() = 0;
  /// For other ways of the same communicator: what its calls have of streams, events and memory.
  virtual std::shared_ptr<Leases> leases() = 0;
};

struct StagingOptions {
  int device = 0;
  std::uint32_t ranks = 1;       ///< of the communicator
  std::size_t bytes = 64 << 20;  ///< of the ring, of blocks and of pieces
  /// Where memory comes from; it may throw.
  std::function<Memory(std::size_t bytes)> allocate;
};

/// One that is new, or that nobody uses any more: CUDA gets memory back only when none of the
/// process is in use. `unsupported` where there is no such device, in CUDA's words, or no CUDA in
/// this build; `exhausted`.
Result<std::shared_ptr<Staging>> make_staging(StagingOptions options);

}  // namespace ccoll::device

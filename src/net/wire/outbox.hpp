// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Frames on their way out over a Stream, in order, from those who do not wait for it. Knows
/// nothing of what they mean. Everything happens on the service thread.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/result.hpp"
#include "net/wire/stream.hpp"

namespace ccoll::net {

class Outbox {
 public:
  /// Where the connection breaks, or the peer leaves more than `most_bytes` unread, who reads
  /// `stream`, which outlives this, sees the end. `failed` is told when this process could not go
  /// on (memory ran out); what runs out in a call is thrown.
  Outbox(Stream& stream, std::size_t most_bytes, std::function<void(const Failure&)> failed);
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  /// What the socket takes is with the kernel when this returns, so that it gets out although the
  /// service may end with the handler under way.
  void send(std::string frame);
  /// No send will follow: what is queued still goes out, then the peer sees the end.
  void finish();
  /// Why nothing more can be sent, where reading does not tell; empty: nothing is wrong.
  const std::string& trouble() const;

 private:
  struct State;
  const std::shared_ptr<State>
      state_;  // shared with handlers of the socket, which may run after us
};

}  // namespace ccoll::net

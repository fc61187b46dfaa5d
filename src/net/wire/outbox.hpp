// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Frames on their way out over a Stream, in order, for senders that do not wait. It does not know
/// their meaning. All of it runs on the service thread.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/result.hpp"
#include "net/wire/stream.hpp"

namespace ccoll::net {

class Outbox {
 public:
  /// `stream` must outlive this. If the connection breaks, or the peer leaves more than
  /// `most_bytes` unread, the reader of `stream` sees the end. `failed` is called if this process
  /// cannot go on later (out of memory); inside a call such a failure is thrown.
  Outbox(Stream& stream, std::size_t most_bytes, std::function<void(const Failure&)> failed);
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  /// On return the kernel has the bytes that the socket takes. So they get out even if the service
  /// ends with the handler in progress.
  void send(std::string frame);
  /// No send will follow. The queue still goes out, then the peer sees the end.
  void finish();
  /// The reason why nothing more can be sent, if reading does not show it; empty: nothing is wrong.
  const std::string& trouble() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the socket's handlers, which may run after us
};

}  // namespace ccoll::net

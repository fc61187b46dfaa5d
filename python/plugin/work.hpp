// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Operations under way, as torch.distributed sees them.

#include <c10/util/SmallVector.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "streams.hpp"
#include "tensors.hpp"

namespace ccoll::plugin {

using Clock = std::chrono::steady_clock;
/// Nearly every call is one operation.
using Operations = c10::SmallVector<ccoll::Work, 1>;

/// An error as torch's programs expect it: a ValueError for a wrong argument, else a
/// DistBackendError.
std::exception_ptr as_torchs(const Error& error);
[[noreturn]] void throw_as_torchs(const Error& error);

/// Tensors of operations whose Work was dropped before they were over.
class Keeper {
 public:
  /// `in`: the call's place in streams, where it has one.
  void keep(Operations operations, Arguments arguments,
            std::shared_ptr<const StreamCall> in = nullptr);
  void sweep();
  void clear();

 private:
  struct Kept {
    Operations operations;
    Arguments arguments;
    std::shared_ptr<const StreamCall> in;

    bool is_over();
    /// Whether a stream may still use its tensors.
    bool is_in_use() { return in != nullptr && !is_over(); }
  };
  std::mutex mutex_;
  std::vector<Kept> kept_;
  std::atomic<bool> has_any_{false};
};

/// Threads of the library that are in functions of the plugin: they may want the GIL, so the
/// interpreter waits for them before it ends.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static bool is_ending();
  /// From now on nothing of torch's is touched any more. Waits until all others have left, 1 s at
  /// most.
  static void end();
};

/// How a Work came about.
struct Origin {
  int rank = 0;
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;  ///< what the profiler shows; null: nothing
  std::uint64_t sequence = 0;
  std::optional<Clock::time_point> begun = {};  ///< where durations are asked for
};

/// One or several operations of ccoll that torch takes for one. A call in a stream is over for its
/// program once the current stream waits for it: wait() then blocks the host only for a barrier
/// and up to a limit that it is given.
class Work final : public c10d::Work {
 public:
  static c10::intrusive_ptr<Work> make(const Origin& origin, Operations operations,
                                       Arguments arguments, std::shared_ptr<Keeper> keeper,
                                       std::shared_ptr<const StreamCall> in = nullptr);
  /// One for all of these, which have begun.
  static c10::intrusive_ptr<Work> of_all(const Origin& origin,
                                         std::vector<c10::intrusive_ptr<Work>> works,
                                         std::shared_ptr<Keeper> keeper);

  Work(const Origin& origin, Operations operations, Arguments arguments,
       std::shared_ptr<Keeper> keeper, std::shared_ptr<const StreamCall> in);
  ~Work() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // torch calls these three with the GIL, which the operation's end may want: they do not wait.
  int sourceRank() const override;
  std::vector<Tensor> result() override;
  void synchronize() override;
  void blockCurrentStream() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  float getDuration() const override;
  std::uint64_t getSequencenumber() const override { return origin_.sequence; }

 private:
  /// Polling changes nothing that others see.
  bool is_over() const { return const_cast<Work*>(this)->isCompleted(); }
  /// Once all operations are over: what follows from that, by whichever thread comes first.
  void settle();
  void await_operations(std::chrono::milliseconds timeout);
  bool waits_in_stream(std::chrono::milliseconds timeout) const;
  /// Whether the results are in their tensors, also where they are copied there.
  bool is_copied() const { return !in_ || !arguments_.has_copies() || in_->is_over(); }
  /// Blocks the host until they are there.
  void await_copies() const;
  /// The calls in streams that belong to it: its own, or its parts'.
  std::vector<const StreamCall*> stream_calls() const;
  void end_profile();
  /// Calls `tell` once all is over and settled, in a thread of the library that may wait.
  void when_over(std::function<void()> tell);

  const Origin origin_;
  Operations operations_;
  Arguments arguments_;
  std::shared_ptr<Keeper> keeper_;
  const std::shared_ptr<const StreamCall> in_;
  std::atomic<bool> is_ordered_{false};  ///< a stream of the program waits for it
  std::vector<c10::intrusive_ptr<Work>> parts_;
  std::atomic<bool> is_over_{false};
  bool is_late_ = false;  ///< its error is a time limit
  int source_ = -1;
  std::atomic<std::int64_t> duration_ns_{-1};
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace ccoll::plugin

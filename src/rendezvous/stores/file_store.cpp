// SPDX-License-Identifier: Apache-2.0
// A store in a file: each process keeps its own State and brings it up to date from the log. The
// states agree because they get the same requests in the same order; reads are answered from the
// state and leave no record. A waiting process looks at the file's size, ever less often.
#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include "rendezvous/stores/backend.hpp"
#include "rendezvous/stores/file_log.hpp"
#include "rendezvous/stores/state.hpp"

namespace ccoll {
namespace rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using Microseconds = std::chrono::microseconds;

/// No process holds the lock longer, unless it was stopped.
constexpr Milliseconds kLongestTurn{1000};

/// Pauses that grow from 100 µs to 20 ms and never outlast the deadline.
class Backoff {
 public:
  explicit Backoff(Clock::time_point deadline) : deadline_(deadline) {}
  /// False if no time or no patience is left.
  bool pause() {
    if (!Patience::of_thread().is_left()) return false;
    const auto rest = std::chrono::duration_cast<Microseconds>(deadline_ - Clock::now());
    if (rest <= Microseconds(0)) return false;
    std::this_thread::sleep_for(std::min(rest, pause_));
    pause_ = std::min(pause_ * 3 / 2, Microseconds(20'000));
    return true;
  }

 private:
  const Clock::time_point deadline_;
  Microseconds pause_{100};
};

class FileBackend final : public Backend {
 public:
  explicit FileBackend(const std::string& path) : path_(path), log_(path) {}
  Status open() { return log_.open(); }

  Result<Response> call(Request request, Milliseconds timeout) override {
    const auto deadline = deadline_after(timeout);
    Result<Response> response =
        request.op == Op::barrier ? barrier(request, deadline) : attempt_until(request, deadline);
    if (response || response.error().kind != ErrorKind::timed_out) return response;
    CCOLL_TRY(Patience::of_thread().is_left());
    response.error().message += fmt::format(" after {} (store in {})", seconds(timeout), path_);
    return response;
  }

 private:
  /// Holds the file's lock and mutex_. All records were read when it was made.
  class Turn {
   public:
    explicit Turn(FileBackend& owner) : owner_(&owner) {}
    ~Turn() {
      owner_->log_.unlock();
      owner_->mutex_.unlock();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    FileBackend* owner_;
  };

  Result<std::unique_ptr<Turn>> take_turn(Clock::time_point deadline) {
    // A caller whose time has just ended still gets a turn, because turns are short.
    Backoff backoff(std::max(deadline, Clock::now() + kLongestTurn));
    for (;;) {
      if (mutex_.try_lock()) {
        const auto locked = log_.try_lock();
        if (locked && *locked) break;
        mutex_.unlock();
        if (!locked) return tl::unexpected(locked.error());
      }
      if (!backoff.pause()) {
        return fail(ErrorKind::timed_out, "store: another process holds the file's lock");
      }
    }
    auto turn = std::make_unique<Turn>(*this);
    CCOLL_TRY(log_.read([this](std::string_view record) { return replay(record); }));
    return turn;
  }

  Status replay(std::string_view record) {
    auto request = decode_request(record);
    if (!request) {
      return fail(ErrorKind::corrupt, "the store file {} holds {}", path_, request.error().message);
    }
    if (request->content.op == Op::cancel) {
      state_.cancel(static_cast<State::Ticket>(request->content.number));
    } else {
      state_.submit(log_.offset(), std::move(request->content), keep_reply());
    }
    return {};
  }

  /// Keeps the answers that callers in this process wait for.
  State::Reply keep_reply() {
    return [this](State::Ticket ticket, Result<Response> response) {
      const auto found = awaited_.find(ticket);
      if (found != awaited_.end()) found->second = std::move(response);
    };
  }

  /// Records a request that the state has carried out. If that fails, the state starts anew.
  Status record(const Request& request) {
    const Status status = log_.append(encode(0, request));
    if (!status) {
      state_ = State();
      log_.rewind();
    }
    return status;
  }

  static bool changes_something(Op op, const Response& response) {
    switch (op) {
      case Op::set:
      case Op::add:
      case Op::append:
        return true;
      case Op::compare_set:
      case Op::remove:
        return response.number != 0;
      default:
        return false;
    }
  }

  /// Waits until the log is longer than `seen`; false if no time is left.
  Result<bool> wait_for_news(Backoff& backoff, std::uint64_t seen) {
    while (backoff.pause()) {
      const std::lock_guard lock(mutex_);
      const auto changed = log_.changed(seen);
      if (!changed || *changed) return changed;
    }
    return false;
  }

  Result<Response> attempt_until(const Request& request, Clock::time_point deadline) {
    Backoff backoff(deadline);
    for (bool in_time = true;;) {
      std::uint64_t seen = 0;
      {
        const auto turn = take_turn(deadline);
        if (!turn) return tl::unexpected(turn.error());
        Result<Response> response = attempt(request);
        const bool missing = !response && response.error().kind == ErrorKind::timed_out;
        if (!missing || !in_time) return response;
        seen = log_.offset();
      }
      const auto news = wait_for_news(backoff, seen);
      if (!news) return tl::unexpected(news.error());
      in_time = *news;
    }
  }

  /// Called during a turn. Fails with `timed_out` if the request would have to wait.
  Result<Response> attempt(const Request& request) {
    Result<Response> result = fail(ErrorKind::internal, "store: no answer");
    constexpr State::Ticket kNoRecord = ~State::Ticket{0};
    state_.submit(kNoRecord, request,
                  [&](State::Ticket, Result<Response> response) { result = std::move(response); });
    state_.cancel(kNoRecord);
    if (result && changes_something(request.op, *result)) CCOLL_TRY(record(request));
    return result;
  }

  Result<Response> barrier(const Request& request, Clock::time_point deadline) {
    State::Ticket ticket = 0;
    {
      const auto turn = take_turn(deadline);
      if (!turn) return tl::unexpected(turn.error());
      ticket = log_.offset();
      awaited_.emplace(ticket, std::nullopt);
      state_.submit(ticket, request, keep_reply());
      if (const Status status = record(request); !status) {
        awaited_.erase(ticket);
        return tl::unexpected(status.error());
      }
    }
    Result<Response> response = await(ticket, deadline);
    const std::lock_guard lock(mutex_);
    awaited_.erase(ticket);
    return response;
  }

  Result<Response> await(State::Ticket ticket, Clock::time_point deadline) {
    Backoff backoff(deadline);
    for (bool in_time = true;;) {
      std::uint64_t seen = 0;
      {
        const auto turn = take_turn(deadline);
        if (!turn) return tl::unexpected(turn.error());
        auto& answer = awaited_.at(ticket);
        if (!answer && !in_time) {
          // A caller that timed out must record that, or it would count for ever.
          state_.cancel(ticket);
          CCOLL_TRY(record(Request{Op::cancel, {}, {}, static_cast<std::int64_t>(ticket)}));
        }
        if (answer) return std::move(*answer);
        seen = log_.offset();
      }
      const auto news = wait_for_news(backoff, seen);
      if (!news) return tl::unexpected(news.error());
      in_time = *news;
    }
  }

  const std::string path_;
  std::mutex mutex_;
  FileLog log_;                                                       // guarded by mutex_
  State state_;                                                       // guarded by mutex_
  std::map<State::Ticket, std::optional<Result<Response>>> awaited_;  // guarded by mutex_
};

}  // namespace
}  // namespace rendezvous

std::shared_ptr<Store> make_file_store(const std::string& path) {
  auto backend = std::make_unique<rendezvous::FileBackend>(path);
  value_or_throw(backend->open());
  return rendezvous::make_store(std::move(backend));
}

}  // namespace ccoll

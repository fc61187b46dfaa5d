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
#include "system/locks.hpp"

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

bool changes_something(Op op, const Response& response) {
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

/// This process's State and its file. All but the file's lock is for who holds that.
struct Replica {
  explicit Replica(const std::string& its_path) : path(its_path), log(its_path) {}

  /// Applies all records that were not read yet.
  Status catch_up() {
    return log.read([this](std::string_view record) { return replay(record); });
  }
  Status replay(std::string_view record);
  /// Keeps the answers that callers in this process wait for.
  State::Reply keep_reply();
  /// Records a request that the state has carried out. If that fails, the state starts anew.
  Status record(const Request& request);
  /// Fails with `timed_out` if the request would have to wait.
  Result<Response> attempt(const Request& request);

  const std::string path;
  FileLog log;
  State state;
  std::map<State::Ticket, std::optional<Result<Response>>> awaited;
};

Status Replica::replay(std::string_view record) {
  auto request = decode_request(record);
  if (!request) {
    return fail(ErrorKind::corrupt, "the store file {} holds {}", path, request.error().message);
  }
  if (request->content.op == Op::cancel) {
    state.cancel(static_cast<State::Ticket>(request->content.number));
  } else {
    state.submit(log.offset(), std::move(request->content), keep_reply());
  }
  return {};
}

State::Reply Replica::keep_reply() {
  return [this](State::Ticket ticket, Result<Response> response) {
    const auto found = awaited.find(ticket);
    if (found != awaited.end()) found->second = std::move(response);
  };
}

Status Replica::record(const Request& request) {
  const Status status = log.append(encode(0, request));
  if (!status) {
    state = State();
    log.rewind();
  }
  return status;
}

Result<Response> Replica::attempt(const Request& request) {
  Result<Response> result = fail(ErrorKind::internal, "store: no answer");
  constexpr State::Ticket kNoRecord = ~State::Ticket{0};
  state.submit(kNoRecord, request,
               [&](State::Ticket, Result<Response> response) { result = std::move(response); });
  state.cancel(kNoRecord);
  if (result && changes_something(request.op, *result)) CCOLL_TRY(record(request));
  return result;
}

class FileBackend final : public Backend {
 public:
  explicit FileBackend(const std::string& path) : path_(path), replica_(path) {}
  Status open() { return replica_.lock()->log.open(); }

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
  /// Holds the file's lock and the replica's. All records were read when it was made.
  class Turn {
   public:
    explicit Turn(Guarded<Replica>::Locked locked) : locked_(std::move(locked)) {}
    ~Turn() { locked_->log.unlock(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    Replica& replica() const { return *locked_; }

   private:
    const Guarded<Replica>::Locked locked_;
  };

  Result<std::unique_ptr<Turn>> take_turn(Clock::time_point deadline) {
    // A caller whose time has just ended still gets a turn, because turns are short.
    Backoff backoff(std::max(deadline, Clock::now() + kLongestTurn));
    for (;;) {
      if (auto locked = replica_.try_lock()) {
        const auto is_mine = locked->log.try_lock();
        if (!is_mine) return tl::unexpected(is_mine.error());
        if (*is_mine) {
          auto turn = std::make_unique<Turn>(std::move(locked));
          CCOLL_TRY(turn->replica().catch_up());
          return turn;
        }
      }
      if (!backoff.pause()) {
        return fail(ErrorKind::timed_out, "store: another process holds the file's lock");
      }
    }
  }

  /// Waits until the log is longer than `seen`; false if no time is left.
  Result<bool> wait_for_news(Backoff& backoff, std::uint64_t seen) {
    while (backoff.pause()) {
      const auto changed = replica_.lock()->log.changed(seen);
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
        Replica& replica = (*turn)->replica();
        Result<Response> response = replica.attempt(request);
        const bool missing = !response && response.error().kind == ErrorKind::timed_out;
        if (!missing || !in_time) return response;
        seen = replica.log.offset();
      }
      const auto news = wait_for_news(backoff, seen);
      if (!news) return tl::unexpected(news.error());
      in_time = *news;
    }
  }

  Result<Response> barrier(const Request& request, Clock::time_point deadline) {
    State::Ticket ticket = 0;
    {
      const auto turn = take_turn(deadline);
      if (!turn) return tl::unexpected(turn.error());
      Replica& replica = (*turn)->replica();
      ticket = replica.log.offset();
      replica.awaited.emplace(ticket, std::nullopt);
      replica.state.submit(ticket, request, replica.keep_reply());
      if (const Status status = replica.record(request); !status) {
        replica.awaited.erase(ticket);
        return tl::unexpected(status.error());
      }
    }
    Result<Response> response = await(ticket, deadline);
    replica_.lock()->awaited.erase(ticket);
    return response;
  }

  Result<Response> await(State::Ticket ticket, Clock::time_point deadline) {
    Backoff backoff(deadline);
    for (bool in_time = true;;) {
      std::uint64_t seen = 0;
      {
        const auto turn = take_turn(deadline);
        if (!turn) return tl::unexpected(turn.error());
        Replica& replica = (*turn)->replica();
        auto& answer = replica.awaited.at(ticket);
        if (!answer && !in_time) {
          // A caller that timed out must record that, or it would count for ever.
          replica.state.cancel(ticket);
          CCOLL_TRY(replica.record(Request{Op::cancel, {}, {}, static_cast<std::int64_t>(ticket)}));
        }
        if (answer) return std::move(*answer);
        seen = replica.log.offset();
      }
      const auto news = wait_for_news(backoff, seen);
      if (!news) return tl::unexpected(news.error());
      in_time = *news;
    }
  }

  const std::string path_;
  Guarded<Replica> replica_;
};

}  // namespace
}  // namespace rendezvous

std::shared_ptr<Store> make_file_store(const std::string& path) {
  auto backend = std::make_unique<rendezvous::FileBackend>(path);
  value_or_throw(backend->open());
  return rendezvous::make_store(std::move(backend));
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "control/join.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <future>
#include <map>

#include "control/start_up_failure.hpp"
#include "control/state/progress.hpp"
#include "control/tree.hpp"
#include "control/word.hpp"
#include "core/deadline.hpp"
#include "core/patience.hpp"
#include "net/lack.hpp"
#include "net/pending_handshakes.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"

namespace ccoll::control {
namespace {

using std::chrono::milliseconds;

/// How long one request waits for the parent's key. Between two requests, this rank checks whether
/// others have given up.
constexpr milliseconds kKeyWait{2000};
/// The same if its patience may end early: a caller's own store knows nothing of that.
constexpr milliseconds kShortKeyWait{250};
/// How long after its deadline a rank still leaves the verdict to ranks nearer to the root, so that
/// one rank asks the store and not all.
constexpr milliseconds kVerdictGrace{2000};
/// Time limit for requests that the service thread answers without waiting.
constexpr milliseconds kServiceLimit{2000};
/// When rank 0 checks for the second time whether another process claims to be it.
constexpr milliseconds kSecondLook{500};
/// Time limits for reporting to the parent why this rank does not come; that takes the parent's
/// key.
constexpr milliseconds kKeyThere{200};
constexpr milliseconds kFarewell{1000};
constexpr milliseconds kShortFarewell{250};
/// Interval between checks whether awaited ranks have left word in the store.
constexpr milliseconds kLookForWords{1000};
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{250};

class Joining {
 public:
  Joining(std::shared_ptr<Hub> hub, const Control::Membership& membership, Store& store)
      : hub_(std::move(hub)), progress_(hub_->progress()), membership_(membership), store_(store) {}

  Status run() {
    const std::stop_callback ended(patience_.stop, [hub = hub_, why = told_to_end()] {
      Hub::run(hub, [why](Hub& self) { self.start_up().give_up(why); });
    });
    Status outcome = meet_all();
    if (outcome || hub_->is_forked()) return outcome;
    if (outcome.error().kind != ErrorKind::timed_out) tell_parent();
    // A rank that was told to end does not use the store, which may not answer.
    if (own_key_ && patience_.is_left())
      leave_word(store_, membership_.rank, this_start_.word(outcome.error(), hub_->row()),
                 own_key_);
    return outcome;
  }

 private:
  Status meet_all() {
    if (membership_.size > 1) CCOLL_TRY(announce());
    on_service([deadline = deadline_](Hub& hub) { hub.start_up().begin(deadline); });
    if (const Status status = membership_.rank == 0 ? watch_key() : reach_parent(); !status)
      return hub_->is_forked() ? status : give_up(status.error());
    if (const auto outcome = await_children()) return *outcome;
    Standing standing = look();
    if (membership_.rank != 0 && standing.parent_met) {
      if (const auto outcome = await_outcome(deadline_ + kVerdictGrace)) return *outcome;
      standing = look();
    }
    const Failure found = verdict(std::move(standing), membership_.timeout);
    CCOLL_TRY(not_in_child());
    return give_up(found);
  }

  /// Waits for the outcome or the deadline.
  std::optional<Status> await_children() {
    while (now() < deadline_) {
      if (auto outcome = await_outcome(std::min(deadline_, now() + kLookForWords))) return outcome;
      const Standing standing = look();
      if (const auto word = word_of(standing.unreported)) return give_up(*word);
      // Children and ring neighbours that have not come have no other way in.
      const bool awaits = !standing.unreported.empty() || !standing.unmet.empty();
      const auto lack = awaits ? net::lack_of_descriptors(net::kLackLimit) : std::nullopt;
      if (lack)
        return give_up({lack->kind,
                        fmt::format("start-up: rank {} {}", membership_.rank, lack->message),
                        membership_.rank});
      if (hub_->is_forked()) return not_in_child();
    }
    return std::nullopt;
  }

  /// The reason why one of `ranks` will not come, or has given up, if known.
  std::optional<Failure> word_of(const std::vector<std::uint32_t>& ranks) {
    if (!patience_.is_left()) return std::nullopt;
    try {
      for (const auto rank : ranks)
        if (const auto value = read_key(store_, rank, kKeyThere))
          if (auto why = heed(rank, *value)) return why;
    } catch (const std::exception&) {
      return std::nullopt;  // callers that need the store report its failure
    }
    return std::nullopt;
  }

  /// The reason why that rank has given up this start-up, if its key's value says so. A word that
  /// may be of an earlier start-up is kept for the verdict.
  std::optional<Failure> heed(std::uint32_t rank, std::string_view value) {
    doubtful_.erase(rank);
    auto word = decode_word(value, membership_.size);
    if (!word) return std::nullopt;
    if (this_start_.has(*word)) return std::move(word->why);
    doubtful_.emplace(rank, std::move(*word));
    return std::nullopt;
  }

  /// The failure: which ranks did not come within `waited`, and why, as far as that is known.
  Failure verdict(Standing standing, milliseconds waited) {
    standing.refusal = net::last_refusal(refused_before_).value_or("");
    for (const auto& [rank, word] : doubtful_)
      if (!word.row) standing.declined.push_back(rank);
    auto failure = judge(standing, waited, store_);
    for (const auto& [rank, word] : doubtful_)
      failure.message += fmt::format(
          "; rank {} did not complete this start-up or an earlier one: {}", rank, word.why.message);
    return failure;
  }

  template <typename Action>
  void on_service(Action action) {
    Hub::run(hub_, std::move(action));
  }

  /// The time left, but at least one millisecond: a request needs some.
  milliseconds remaining() const {
    const auto rest = std::chrono::duration_cast<milliseconds>(deadline_ - now());
    return std::max(rest, milliseconds(1));
  }

  Clock::time_point now() const { return membership_.now(); }

  using State = Progress::State;

  /// Waits for `is_over` or `until`; meanwhile reports missing ranks.
  void wait_until(Guarded<State>::Locked& reached, Clock::time_point until,
                  bool (State::*is_over)() const) {
    const auto rest = [&] { return std::min(until, report_at_) - now(); };
    while (!reached.wait_until(progress_.changed, deadline_after(rest()), std::mem_fn(is_over))) {
      if (now() >= until) return;
      reached.unlock();
      report_if_due();
      reached.lock();
    }
  }

  void report_if_due() {
    const auto time = now();
    if (time < report_at_) return;
    report_at_ = deadline_after(patience_.warn_after, time);
    // Not if the verdict is near.
    if (deadline_ - time <= patience_.first_warning() / 4) return;
    Standing standing = look();
    // Rank 0 knows best. Other ranks report only if they may have no path to it.
    if (membership_.rank != 0 && standing.parent_met) return;
    const auto waited = std::chrono::duration_cast<milliseconds>(time - began_);
    const auto found = verdict(std::move(standing), waited);
    if (patience_.is_left())
      log().warn("{}; rank {} keeps waiting", found.message, membership_.rank);
  }

  std::optional<Status> await_outcome(Clock::time_point until) {
    auto reached = progress_.state.lock();
    wait_until(reached, until, &State::is_decided);
    return reached->outcome;
  }

  Status announce() {
    const std::string key = key_of(membership_.rank), row = encode_key(hub_->row());
    try {
      if (membership_.rank != 0) {
        store_.set(key, row, remaining());
      } else if (!membership_.is_whole_job) {
        CCOLL_TRY(check_alone());
        store_.set(key, row, remaining());
      } else {
        // If two processes come at the same moment, one must see the other: ranks that have read
        // the key of one never hear of the other.
        std::optional<std::string> before;
        do {
          if (now() > deadline_)
            return fail(ErrorKind::timed_out, "start-up: the key '{}' of the store keeps changing",
                        key);
          before = read_key(store_, 0, remaining());
          CCOLL_TRY(not_in_child());
          if (before) CCOLL_TRY(ask(*before));
        } while (!store_.compare_set(key, before, row, remaining()));
      }
      own_key_ = row;
    } catch (const Error& error) {
      CCOLL_TRY(patience_.is_left());
      return fail(error.kind(), "start-up: the store did not take the address of rank {}: {}",
                  membership_.rank, error.what());
    } catch (const std::exception&) {
      return threw();
    }
    return not_in_child();
  }

  /// Fails if another process, in an unfinished start-up of its own, claims to be rank 0. For other
  /// ranks, their parent sees both.
  Status check_alone() {
    try {
      const auto there = read_key(store_, 0, remaining());
      CCOLL_TRY(not_in_child());
      return there ? ask(*there) : Status{};
    } catch (const std::exception&) {
      return {};  // it may be alone; callers that need the store report its failure
    }
  }

  /// Fails if the process that announced itself as rank 0, with that key, still claims it.
  Status ask(const std::string& key) {
    const auto row = decode_key(key);
    if (!row || row->address.process == membership_.address.process) return {};
    auto reached = progress_.state.lock();
    reached->attempt.reset();
    on_service([row = *row](Hub& hub) { hub.start_up().ask_claimant(row); });
    wait_until(reached, deadline_, &State::is_attempt_over);
    return reached->attempt.value_or(Status{});
  }

  /// The other may have come at the same moment; this costs nothing if all goes well.
  Status watch_key() {
    if (await_outcome(std::min(deadline_, now() + kSecondLook))) return {};
    return check_alone();
  }

  /// The failure for an exception of the store that is none of ccoll's errors.
  tl::unexpected<Failure> threw() const {
    const Failure thrown = failure_of(std::current_exception());
    return fail(thrown.kind, "start-up: the store of rank {} threw an exception: {}",
                membership_.rank, thrown.message);
  }

  /// Fails in a forked child: a caller's own store may fork and let its child return.
  Status not_in_child() const {
    if (!hub_->is_forked()) return {};
    return fail(ErrorKind::aborted,
                "start-up: the store has forked process {}, and this child cannot take part",
                ::getpid());
  }

  /// The parent's row; none if it has not come yet, or its key may be of an earlier start.
  Result<std::optional<Row>> read_parent() {
    const std::uint32_t parent = parent_of(membership_.rank);
    try {
      const auto wait = patience_.stop.stop_possible() ? kShortKeyWait : kKeyWait;
      const auto value = store_.get(key_of(parent), std::min(wait, remaining()));
      if (auto why = heed(parent, value)) return tl::unexpected(std::move(*why));
      if (const auto row = decode_key(value)) return parent_ = row;
      if (doubtful_.contains(parent)) return std::nullopt;
      return fail(
          ErrorKind::corrupt,
          "start-up: the store's key '{}' holds no address of this version of ccoll: do all "
          "ranks run the same build?",
          key_of(parent));
    } catch (const Error& error) {
      CCOLL_TRY(patience_.is_left());
      if (error.kind() == ErrorKind::timed_out) return std::nullopt;
      return fail(error.kind(), "start-up: the store failed while rank {} asked for rank {}: {}",
                  membership_.rank, parent, error.what());
    } catch (const std::exception&) {
      return threw();
    }
  }

  /// Returns with the connection, with the outcome, or at the deadline. The key is read again for
  /// every attempt: it may be an earlier job's, about to be overwritten. A parent listens before it
  /// announces itself, so if nobody listens, the attempt ends at once.
  Status reach_parent() {
    milliseconds pause = kFirstPause;
    net::Lack lack;
    auto look_at = now() + kLookForWords;
    while (now() < deadline_ && !await_outcome(now())) {
      report_if_due();
      if (now() >= look_at) {
        // The parent may have died. Rank 0 hears of that from the ranks that had met it.
        if (auto word = word_of({0})) return tl::unexpected<Failure>(std::move(*word));
        look_at = now() + kLookForWords;
      }
      const auto row = read_parent();
      CCOLL_TRY(not_in_child());
      if (!row) return tl::unexpected<Failure>(row.error());
      if (!*row && !doubtful_.contains(parent_of(membership_.rank))) continue;
      if (*row) {
        const auto status = attempt(**row);
        if (!status || *status) return {};
        if (lack.lasts(status->error(), now())) return *status;
      }
      await_outcome(std::min(deadline_, deadline_after(pause, now())));
      pause = std::min(2 * pause, kLongestPause);
    }
    return {};
  }

  /// Returns none if the outcome or the deadline came first.
  std::optional<Status> attempt(const Row& parent) {
    auto reached = progress_.state.lock();
    reached->attempt.reset();
    on_service([parent](Hub& hub) { hub.start_up().call_parent(parent); });
    wait_until(reached, deadline_, &State::is_attempt_over);
    return reached->attempt;
  }

  /// Reports to a parent that this rank has not met why it does not come. Otherwise the others
  /// would wait for it until their time limit.
  void tell_parent() {
    const bool decided = await_outcome(now()).has_value();
    if (membership_.rank == 0 || now() >= deadline_ || !decided || look().parent_met) return;
    try {
      // A rank that was told to end does not use the store, which may not answer.
      const auto parent =
          patience_.is_left()
              ? decode_key(store_.get(key_of(parent_of(membership_.rank)), kKeyThere))
              : parent_;
      if (!parent) return;
      auto reached = progress_.state.lock();
      reached->attempt.reset();
      on_service([row = *parent](Hub& hub) { hub.start_up().call_parent(row); });
      reached.wait_until(progress_.changed,
                         deadline_after(patience_.is_left() ? kFarewell : kShortFarewell),
                         [](const State& state) { return state.attempt.has_value(); });
    } catch (const std::exception&) {
      // The parent has not come, or the store has failed.
    }
  }

  Standing look() {
    auto answer = std::make_shared<std::promise<Standing>>();
    auto future = answer->get_future();
    on_service([answer](Hub& hub) { answer->set_value(hub.start_up().standing()); });
    if (future.wait_for(kServiceLimit) == std::future_status::ready) return future.get();
    Standing unknown;
    unknown.rank = membership_.rank;
    unknown.size = membership_.size;
    return unknown;
  }

  /// Tells everyone, unless the outcome is already known; returns the outcome.
  /// The failure of a start that this rank's stop token ends, as the other ranks see it.
  Failure told_to_end() const {
    const auto rank = membership_.rank;
    return {ErrorKind::aborted,
            fmt::format("start-up: the stop token of rank {} (start_stop) ended it", rank), rank};
  }

  Status give_up(const Failure& failure) {
    // A wait that the token ends may fail before the token's callback in run() is called.
    const auto why = patience_.is_left() ? failure : told_to_end();
    on_service([why](Hub& hub) { hub.start_up().give_up(why); });
    if (const auto outcome = await_outcome(now() + kServiceLimit)) return *outcome;
    return tl::unexpected<Failure>(why);
  }

  const std::shared_ptr<Hub> hub_;
  Progress& progress_;
  const Control::Membership& membership_;
  Store& store_;
  const Patience patience_ = Patience::of_thread();
  const Clock::time_point began_ = now();
  const std::uint64_t refused_before_ = net::refused_ccolls();
  const Clock::time_point deadline_ = deadline_after(membership_.timeout, began_);
  Clock::time_point report_at_ = patience_.warn_after.count() > 0
                                     ? deadline_after(patience_.first_warning(), began_)
                                     : Clock::time_point::max();
  const ThisStart this_start_{membership_.address.host, membership_.now};
  std::optional<std::string> own_key_;      ///< once the store has it
  std::optional<Row> parent_;               ///< as last read
  std::map<std::uint32_t, Word> doubtful_;  ///< by rank: words of this start-up or an earlier one
};

}  // namespace

Status join(const std::shared_ptr<Hub>& hub, const Control::Membership& membership, Store& store) {
  return Joining(hub, membership, store).run();
}

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "control/roll_call.hpp"

#include <algorithm>

namespace ccoll::control {
namespace {

/// Approximate size on a connection.
std::size_t bytes_of(const Answer& answer) {
  constexpr std::size_t kFields = 64;
  return kFields + answer.gone.size() * sizeof(std::uint32_t) + answer.why.message.size();
}

const Failure kNoWords{ErrorKind::aborted, {}, std::nullopt};

/// Whether that rank gave up this attempt, perhaps before it began a later one. An attempt that one
/// rank gave up is over for all, even if they come to it later.
bool ends(const Answer& answer, std::uint32_t attempt) {
  if (answer.why.message.empty()) return false;
  if (answer.state == Answer::State::gave_up) return answer.attempt >= attempt;
  return answer.state == Answer::State::counts && answer.attempt > attempt;
}

bool has_decided(const std::map<std::uint32_t, Answer>& answers, std::uint32_t rank) {
  const auto found = answers.find(rank);
  return found != answers.end() && found->second.state == Answer::State::decided;
}

}  // namespace

RollCalls::Known& RollCalls::known(const Key& key) {
  const auto [found, is_new] = calls_.try_emplace(key);
  if (is_new) {
    in_order_.push_back(key);
    if (closed_.contains(key.first)) say_closed(found->second, key);
  }
  return found->second;
}

void RollCalls::keep(Known& known, const Answer& answer) {
  auto& last = known.answers[answer.rank];
  const std::size_t before = last.said == 0 ? 0 : bytes_of(last);
  last = answer;
  known.bytes += bytes_of(last) - before;
  bytes_ += bytes_of(last) - before;
}

bool RollCalls::is_needed(const Key& key) const {
  const auto call = calls_.find(key);
  if (call->second.waiting) return true;
  if (!open_.contains(key.first)) return false;
  // Others may need this rank's decision until the communicator's next roll call.
  const auto next = std::next(call);
  const bool is_last =
      next == calls_.end() || next->first.first != key.first || is_without_some(next->first.second);
  return is_last || !has_decided(call->second.answers, self_);
}

void RollCalls::forget_oldest() {
  for (auto key = in_order_.begin(); bytes_ > max_bytes_ && key != in_order_.end();) {
    if (is_needed(*key)) {
      ++key;
      continue;
    }
    const auto call = calls_.find(*key);
    bytes_ -= call->second.bytes;
    calls_.erase(call);
    key = in_order_.erase(key);
  }
}

void RollCalls::begin(const RollCall& call, std::shared_ptr<Headcount> count) {
  auto& mine = known({call.communicator, call.number});
  mine.call = call;
  mine.waiting = std::move(count);
  waiting_.insert({call.communicator, call.number});
}

void RollCalls::give_up(const RollCall& call, const Failure& why) {
  const Key key{call.communicator, call.number};
  auto& mine = known(key);
  const auto& said = mine.answers[self_];
  const bool is_over = said.state == Answer::State::decided ||
                       said.state == Answer::State::closed ||
                       (said.state == Answer::State::gave_up && said.attempt >= call.attempt);
  if (!mine.waiting && is_over) return;
  mine.call = call;  // it may have failed before it could begin
  say(mine, key, Answer::State::gave_up, said.gone, why);
  end(mine, tl::unexpected(why));
}

void RollCalls::close(std::uint64_t communicator) {
  open_.erase(communicator);
  if (!closed_.add(communicator)) return;
  for (auto entry = calls_.lower_bound({communicator, 0});
       entry != calls_.end() && entry->first.first == communicator; ++entry)
    say_closed(entry->second, entry->first);
}

bool RollCalls::learn(const Answer& answer) {
  if (answer.rank == self_) return false;
  auto& heard = heard_[answer.rank];
  if (answer.said <= heard) return false;
  heard = answer.said;
  keep(known({answer.communicator, answer.number}), answer);
  forget_oldest();
  return true;
}

std::vector<Answer> RollCalls::answers() const {
  std::vector<Answer> all;
  for (const auto& [key, known] : calls_)
    for (const auto& [rank, answer] : known.answers) all.push_back(answer);
  // Keep the order of each rank's words, or the receiver would drop the earlier ones as old.
  std::ranges::sort(all, {}, &Answer::said);
  return all;
}

void RollCalls::advance(const News& news) {
  for (const Key& key : std::set(waiting_)) advance(calls_[key], news);
}

RollCalls::Ranks RollCalls::gone_in(const Known& known, const News& news) const {
  Ranks gone;
  for (const auto rank : known.call.ranks)
    if (news.is_out(rank)) gone.insert(rank);
  for (const auto& [rank, answer] : known.answers) {
    if (answer.state == Answer::State::closed) gone.insert(rank);
    gone.insert(answer.gone.begin(), answer.gone.end());
  }
  return gone;
}

void RollCalls::advance(Known& known, const News& news) {
  if (has_decided(known.answers, self_)) return end(known, known.answers[self_].gone);
  const auto gone = gone_in(known, news);
  if (ended_by_others(known, gone)) return;

  const Key key{known.call.communicator, known.call.number};
  const std::vector<std::uint32_t> count(gone.begin(), gone.end());
  const auto says_so = [&](std::uint32_t rank) {
    const auto found = known.answers.find(rank);
    return found != known.answers.end() && found->second.state == Answer::State::counts &&
           found->second.gone == count;
  };
  if (!says_so(self_)) say(known, key, Answer::State::counts, count);
  std::vector<std::uint32_t> awaited;
  for (const auto rank : known.call.ranks)
    if (!gone.contains(rank) && !says_so(rank)) awaited.push_back(rank);
  if (awaited.empty()) return decide(known, count);
  known.waiting->state.lock()->awaited = std::move(awaited);
}

bool RollCalls::ended_by_others(Known& known, const Ranks& gone) {
  if (gone.contains(self_)) {
    decide(known, {gone.begin(), gone.end()});
    return true;
  }
  for (const auto& [rank, answer] : known.answers)
    if (answer.state == Answer::State::decided && !gone.contains(rank)) {
      decide(known, std::vector(answer.gone));
      return true;
    }
  for (const auto& [rank, answer] : known.answers) {
    if (rank == self_ || gone.contains(rank) || !ends(answer, known.call.attempt)) continue;
    const Failure why = answer.why;
    // The failure has no message: the ranks that it ends hear the reason from the one that lost
    // patience.
    say(known, {known.call.communicator, known.call.number}, Answer::State::gave_up,
        {gone.begin(), gone.end()}, kNoWords);
    end(known, tl::unexpected(why));
    return true;
  }
  return false;
}

void RollCalls::decide(Known& known, const std::vector<std::uint32_t>& gone) {
  if (std::ranges::find(gone, self_) != gone.end())
    return end(known,
               fail(ErrorKind::peer_lost,
                    "rank {} counts as lost: its control connections had ended, or failed", self_));
  say(known, {known.call.communicator, known.call.number}, Answer::State::decided, gone);
  end(known, gone);
}

void RollCalls::say(Known& known, const Key& key, Answer::State state,
                    std::vector<std::uint32_t> gone, std::optional<Failure> why) {
  Answer mine{key.first, key.second, self_, ++said_, known.call.attempt, state, std::move(gone)};
  mine.why = why ? std::move(*why) : known.answers[self_].why;
  keep(known, mine);
  to_tell_.push_back(std::move(mine));
}

void RollCalls::say_closed(Known& known, const Key& key) {
  if (has_decided(known.answers, self_)) return;
  say(known, key, Answer::State::closed, {});
  end(known, fail(ErrorKind::aborted, "the communicator was destroyed"));
}

void RollCalls::end(Known& known, Result<std::vector<std::uint32_t>> outcome) {
  const auto count = std::exchange(known.waiting, nullptr);
  if (!count) return;
  waiting_.erase({known.call.communicator, known.call.number});
  const auto counted = count->state.lock();
  if (!counted->gone) counted->gone = std::move(outcome);
  count->changed.notify_all();
}

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "control/roll_call.hpp"

#include <algorithm>

namespace ccoll::control {
namespace {

/// Versions of an attempt come after all of those before it, whatever is remembered of them.
std::uint64_t first_version(std::uint32_t attempt) { return std::uint64_t{attempt} << 32; }
std::uint32_t attempt_of(const Answer& answer) {
  return static_cast<std::uint32_t>(answer.version >> 32);
}

const Failure kNoWords{ErrorKind::aborted, {}, std::nullopt};

/// Whether that rank has lost patience in this attempt, or had before it went on to a later one:
/// an attempt is over for all, whenever they come to it.
bool ends(const Answer& answer, std::uint32_t attempt) {
  if (answer.why.message.empty()) return false;
  if (answer.state == Answer::State::gave_up) return attempt_of(answer) >= attempt;
  return answer.state == Answer::State::counts && attempt_of(answer) > attempt;
}

bool has_decided(const std::map<std::uint32_t, Answer>& answers, std::uint32_t rank) {
  const auto found = answers.find(rank);
  return found != answers.end() && found->second.state == Answer::State::decided;
}

}  // namespace

RollCalls::Known& RollCalls::known(const Key& key) {
  const auto found = calls_.find(key);
  if (found != calls_.end()) return found->second;
  if (in_order_.size() >= kMaxRemembered) {
    end(calls_[in_order_.front()],
        fail(ErrorKind::exhausted, "more than {} communicators shrink at once", kMaxRemembered));
    calls_.erase(in_order_.front());
    in_order_.pop_front();
  }
  in_order_.push_back(key);
  auto& made = calls_[key];
  if (closed_.contains(key.first)) say_closed(made, key);
  return made;
}

void RollCalls::begin(const RollCall& call, std::shared_ptr<Headcount> count) {
  auto& mine = known({call.communicator, call.number});
  mine.call = call;
  mine.waiting = std::move(count);
}

void RollCalls::give_up(const RollCall& call, const Failure& why) {
  const Key key{call.communicator, call.number};
  auto& mine = known(key);
  if (!mine.waiting) return;
  say(mine, key, Answer::State::gave_up, mine.answers[self_].gone, why);
  end(mine, tl::unexpected(why));
}

void RollCalls::close(std::uint64_t communicator) {
  if (!closed_.insert(communicator).second) return;
  closings_.push_back(communicator);
  if (closings_.size() > kMaxClosed) {
    closed_.erase(closings_.front());
    closings_.pop_front();
  }
  for (auto entry = calls_.lower_bound({communicator, 0});
       entry != calls_.end() && entry->first.first == communicator; ++entry)
    say_closed(entry->second, entry->first);
}

bool RollCalls::learn(const Answer& answer) {
  auto& answers = known({answer.communicator, answer.number}).answers;
  const auto [found, is_first] = answers.try_emplace(answer.rank, answer);
  // A rank's own words are never news to it.
  if (is_first && answer.rank != self_) return true;
  if (answer.rank == self_ || answer.version <= found->second.version) return false;
  found->second = answer;
  return true;
}

std::vector<Answer> RollCalls::answers() const {
  std::vector<Answer> all;
  for (const auto& [key, known] : calls_)
    for (const auto& [rank, answer] : known.answers) all.push_back(answer);
  return all;
}

void RollCalls::advance(const News& news) {
  for (auto& [key, known] : calls_)
    if (known.waiting) advance(known, news);
}

RollCalls::Ranks RollCalls::gone_in(const Known& known, const News& news) const {
  Ranks gone;
  for (const auto rank : known.call.ranks)
    if (news.is_lost(rank)) gone.insert(rank);
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
  const std::lock_guard lock(known.waiting->mutex);
  known.waiting->awaited = std::move(awaited);
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
    // Without a word: whom this would end hears it from the one who lost patience.
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
  auto& mine = known.answers[self_];
  const auto version = std::max(mine.version, first_version(known.call.attempt)) + 1;
  if (!why) why = mine.why;
  mine = {key.first, key.second, self_, version, state, std::move(gone), std::move(*why)};
  to_tell_.push_back(mine);
}

void RollCalls::say_closed(Known& known, const Key& key) {
  if (has_decided(known.answers, self_)) return;
  say(known, key, Answer::State::closed, {});
  end(known, fail(ErrorKind::aborted, "the communicator was destroyed"));
}

void RollCalls::end(Known& known, Result<std::vector<std::uint32_t>> outcome) {
  const auto count = std::exchange(known.waiting, nullptr);
  if (!count) return;
  const std::lock_guard lock(count->mutex);
  if (!count->gone) count->gone = std::move(outcome);
  count->changed.notify_all();
}

}  // namespace ccoll::control

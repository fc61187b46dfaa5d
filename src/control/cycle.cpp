// SPDX-License-Identifier: Apache-2.0
/// Detects ranks that wait for each other in a cycle, through calls of different communicators.
/// Shortly before its patience ends, a rank asks the ranks for which it waits, and they pass the
/// question on to those for which they wait. If it comes back, the asker hears its path, as a
/// reason for its error. That ends nothing: another thread of one of these ranks might still make
/// the missing call.
///
/// A question takes at most kHops hops and kWays ways from each, and no rank passes it on twice for
/// the same wait. Each call that is about to fail costs few messages, once. Each hop's words travel
/// with it; if they get too long, later ranks are only named, then only counted.

#include <algorithm>
#include <iterator>

#include "control/hub.hpp"

namespace ccoll::control {
namespace {

constexpr std::uint64_t kHops = 64;
constexpr std::size_t kWays = 2;
/// Number of recent questions that a rank recognizes.
constexpr std::size_t kKnownQuestions = 4096;

/// Room in the words for ranks that are only named.
constexpr std::size_t kForNames = kMaxNote / 2;
constexpr std::string_view kMore = ", ...";

/// A question travels as a Publication does, in place of a call's signature.
struct Question {
  std::uint32_t number = 0;  ///< among the asker's questions
  std::uint64_t hops = 0;

  explicit Question(std::uint32_t number) : number(number) {}
  explicit Question(const Publication& publication)
      : number(publication.waiting.signature.root), hops(publication.waiting.signature.count) {}
  Signature signature() const { return {.count = hops, .root = number, .kind = kCycle}; }
};

/// Appends one hop to `way`: `rank` waits in `call` for `next`.
std::string longer(const std::string& way, std::uint32_t rank, std::string_view call,
                   std::uint32_t next) {
  if (way.empty()) return fmt::format("rank {} waits in {} for rank {}", rank, call, next);
  if (way.ends_with(kMore)) return way;
  auto told = fmt::format("{}, which waits in {} for rank {}", way, call, next);
  if (told.size() + kForNames <= kMaxNote) return told;
  told = fmt::format("{}, which waits for rank {}", way, next);
  if (told.size() + kMore.size() <= kMaxNote) return told;
  return way + std::string(kMore);
}

}  // namespace

void Hub::tell_waits(std::uint64_t communicator, std::vector<OpenWait> waits) {
  std::erase_if(waits_, [&](const OpenWait& wait) { return wait.communicator == communicator; });
  std::ranges::move(waits, std::back_inserter(waits_));
}

void Hub::seek_cycle(std::uint64_t communicator, std::uint64_t sequence) {
  const auto wait = std::ranges::find_if(waits_, [&](const OpenWait& each) {
    return each.communicator == communicator && each.sequence == sequence;
  });
  if (wait == waits_.end()) return;
  sought_[++seeks_] = {communicator, sequence};
  Publication asked{rank_, rank_, {}, false};
  asked.waiting.signature = Question(seeks_).signature();
  ask_along(asked, *wait);
}

void Hub::ask_along(const Publication& asked, const OpenWait& wait) {
  auto ranks = wait.ranks;
  std::ranges::partition(ranks, [&](std::uint32_t rank) { return rank == asked.from; });
  if (ranks.size() > kWays) ranks.resize(kWays);
  Question question(asked);
  ++question.hops;
  for (const std::uint32_t to : ranks) {
    const Waiting waiting{wait.communicator, wait.sequence, question.signature(),
                          longer(asked.waiting.note, rank_, wait.text, to)};
    if (to != rank_) route({asked.from, to, waiting});
  }
}

void Hub::pursue(const Publication& asked) {
  const Question question(asked);
  const auto& [communicator, sequence, signature, note] = asked.waiting;
  const bool has_come = news_.has_begun(communicator, sequence);
  if (asked.from == rank_) {
    const auto sought = sought_.find(question.number);
    if (sought == sought_.end() || has_come) return;
    const auto last = note.ends_with(kMore) ? fmt::format(" ({} ranks), which waits for rank {}",
                                                          question.hops, rank_)
                                            : "";
    news_.tell_cycle(sought->second.first, sought->second.second, note + last);
    sought_.erase(sought);
    return;
  }
  // A rank that has begun the call in question waits in it or is done. If the question came
  // straight from the asker, it asks on its own.
  if (question.hops >= kHops || (has_come && question.hops == 1)) return;
  const Pursued pursued{asked.from, question.number, communicator, sequence};
  if (!pursued_.insert(pursued).second) return;
  pursued_in_order_.push_back(pursued);
  if (pursued_in_order_.size() > kKnownQuestions) {
    pursued_.erase(pursued_in_order_.front());
    pursued_in_order_.pop_front();
  }
  for (const OpenWait& wait : waits_) {
    // Message numbers are each rank's own: equal ones need not be the same message.
    const bool same =
        wait.communicator == communicator && wait.sequence == sequence && sequence < kFirstMessage;
    if (same == has_come) ask_along(asked, wait);
  }
}

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "control/state/cycles.hpp"

#include <algorithm>
#include <iterator>

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

void Cycles::set_waits(std::uint64_t communicator, std::vector<OpenWait> waits) {
  std::erase_if(waits_, [&](const OpenWait& wait) { return wait.communicator == communicator; });
  std::ranges::move(waits, std::back_inserter(waits_));
}

Cycles::Questions Cycles::seek(std::uint64_t communicator, std::uint64_t sequence) {
  const auto wait = std::ranges::find_if(waits_, [&](const OpenWait& each) {
    return each.communicator == communicator && each.sequence == sequence;
  });
  Questions questions;
  if (wait == waits_.end()) return questions;
  sought_[++asked_] = {communicator, sequence};
  Publication asked{self_, self_, {}, false};
  asked.waiting.signature = Question(asked_).signature();
  ask_along(asked, *wait, questions);
  return questions;
}

void Cycles::ask_along(const Publication& asked, const OpenWait& wait, Questions& questions) const {
  auto ranks = wait.ranks;
  std::ranges::partition(ranks, [&](std::uint32_t rank) { return rank == asked.from; });
  if (ranks.size() > kWays) ranks.resize(kWays);
  Question question(asked);
  ++question.hops;
  for (const std::uint32_t to : ranks) {
    if (to == self_) continue;
    questions.push_back({asked.from,
                         to,
                         {wait.communicator, wait.sequence, question.signature(),
                          longer(asked.waiting.note, self_, wait.text, to)}});
  }
}

std::optional<Cycles::Found> Cycles::come_back(const Publication& asked, bool has_begun) {
  const Question question(asked);
  const auto sought = sought_.find(question.number);
  if (sought == sought_.end() || has_begun) return std::nullopt;
  const std::string& note = asked.waiting.note;
  const auto last = note.ends_with(kMore)
                        ? fmt::format(" ({} ranks), which waits for rank {}", question.hops, self_)
                        : "";
  Found found{sought->second.first, sought->second.second, note + last};
  sought_.erase(sought);
  return found;
}

Cycles::Questions Cycles::pass_on(const Publication& asked, bool has_begun) {
  const Question question(asked);
  const auto& [communicator, sequence, signature, note] = asked.waiting;
  Questions questions;
  // A rank that has begun the call in question waits in it or is done. If the question came
  // straight from the asker, it asks on its own.
  if (question.hops >= kHops || (has_begun && question.hops == 1)) return questions;
  const Passed passed{asked.from, question.number, communicator, sequence};
  if (!passed_.insert(passed).second) return questions;
  passed_in_order_.push_back(passed);
  if (passed_in_order_.size() > kKnownQuestions) {
    passed_.erase(passed_in_order_.front());
    passed_in_order_.pop_front();
  }
  for (const OpenWait& wait : waits_) {
    // Message numbers are each rank's own: equal ones need not be the same message.
    const bool same =
        wait.communicator == communicator && wait.sequence == sequence && sequence < kFirstMessage;
    if (same == has_begun) ask_along(asked, wait, questions);
  }
  return questions;
}

}  // namespace ccoll::control

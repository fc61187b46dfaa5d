// SPDX-License-Identifier: Apache-2.0
// Ranks that make different calls: what they tell each other, and the error that names both. A
// slice shows a call's signature; its note travels only when a difference has been found.
#include <algorithm>

#include "comm/failures/comparison.hpp"
#include "core/deadline.hpp"
#include "engine/count_check.hpp"
#include "engine/describe.hpp"

namespace ccoll {
namespace {

/// This many calls are compared when a communicator ends; later calls showed the earlier ones.
constexpr std::uint64_t kLastCalls = 8;

/// How long a rank whose call differs may take to send its caller's label.
constexpr std::chrono::milliseconds kAnswerWithin{400};

/// A neighbour that has been told the last calls answers at once, unless it stands still.
constexpr std::chrono::milliseconds kAnswersSoon{200};

/// How long a rank that closes waits for the others to close, if one may yet find that sizes
/// differ. Longer than kAnswerWithin, because that rank asks for a label.
constexpr std::chrono::milliseconds kOthersClose{1000};

Signature of_kind(std::uint8_t kind) {
  Signature signature;
  signature.kind = kind;
  return signature;
}

/// Whether one of the last calls had sizes that only two ranks know.
bool last_sizes_were_private(const History& history) {
  const auto calls = history.calls();
  for (auto call = calls - std::min(calls, kLastCalls); call < calls; call++)
    if (const auto signature = history.at(call); signature && has_private_sizes(*signature))
      return true;
  return false;
}

}  // namespace

std::optional<Failure> Comparison::compare(Rank from, const Waiting& waiting) {
  const auto peer = self_.group().job_rank(from);
  switch (waiting.signature.kind) {
    case kAsksLabel:
      self_.control().publish({self_.id(), waiting.sequence, of_kind(kTellsLabel),
                               record_.labels().of(waiting.sequence)},
                              {peer});
      return std::nullopt;
    case kTellsLabel:
      verdict_.hear_label({from, waiting.sequence, {}, waiting.note});
      progress_.waiter().ring();
      return std::nullopt;
    case kCloses:
      self_.control().publish({self_.id(), 0, of_kind(kHeardClose)}, {peer});
      note_closed(peer);
      return std::nullopt;
    case kHeardClose:
      farewells_.add(peer);
      return std::nullopt;
    case kAllClosed:
      farewells_.end();
      return std::nullopt;
    default:
      if (ahead_.keep(from, waiting, record_.history())) return std::nullopt;
      return difference(from, waiting);
  }
}

std::optional<Failure> Comparison::difference(Rank peer, const Waiting& waiting) const {
  const auto& [communicator, sequence, theirs, note] = waiting;
  const auto mine = record_.history().at(sequence);
  if (!mine || *mine == theirs) return std::nullopt;
  return Failure{ErrorKind::mismatch,
                 describe_mismatch({self_.rank(), sequence, *mine, record_.labels().of(sequence)},
                                   {peer, sequence, theirs, note}),
                 self_.group().job_rank(peer)};
}

void Comparison::departed(std::uint32_t rank, std::optional<Rank> here) {
  farewells_.add(rank);
  if (!here) return;
  note_closed(rank);
  // Rank 0 counts the ranks that have closed: without it nobody tells when all have.
  if (*here == 0) farewells_.end();
}

Status Comparison::compare_with_ahead() {
  return ahead_.compare_reached(record_.history(), [&](Rank peer, const Waiting& waiting) {
    return difference(peer, waiting);
  });
}

std::optional<Failure> Comparison::unread(Owned owned, bool closes) const {
  const auto next = under_way_.collectives(owned).first_open();
  std::function<bool(Rank, const SliceHeader&)> is_unfit;
  std::vector<std::uint64_t> expected;
  if (under_way_.collectives(owned).counts_differ()) {
    // Even slices of this call may be unexpected.
    expected = under_way_.collectives(owned).front()->run.output_counts;
    is_unfit = [&](Rank from, const SliceHeader& header) {
      return from < expected.size() && header.sequence == next &&
             header.signature.count != expected[from];
    };
  }
  const auto unread =
      is_unfit ? under_way_.links(owned).unread(next + 1, CountCheck::kFirstLane, is_unfit)
               : under_way_.links(owned).unread(next, kHeaderLane);
  if (!unread) return std::nullopt;
  const auto& [from, header] = *unread;
  const auto sequence = header.sequence;
  const auto mine = record_.history().at(sequence);
  auto theirs = header.signature;
  if (mine && has_private_sizes(*mine)) theirs.count = mine->count;
  // Neighbours exchange their last calls now, and report it with both labels.
  const auto neighbours = self_.group().ring_neighbours();
  if (closes && mine && *mine != theirs &&
      std::ranges::find(neighbours, self_.group().job_rank(from)) != neighbours.end())
    return std::nullopt;
  std::string text;
  if (!mine)
    text = fmt::format("rank {} sent data of {} (call {}) to rank {}, which expected none", from,
                       describe(theirs), sequence, self_.rank());
  else if (*mine == theirs)
    text = describe_counts({from, sequence, theirs}, header.signature.count, self_.rank(),
                           is_unfit ? expected[from] : 0);
  else
    text = describe_mismatch({self_.rank(), sequence, *mine, record_.labels().of(sequence)},
                             {from, sequence, theirs});
  return Failure{ErrorKind::mismatch, std::move(text), self_.group().job_rank(from)};
}

void Comparison::publish_end(bool compared) {
  auto to = self_.group().ring_neighbours();
  const auto calls = record_.history().calls();
  for (auto call = calls - std::min(calls, kLastCalls); compared && call < calls; call++)
    if (const auto signature = record_.history().at(call))
      self_.control().publish({self_.id(), call, *signature, record_.labels().of(call)}, to);
  const auto first = self_.group().job_rank(0);
  if (self_.rank() != 0 && last_sizes_were_private(record_.history()) &&
      std::ranges::find(to, first) == to.end())
    to.push_back(first);
  self_.control().publish({self_.id(), 0, of_kind(kCloses)}, to);
  note_closed(self_.job_rank());
}

void Comparison::note_closed(std::uint32_t rank) {
  const bool all_have = farewells_.all_closed(rank, static_cast<std::size_t>(self_.size()));
  if (!all_have || self_.rank() != 0 || !last_sizes_were_private(record_.history())) return;
  auto others = self_.group().job_ranks();
  std::erase(others, self_.job_rank());
  self_.control().publish({self_.id(), 0, of_kind(kAllClosed)}, others);
  farewells_.end();
}

void Comparison::await_last_calls() {
  if (record_.history().calls() == 0 || self_.service()->on_service_thread()) return;
  farewells_.await(self_.group().ring_neighbours(), kAnswersSoon);
  if (last_sizes_were_private(record_.history())) farewells_.await_end(kOthersClose);
}

void Comparison::ask_for_label(Owned owned, const CollectiveOperation& operation, Failure failure) {
  if (verdict_.suspicion(owned)) return;
  const auto& run = operation.run;
  const auto peer = self_.group().job_rank(operation.plan->different()->rank);
  MadeCall mine{self_.rank(), run.sequence, run.signature, operation.note()};
  auto theirs = *operation.plan->different();
  // Calls with different numbers were not meant to meet: where they first differed tells more. That
  // may be the call that the peer's slice belongs to. If the peer is ahead, it compares this call
  // with its own of that number, and tells everyone.
  const auto then =
      theirs.sequence < mine.sequence ? record_.history().at(theirs.sequence) : std::nullopt;
  if (then && *then != theirs.signature)
    mine = {self_.rank(), theirs.sequence, *then, record_.labels().of(theirs.sequence)};
  else if (theirs.sequence > mine.sequence)
    self_.control().publish({self_.id(), mine.sequence, mine.signature, mine.note}, {peer});
  const auto asked = theirs.sequence;
  verdict_.suspect(owned, {std::move(mine), std::move(theirs), std::move(failure.message)}, peer,
                   deadline_after(kAnswerWithin, progress_.now()));
  // A thread that is about to sleep has not counted on this deadline.
  progress_.waiter().ring();
  self_.control().publish({self_.id(), asked, of_kind(kAsksLabel)}, {peer});
}

std::string DifferentCalls::text() const {
  if (mine.signature != theirs.signature || mine.sequence != theirs.sequence)
    return describe_mismatch(mine, theirs);
  auto text = found;
  for (const auto* call : {&mine, &theirs})
    if (const auto label = label_in(call->note); !label.empty())
      text += fmt::format("; rank {} calls it {}", call->rank, quoted_label(label));
  return text;
}

}  // namespace ccoll

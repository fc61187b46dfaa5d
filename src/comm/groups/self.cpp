// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/self.hpp"

#include <algorithm>
#include <span>

#include "algorithms/algorithms.hpp"
#include "core/text.hpp"
#include "engine/custom_fold.hpp"
#include "engine/describe.hpp"
#include "engine/plan.hpp"

namespace ccoll {
namespace {

/// Up to this many ranks are named with their hosts and processes, more by their numbers.
constexpr std::size_t kMostNamed = 16;

/// Whether its text uses the communicator's numbers already.
bool names_ranks_of_group(const Failure& failure) {
  return failure.kind == ErrorKind::timed_out || failure.kind == ErrorKind::mismatch;
}

}  // namespace

Self::Self(std::shared_ptr<Member> member, std::uint64_t id, const CommunicatorOptions& options,
           Group group)
    : member_(std::move(member)),
      id_(id),
      options_(options),
      group_(std::move(group)),
      name_(options.name.empty() ? "world" : options.name) {}

Result<std::string> Self::transport_to(Rank peer) const {
  auto kind = member_->transports()->in_use_to(group_.job_rank(peer));
  if (!kind) return tl::unexpected(kind.error());
  return std::string((*kind)->name);
}

Status Self::called_from_outside() const {
  if (!is_folding_for(this)) return {};
  return tl::unexpected(for_caller(
      {ErrorKind::invalid_argument,
       "the function of a reduction uses the communicator that called it", std::nullopt}));
}

Failure Self::for_caller(Failure failure, std::string_view label) const {
  const auto here = failure.culprit ? group_.rank_of(*failure.culprit) : std::nullopt;
  if (here && !group_.numbered_as_job() && !names_ranks_of_group(failure))
    failure.message +=
        fmt::format(" (rank {} of the job is rank {} here)", *failure.culprit, *here);
  failure.culprit = here;
  if (!options_.name.empty()) failure.message.insert(0, shown_label(name_) + ": ");
  if (!label.empty()) failure.message.insert(0, quoted_label(label) + ": ");
  return failure;
}

Failure Self::failed_here(const Failure& failure) const {
  return {failure.kind, fmt::format("rank {} failed: {}", rank(), failure.message), job_rank()};
}

std::string Self::name_of(std::uint64_t sequence, const Signature& signature,
                          std::string_view label) const {
  return fmt::format("{}, by {} (call {}{}) on rank {}", describe(signature),
                     to_string(static_cast<Algorithm>(signature.algorithm)), sequence,
                     label_behind(label), rank());
}

std::string Self::name_of(const PlanRun& run, std::string_view label) const {
  return name_of(run.sequence, run.signature, label);
}

std::string Self::ranks_text(const std::vector<Rank>& ranks) const {
  std::vector<std::string> names;
  const auto named = std::min(ranks.size(), kMostNamed);
  for (const auto rank : std::span(ranks).first(named)) {
    const auto job_rank = group_.job_rank(rank);
    names.push_back(group_.numbered_as_job()
                        ? member_->name_of(rank)
                        : fmt::format("rank {} (in the job {})", rank, member_->name_of(job_rank)));
  }
  if (const std::vector<Rank> more(ranks.begin() + static_cast<std::ptrdiff_t>(named), ranks.end());
      !more.empty())
    names.push_back(list_ranks(more));
  return names.empty() ? "nobody" : joined(names);
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
// The public face of groups: communicators from communicators, their names and their ranks.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ccoll/communicator.hpp"
#include "comm/api/session.hpp"
#include "comm/call/arguments.hpp"
#include "comm/groups/groups.hpp"

namespace ccoll {
namespace {

/// Returns the result of `make`, which gets the parent's Groups; throws its failure.
template <typename Make>
auto made_of(Session& parent, std::string_view call, const GroupOptions& options, Make make) {
  parent.self().value_or_raise(check_timeout(call, options.timeout));
  return parent.self().value_or_raise(caught([&] { return make(parent.groups()); }));
}

}  // namespace

std::optional<int> Communicator::rank_in(const Communicator& other, int rank) const {
  const auto& mine = *session();
  const auto& theirs = *other.session();
  if (mine.self().job() != theirs.self().job())
    raise(
        mine.self().for_caller({ErrorKind::invalid_argument,
                                fmt::format("rank_in: {} was not made from the same start-up as {}",
                                            theirs.self().name(), mine.self().name()),
                                std::nullopt}));
  const auto found = theirs.self().group().rank_of(static_cast<std::uint32_t>(job_rank(rank)));
  return found ? std::optional(static_cast<int>(*found)) : std::nullopt;
}

int Communicator::job_rank(int rank) const {
  if (rank < 0 || rank >= size())
    raise(session()->self().for_caller({ErrorKind::invalid_argument,
                                        no_such_rank("rank", rank, session()->self().size()),
                                        std::nullopt}));
  return static_cast<int>(session()->self().group().job_rank(static_cast<Rank>(rank)));
}

const std::string& Communicator::name() const { return session()->self().name(); }

Communicator Communicator::duplicate(const GroupOptions& options) {
  const auto parent = session();  // another thread may close it meanwhile
  const auto make = [&](Groups& groups) { return groups.duplicate(options); };
  return Communicator(made_of(*parent, "duplicate", options, make).communicator);
}

std::optional<Communicator> Communicator::split(int color, int key, const GroupOptions& options) {
  const auto parent = session();
  const auto make = [&](Groups& groups) { return groups.split(color, key, options); };
  auto made = made_of(*parent, "split", options, make);
  if (!made) return std::nullopt;
  return Communicator(std::move(made->communicator));
}

Communicator Communicator::subgroup(std::span<const int> ranks, const GroupOptions& options) {
  const auto parent = session();
  const auto make = [&](Groups& groups) { return groups.subgroup(ranks, options); };
  return Communicator(made_of(*parent, "subgroup", options, make).communicator);
}

Communicator Communicator::shrink(const GroupOptions& options) {
  const auto parent = session();
  const auto make = [&](Groups& groups) { return groups.shrink(options); };
  return Communicator(made_of(*parent, "shrink", options, make).communicator);
}

Communicator Communicator::shrink_without(std::span<const int> excluded,
                                          const GroupOptions& options) {
  const auto parent = session();
  const auto make = [&](Groups& groups) {
    return excluded_ranks(excluded, parent->self().rank(), parent->self().size())
        .and_then([&](Ranks ranks) { return groups.shrink(options, std::move(ranks)); });
  };
  return Communicator(made_of(*parent, "shrink_without", options, make).communicator);
}

}  // namespace ccoll

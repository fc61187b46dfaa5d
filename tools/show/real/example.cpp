// SPDX-License-Identifier: Apache-2.0
#include "show/real/example.hpp"

#include <algorithm>
#include <optional>

#include "show/real/local_ranks.hpp"

namespace ccoll::show {

namespace {

std::string algorithm_of(const Example& example, const Party& party,
                         const Communicator& communicator) {
  if (!example.operation->kind || party.ranks.size() == 1) return {};
  const std::size_t count =
      party.splits.empty() ? example.arguments.count : party.splits.front().mean();
  return communicator.algorithm_for(example.operation->name, count, example.arguments.type,
                                    example.arguments.options);
}

/// One rank's call, on its party's communicator.
void call_in(Example& example, Party& party, std::uint32_t rank, Communicator& communicator) {
  bench::Arguments arguments = example.arguments;
  arguments.input = example.before[rank].data();
  arguments.output = example.after[rank].data();
  if (party.splits.empty())
    example.operation->call(communicator, arguments);
  else
    party.splits.front().call(communicator, arguments);
  if (communicator.rank() == 0) party.algorithm = algorithm_of(example, party, communicator);
}

void call_by(Example& example, std::uint32_t rank, Communicator& world) {
  if (!example.is_parted) return call_in(example, example.parties.front(), rank, world);
  int color = kNoColor;
  int key = 0;
  for (std::size_t i = 0; i < example.parties.size(); ++i) {
    const RankGroup& ranks = example.parties[i].ranks;
    const auto found = std::ranges::find(ranks, rank);
    if (found == ranks.end()) continue;
    color = static_cast<int>(i);
    key = static_cast<int>(found - ranks.begin());
  }
  std::optional<Communicator> part = world.split(color, key);
  if (part) call_in(example, example.parties[static_cast<std::size_t>(color)], rank, *part);
}

}  // namespace

Lengths lengths_of(const Example& example, const Party& party, std::size_t number) {
  const int rank = static_cast<int>(number);
  const int root = example.arguments.root;
  if (!party.splits.empty()) {
    const Splits& splits = party.splits.front();
    return {splits.input_elems(rank, root), splits.output_elems(rank, root)};
  }
  const bench::Layout layout =
      example.operation->layout({.size = static_cast<int>(party.ranks.size()),
                                 .rank = rank,
                                 .root = root,
                                 .count = example.arguments.count});
  return {layout.input_elems, layout.output_elems};
}

std::string carry_out(Example& example) {
  return on_every_rank(example.ranks, example.transport, [&](Communicator& world) {
    call_by(example, static_cast<std::uint32_t>(world.rank()), world);
  });
}

}  // namespace ccoll::show

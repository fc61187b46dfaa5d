// SPDX-License-Identifier: Apache-2.0
#include "show/real/example.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ccoll/call_group.hpp"
#include "show/real/local_ranks.hpp"

namespace ccoll::show {

namespace {

std::string algorithm_of(const Example& example, const Party& party,
                         const Communicator& communicator) {
  if (!example.operation->kind || party.ranks.size() == 1) return {};
  const std::uint64_t all =
      std::accumulate(example.buffers.begin(), example.buffers.end(), std::uint64_t{0});
  const std::size_t count = !party.splits.empty()      ? party.splits.front().mean()
                            : !example.buffers.empty() ? all
                                                       : example.arguments.count;
  return communicator.algorithm_for(example.operation->name, count, example.arguments.type,
                                    example.arguments.options);
}

/// Makes one rank's call on its party's communicator.
void call_in(Example& example, Party& party, std::uint32_t rank, Communicator& communicator) {
  bench::Arguments arguments = example.arguments;
  arguments.input = example.before[rank].data();
  arguments.output = example.after[rank].data();
  if (!party.splits.empty())
    party.splits.front().call(communicator, arguments);
  else if (!example.buffers.empty())
    call_on_buffers(*example.operation, communicator, arguments, example.buffers);
  else
    example.operation->call(communicator, arguments);
  if (communicator.rank() == 0) party.algorithm = algorithm_of(example, party, communicator);
}

void call_all_in(std::span<Example> examples, std::size_t party, std::uint32_t rank,
                 Communicator& communicator) {
  // A single call needs no group: blocking calls have paths of their own.
  std::optional<CallGroup> group;
  if (examples.size() > 1) group.emplace();
  for (Example& example : examples) call_in(example, example.parties[party], rank, communicator);
  if (group) group->end();
}

void call_by(std::span<Example> examples, std::uint32_t rank, Communicator& world) {
  const Example& first = examples.front();
  if (!first.is_parted) return call_all_in(examples, 0, rank, world);
  int color = kNoColor;
  int key = 0;
  for (std::size_t i = 0; i < first.parties.size(); ++i) {
    const RankGroup& ranks = first.parties[i].ranks;
    const auto found = std::ranges::find(ranks, rank);
    if (found == ranks.end()) continue;
    color = static_cast<int>(i);
    key = static_cast<int>(found - ranks.begin());
  }
  std::optional<Communicator> part = world.split(color, key);
  if (part) call_all_in(examples, static_cast<std::size_t>(color), rank, *part);
}

}  // namespace

std::vector<Lengths> buffers_of(const Example& example, const Party& party, std::size_t number) {
  const int rank = static_cast<int>(number);
  const int root = example.arguments.root;
  if (!party.splits.empty()) {
    const Splits& splits = party.splits.front();
    return {{splits.input_elems(rank, root), splits.output_elems(rank, root)}};
  }
  std::vector<Lengths> buffers;
  const BufferCounts one = {example.arguments.count};
  for (const std::uint64_t count : example.buffers.empty() ? one : example.buffers) {
    const bench::Layout layout = example.operation->layout(
        {.size = static_cast<int>(party.ranks.size()), .rank = rank, .root = root, .count = count});
    buffers.push_back({layout.input_elems, layout.output_elems});
  }
  return buffers;
}

Lengths lengths_of(const Example& example, const Party& party, std::size_t number) {
  Lengths all;
  for (const Lengths& buffer : buffers_of(example, party, number)) {
    all.input += buffer.input;
    all.output += buffer.output;
  }
  return all;
}

std::string carry_out(std::span<Example> examples) {
  const Example& first = examples.front();
  return on_every_rank(first.ranks, first.transport, [&](Communicator& world) {
    call_by(examples, static_cast<std::uint32_t>(world.rank()), world);
  });
}

}  // namespace ccoll::show

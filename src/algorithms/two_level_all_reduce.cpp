// SPDX-License-Identifier: Apache-2.0

/// Two-level all-reduce: reduce-scatter inside each host, all-reduce across hosts, all-gather
/// inside.
///
/// The buffer is cut into L shares (L: ranks of the smallest host), and each share into h blocks
/// (h: hosts). The a-th rank of a host combines share a of all its host's ranks. The a-th ranks of
/// all hosts then make a two-shot all-reduce of share a, each responsible for its host's block. A
/// rank that has a finished block hands it to its host's others. Between hosts as many bytes travel
/// as in a ring of hosts, in two rounds, and L ranks of each host carry them.
///
/// Rounds: 4, two of them between hosts. Bytes sent between hosts by one of the L: 2(h-1)/h ×
/// size/L. Any number of ranks on each host, in any order, any count. Source: M. Cho et al.,
/// "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy",
/// MLSys (2019). Drawing: two_level_all_reduce_5.txt

#include <algorithm>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"
#include "algorithms/hosts.hpp"

namespace ccoll {
namespace {

// Every rank has lane 0, and lane 1, which takes finished blocks; only ranks with a share have the
// others.
constexpr std::uint16_t kContribute = 0;  // own data to the rank whose share it is
constexpr std::uint16_t kCombine = 2;     // own share inside the host, then blocks to other hosts
constexpr std::uint16_t kFinish = 3;      // the own block of the share, across hosts
constexpr std::uint16_t kHandOn = 4;      // the share's other blocks, as other hosts finish them

class TwoLevel {
 public:
  TwoLevel(const Problem& problem, Rank rank)
      : hosts_(problem),
        h_(hosts_.count()),
        host_(hosts_.host_of(rank)),
        index_(hosts_.index_of(rank)),
        beside_(hosts_.others_beside(rank)) {}

  std::uint32_t blocks() const { return hosts_.smallest() * h_; }
  bool has_share() const { return index_ < hosts_.smallest(); }

  Lane contribute() const {
    Lane lane;
    for (const Rank to : beside_) {
      const Rank share = hosts_.index_of(to);
      if (share >= hosts_.smallest()) continue;
      // In place, results overwrite it that are made after `to` has read it.
      lane.steps.push_back({.local = {input(share * h_, h_)}, .sends = {to}, .lend = Lend::always});
    }
    return lane;
  }

  Lane take() const {
    Lane lane;
    for (const Rank from : beside_) {
      const Rank share = hosts_.index_of(from);
      if (share >= hosts_.smallest()) continue;
      lane.steps.push_back({.receives = {{from, kFinish}}, .store = {output(share * h_ + host_)}});
      for (const Rank other : other_hosts()) {
        lane.steps.push_back(
            {.receives = {{from, kHandOn}}, .store = {output(share * h_ + other)}});
      }
    }
    return lane;
  }

  Lane combine() const {
    Step inside{.local = {input(index_ * h_, h_)}, .store = {output(index_ * h_, h_)}};
    for (const Rank peer : beside_) inside.receives.push_back({peer, kContribute});
    Lane lane{.steps = {std::move(inside)}};
    for (const Rank other : other_hosts()) {
      lane.steps.push_back({.local = {output(index_ * h_ + other)},
                            .sends = {partner(other)},
                            .lend = Lend::always});
    }
    return lane;
  }

  Lane finish() const {
    const Operand own = output(index_ * h_ + host_);
    Step step{.local = {own},
              .store = {own},
              .after = After{.lane = kCombine, .step = 0},
              .finish = true,
              .lend = Lend::always};
    for (const Rank other : other_hosts()) {
      step.receives.push_back({partner(other), kCombine});
      step.sends.push_back(partner(other));
    }
    std::ranges::sort(step.receives, {}, &Receive::peer);
    step.sends.insert(step.sends.end(), beside_.begin(), beside_.end());
    return {.steps = {std::move(step)}};
  }

  Lane hand_on() const {
    Lane lane;
    for (const Rank other : other_hosts()) {
      lane.steps.push_back({.receives = {{partner(other), kFinish}},
                            .store = {output(index_ * h_ + other)},
                            .sends = beside_,
                            .lend = Lend::always});
    }
    return lane;
  }

 private:
  /// The other hosts, the next one first, so that hosts do not all turn to the same one at once.
  std::vector<Rank> other_hosts() const {
    std::vector<Rank> others;
    for (Rank distance = 1; distance < h_; ++distance) others.push_back(ahead(host_, distance, h_));
    return others;
  }
  /// The rank of `host` that has the same share.
  Rank partner(Rank host) const { return hosts_.members(host)[index_]; }

  Hosts hosts_;
  Rank h_;
  Rank host_;
  Rank index_;
  std::vector<Rank> beside_;
};

}  // namespace

Program two_level_all_reduce(const Problem& problem, Rank rank) {
  const TwoLevel level(problem, rank);
  Program program = empty_program(problem, rank, level.blocks());
  program.lanes = {level.contribute(), level.take()};
  if (level.has_share()) {
    program.lanes.insert(program.lanes.end(), {level.combine(), level.finish(), level.hand_on()});
  }
  return program;
}

Theory two_level_all_reduce_theory(const Problem& problem) {
  const Hosts hosts(problem);
  const std::uint64_t h = hosts.count();
  const std::uint64_t shares = hosts.smallest();
  const auto blocks = static_cast<std::uint32_t>(shares * h);
  Theory theory{.blocks = blocks, .blocks_per_message = static_cast<std::uint32_t>(h)};
  if (moves_nothing(problem)) return theory;
  const bool inside = hosts.largest() > 1;
  theory.depth = (inside ? 2 : 0) + (h > 1 ? 2 : 0);
  theory.across = Across{.depth = h > 1 ? 2U : 0U, .busiest = {}, .total = {}};
  theory.roundings = inside ? 2 : 1;  // also if there is nothing to combine across hosts

  struct Share {
    std::uint64_t elems = 0;
    std::uint64_t present = 0;  // blocks that are not empty
  };
  std::vector<Share> share(shares);
  std::uint64_t present_shares = 0;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    const std::uint64_t elems = block_elems(problem, blocks, block);
    share[block / h].elems += elems;
    share[block / h].present += elems > 0 ? 1 : 0;
  }
  for (const Share& one : share) present_shares += one.elems > 0 ? 1 : 0;

  for (Rank host = 0; host < h; ++host) {
    const std::uint64_t beside = hosts.size(host) - 1;
    for (Rank index = 0; index < hosts.size(host); ++index) {
      Load crossing;
      Load load{.messages = present_shares, .elems_sent = problem.count};
      if (index < shares) {
        const Share& own = share[index];
        const auto block = static_cast<std::uint32_t>(index * h + host);
        const std::uint64_t elems = block_elems(problem, blocks, block);
        const std::uint64_t there = elems > 0 ? 1 : 0;
        crossing = {.messages = (own.present - there) + there * (h - 1),
                    .elems_sent = (own.elems - elems) + elems * (h - 1),
                    .elems_repeated = repeated(elems, h - 1),
                    .elems_reduced = elems * (h - 1)};
        load = {
            .messages =
                load.messages - (own.elems > 0 ? 1 : 0) + crossing.messages + own.present * beside,
            .elems_sent = load.elems_sent - own.elems + crossing.elems_sent + own.elems * beside,
            .elems_repeated = repeated(elems, h - 1 + beside) + repeated(own.elems - elems, beside),
            .elems_reduced = own.elems * beside + crossing.elems_reduced};
      }
      count_rank(theory, load, crossing);
    }
  }
  return theory;
}

}  // namespace ccoll

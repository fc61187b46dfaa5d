// SPDX-License-Identifier: Apache-2.0
// Ranks that have memory for only a few windows at a time, over real in-process links. Their
// results are the same as with memory for everything, whether the other ranks have that or not.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <span>

#include "engine/windows.hpp"
#include "inproc_ranks.hpp"
#include "support/effort.hpp"
#include "support/hosts.hpp"

using namespace ccoll;

namespace {

using Floats = std::vector<float>;

struct PartedCase {
  Problem problem;
  Choice choice;
  bool in_place = false;
};

PartedCase random_parted_case(std::mt19937_64& random) {
  const auto entries = catalogue();
  const auto& entry = entries[random() % entries.size()];
  PartedCase made;
  auto& problem = made.problem;
  problem.kind = entry.kind;
  problem.size = static_cast<Rank>(1 + random() % 9);
  problem.root = static_cast<Rank>(random() % problem.size);
  problem.count = entry.kind == Kind::barrier ? 1 : random() % 200;
  if (entry.by_host) problem.host_of = testing::random_hosts(problem.size, random);
  if (entry.ragged && random() % 2 == 0) {
    const std::size_t n = problem.size;
    for (std::size_t i = 0; i < (entry.kind == Kind::all_to_all ? n * n : n); i++)
      problem.block_counts.push_back(random() % 3 == 0 ? 0 : random() % 60);
  }
  made.choice.algorithm = entry.algorithm;
  made.choice.lanes = static_cast<std::uint16_t>(1 + random() % 3);
  made.choice.slice_elems = 1 + random() % 9;
  made.in_place = random() % 2 == 0 && entry.kind == Kind::all_reduce;
  return made;
}

std::uint64_t elems_of(const Windows& windows, Buffer buffer) {
  std::uint64_t elems = 0;
  for (const auto& stretch : windows.stretches(buffer, 0, UINT64_MAX))
    elems = std::max(elems, stretch.first + stretch.elems);
  return elems;
}

/// A rank whose data is elsewhere, as on a device, with memory for some of its windows.
class PartedRank {
 public:
  PartedRank(const Plan& plan, const Problem& view, bool in_place, Floats input,
             std::uint64_t sequence)
      : windows_(plan.windows(view.block_counts, view.output_counts)),
        in_place_(in_place),
        input_(std::move(input)) {
    input_.resize(elems_of(windows_, Buffer::input));
    output_ = Floats(elems_of(windows_, Buffer::output), -1.0F);
    run.block_counts = view.block_counts;
    run.output_counts = view.output_counts;
    run.in_place = in_place;
    run.sequence = sequence;
  }

  /// It has memory for everything.
  void begin_whole() { take(0, UINT64_MAX); }
  void begin_in_parts(std::mt19937_64& random) { take(0, end_after(0, random)); }
  /// Takes away the part's output and begins another part.
  void next_part(std::mt19937_64& random) {
    end_part();
    parts++;
    take(end_, end_after(end_, random));
  }
  const Floats& result() {
    end_part();
    return output_;
  }

  PlanRun run;
  int parts = 1;

 private:
  std::uint64_t end_after(std::uint64_t begin, std::mt19937_64& random) const {
    return std::min(windows_.count(), begin + 1 + random() % 3);
  }
  static BufferView view_of(Floats& memory, const std::vector<Stretch>& stretches) {
    BufferView view;
    std::size_t at = 0;
    for (const auto& [first, elems] : stretches) {
      view.segments.push_back({first, reinterpret_cast<std::byte*>(memory.data() + at)});
      at += elems;
    }
    if (at > 0) view.data = view.segments.front().data;
    return view;
  }
  static std::size_t elems_in(const std::vector<Stretch>& stretches) {
    std::size_t elems = 0;
    for (const auto& stretch : stretches) elems += stretch.elems;
    return elems;
  }
  void take(std::uint64_t begin, std::uint64_t end) {
    end_ = end;
    reads_ = windows_.stretches(Buffer::input, begin, end);
    writes_ = windows_.stretches(Buffer::output, begin, end);
    // New memory each time, so that late reads and writes are detected.
    memory_in_ = Floats();
    for (const auto& [first, elems] : reads_) {
      const auto from = input_.begin() + static_cast<std::ptrdiff_t>(first);
      memory_in_.insert(memory_in_.end(), from, from + static_cast<std::ptrdiff_t>(elems));
    }
    memory_out_ = Floats(in_place_ ? 0 : elems_in(writes_), -2.0F);
    run.input = view_of(memory_in_, reads_);
    run.output = view_of(in_place_ ? memory_in_ : memory_out_, writes_);
    run.open_windows = end;
  }
  void end_part() {
    auto& memory = in_place_ ? memory_in_ : memory_out_;
    std::size_t at = 0;
    for (const auto& [first, elems] : writes_) {
      std::copy_n(memory.begin() + static_cast<std::ptrdiff_t>(at), elems,
                  output_.begin() + static_cast<std::ptrdiff_t>(first));
      at += elems;
    }
    writes_.clear();
    std::ranges::fill(memory, -3.0F);
  }

  Windows windows_;
  bool in_place_;
  Floats input_, output_;
  std::vector<Stretch> reads_, writes_;
  Floats memory_in_, memory_out_;
  std::uint64_t end_ = 0;
};

/// All ranks' final results; those that `is_parted` selects run in parts.
template <typename IsParted>
std::vector<Floats> results_of(const PartedCase& made, std::mt19937_64& random, IsParted is_parted,
                               int& parts) {
  test::Links links(made.problem.size, random());
  auto plans = test::make_plans(made.problem, made.choice, DataType::float32, links);
  std::vector<Floats> results;
  for (std::uint64_t sequence = 0; sequence < 2; sequence++) {
    std::vector<std::unique_ptr<PartedRank>> ranks;
    for (Rank rank = 0; rank < plans.size(); rank++) {
      Floats input(4096);
      std::mt19937_64 own(1000 * sequence + rank);
      for (auto& value : input) value = std::uniform_real_distribution<float>(-1, 1)(own);
      ranks.push_back(std::make_unique<PartedRank>(*plans[rank], view_of(made.problem, rank),
                                                   made.in_place, std::move(input), sequence));
      is_parted(rank) ? ranks[rank]->begin_in_parts(random) : ranks[rank]->begin_whole();
      plans[rank]->start(ranks[rank]->run);
    }
    std::size_t done = 0;
    for (int idle = 0; done < plans.size() && idle < 10'000; idle++) {
      const auto rank = random() % plans.size();
      auto& plan = *plans[rank];
      if (plan.done()) continue;
      const auto moved = plan.advance();
      REQUIRE(moved);
      if (*moved) idle = 0;
      if (plan.rests()) {
        CHECK(plan.standing().awaited().empty());
        CHECK_THAT(plan.standing().text(), Catch::Contains("have not reached the host yet"));
        // Its data arrives some time later.
        if (random() % 4 == 0) ranks[rank]->next_part(random), idle = 0;
      }
      if (plan.done()) done++;
    }
    REQUIRE(done == plans.size());
    for (auto& rank : ranks) {
      results.push_back(rank->result());
      parts += rank->parts;
    }
  }
  return results;
}

bool are_same(const std::vector<Floats>& some, const std::vector<Floats>& others) {
  return std::ranges::equal(some, others, [](const Floats& a, const Floats& b) {
    return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
  });
}

}  // namespace

TEST_CASE("windows: runs in parts give the bits of whole ones, whichever ranks run in parts",
          "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const int cases = testing::by_effort(100, 1'500, 20'000);
  int parts = 0, runs = 0;
  for (int i = 0; i < cases; i++) {
    const auto made = random_parted_case(random);
    CAPTURE(seed, i, to_string(made.problem.kind), to_string(made.choice.algorithm),
            made.problem.size, made.problem.root, made.problem.count, made.choice.lanes,
            made.choice.slice_elems, made.in_place);
    int whole = 0;
    const auto expected = results_of(
        made, random, [](Rank) { return false; }, whole);
    const auto mixed = random() % 2 == 0;
    const auto got = results_of(
        made, random, [&](Rank rank) { return !mixed || rank % 2 == 0; }, parts);
    CHECK(are_same(got, expected));
    runs += whole;
  }
  CHECK(parts > 3 * runs);
}

TEST_CASE("windows: each has what no other has, and together they have all", "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2'000; i++) {
    const auto made = random_parted_case(random);
    const auto blocks = make_program(view_of(made.problem, 0), made.choice, 0).blocks;
    const Rank rank = static_cast<Rank>(random() % made.problem.size);
    const auto problem = view_of(made.problem, rank);
    const Windows windows(problem, rank, blocks, made.choice.slice_elems);
    CAPTURE(seed, i, to_string(made.problem.kind), made.problem.size, made.problem.count, rank);
    for (const auto buffer : {Buffer::input, Buffer::output}) {
      std::uint64_t whole = 0;
      for (Rank block = 0; has(problem, rank, buffer) && block < blocks; block++)
        if (!holds_own_block_only(problem.kind, buffer) || block == rank)
          whole += block_elems(problem, blocks, block, buffer);
      REQUIRE(elems_of(windows, buffer) <= whole);
      std::vector<int> seen(whole);
      std::uint64_t first_elems = 0;
      for (std::uint64_t window = 0; window < windows.count(); window++) {
        std::uint64_t elems = 0, before = 0;
        for (const auto& stretch : windows.stretches(buffer, window, window + 1)) {
          CHECK(stretch.first >= before);
          before = stretch.first + stretch.elems;
          elems += stretch.elems;
          for (auto at = stretch.first; at < before; at++) seen[at]++;
        }
        if (window == 0) first_elems = elems;
        CHECK(elems <= first_elems);
      }
      CHECK(std::ranges::all_of(seen, [](int times) { return times == 1; }));
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
// The traffic that plans report, against the steps that ran and the theoretical numbers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "inproc_ranks.hpp"
#include "support/effort.hpp"
#include "support/hosts.hpp"

using namespace ccoll;
using ccoll::test::Links;

namespace {

/// Adds up the data that each step has sent and received, according to its rank's program.
class Tally final : public StepObserver {
 public:
  Tally(Program program, TrafficTable& table) : program_(std::move(program)), table_(table) {}
  void begins(const Signature& /*signature*/, std::uint64_t /*sequence*/) override {}
  void moves(std::uint16_t /*lane*/, Awaited /*what*/, Rank /*peer*/) override {}
  void ran(const StepRecord& record, std::size_t bytes) override {
    const auto& step = program_.lanes[record.lane].steps[record.step];
    for (const auto to : step.sends) table_[{to, "inproc"}] += {1, bytes, 0, 0, 0};
    for (const auto& from : step.receives) table_[{from.peer, "inproc"}] += {0, 0, 1, bytes, 0};
  }
  void ends() override {}

 private:
  const Program program_;
  TrafficTable& table_;
};

bool operator==(const Traffic& a, const Traffic& b) {
  return a.messages_sent == b.messages_sent && a.bytes_sent == b.bytes_sent &&
         a.messages_received == b.messages_received && a.bytes_received == b.bytes_received;
}

bool same(const TrafficTable& a, const TrafficTable& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second == y.second;
  });
}

TrafficTable traffic_of(const Plan& plan) {
  TrafficTable table;
  plan.add_traffic(table);
  return table;
}

Traffic total_of(const TrafficTable& table) {
  Traffic total;
  for (const auto& [of, traffic] : table) total += traffic;
  return total;
}

/// Calls of one operation, with each rank's plan observed.
class Calls {
 public:
  static constexpr auto kType = DataType::int32;
  static constexpr std::size_t kWidth = 4;

  Calls(Problem whole, const Choice& choice, std::mt19937_64& random)
      : whole_(std::move(whole)), random_(random), links_(whole_.size, random()) {
    plans_ = test::make_plans(whole_, choice, kType, links_);
    did_.resize(whole_.size);
    for (Rank rank = 0; rank < whole_.size; rank++)
      plans_[rank]->observe(
          std::make_unique<Tally>(make_program(view_of(whole_, rank), choice, rank), did_[rank]));
  }

  /// `sizes`: new block sizes; empty keeps the old ones.
  void make(std::uint64_t sequence, const std::vector<std::uint64_t>& sizes) {
    if (!sizes.empty()) whole_.block_counts = sizes;
    std::vector<std::vector<std::byte>> buffers;
    std::vector<PlanRun> runs(whole_.size);
    for (Rank rank = 0; rank < whole_.size; rank++) {
      for (auto* buffer : {&runs[rank].input, &runs[rank].output})
        buffer->data = buffers.emplace_back(kWidth * 4000).data();
      runs[rank].sequence = sequence;
      const auto view = view_of(whole_, rank);
      if (!sizes.empty()) runs[rank].block_counts = view.block_counts;
      if (!sizes.empty()) runs[rank].output_counts = view.output_counts;
      plans_[rank]->start(runs[rank]);
    }
    for (auto left = random_() % 40; left > 0; left--) {
      auto& plan = *plans_[random_() % plans_.size()];
      if (!plan.done()) REQUIRE(plan.advance());
    }
    check();
    finish();
    check();
  }

  void check() const {
    for (Rank rank = 0; rank < whole_.size; rank++) {
      CAPTURE(rank);
      CHECK(same(traffic_of(*plans_[rank]), did_[rank]));
    }
  }
  Traffic total(Rank rank) const { return total_of(traffic_of(*plans_[rank])); }

 private:
  void finish() {
    const auto done = [](const auto& plan) { return plan->done(); };
    for (int idle = 0; !std::ranges::all_of(plans_, done) && idle < 10'000; idle++) {
      auto& plan = *plans_[random_() % plans_.size()];
      if (plan.done()) continue;
      const auto moved = plan.advance();
      REQUIRE(moved);
      if (*moved) idle = 0;
    }
    REQUIRE(std::ranges::all_of(plans_, done));
  }

  Problem whole_;
  std::mt19937_64& random_;
  Links links_;
  test::Plans plans_;
  std::vector<TrafficTable> did_;
};

Problem random_problem(const CatalogueEntry& entry, bool ragged, std::mt19937_64& random) {
  Problem problem;
  problem.kind = entry.kind;
  problem.size = static_cast<Rank>(2 + random() % 7);
  if (entry.kind == Kind::reduce || entry.kind == Kind::broadcast || entry.kind == Kind::gather ||
      entry.kind == Kind::scatter)
    problem.root = static_cast<Rank>(random() % problem.size);
  problem.count = entry.kind == Kind::barrier ? 1 : random() % 200;
  const auto layouts = testing::host_layouts(entry, problem.size);
  problem.host_of = layouts[random() % layouts.size()];
  const std::size_t sizes =
      entry.kind == Kind::all_to_all ? problem.size * problem.size : problem.size;
  if (ragged)
    for (std::size_t i = 0; i < sizes; i++) problem.block_counts.push_back(random() % 60);
  return problem;
}

}  // namespace

TEST_CASE("plan traffic: it is what the steps have sent and received, at any moment",
          "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const int draws = testing::by_effort(2, 12, 200);
  for (const auto& entry : catalogue()) {
    for (int draw = 0; draw < draws; draw++) {
      const bool ragged = entry.ragged && draw % 2 == 1;
      const auto problem = random_problem(entry, ragged, random);
      const Choice choice{entry.algorithm, static_cast<std::uint16_t>(1 + random() % 3),
                          1 + random() % 90};
      CAPTURE(seed, draw, to_string(entry.kind), to_string(entry.algorithm), problem.size,
              problem.root, problem.count, choice.lanes, choice.slice_elems);
      Calls calls(problem, choice, random);
      for (std::uint64_t call = 0; call < 4; call++) {
        auto sizes = problem.block_counts;
        for (auto& size : sizes) size = call < 2 ? size : random() % 60;
        calls.make(call, sizes);
      }
    }
  }
}

TEST_CASE("plan traffic: it is what the algorithm's formulas say", "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (const auto& entry : catalogue()) {
    for (int draw = 0; draw < testing::by_effort(2, 8, 100); draw++) {
      const auto problem = random_problem(entry, false, random);
      const auto theory = entry.theory(problem);
      // The formulas count the messages of one window in which every block has a slice.
      if (problem.count < problem.size && entry.kind != Kind::barrier) continue;
      CAPTURE(seed, draw, to_string(entry.kind), to_string(entry.algorithm), problem.size,
              problem.root, problem.count);
      Calls calls(problem, {entry.algorithm, 1, 200}, random);
      for (std::uint64_t call = 0; call < 3; call++) calls.make(call, {});
      Traffic all, most;
      for (Rank rank = 0; rank < problem.size; rank++) {
        const auto one = calls.total(rank);
        all += one;
        most.messages_sent = std::max(most.messages_sent, one.messages_sent);
        most.bytes_sent = std::max(most.bytes_sent, one.bytes_sent);
      }
      CHECK(all.messages_sent == 3 * theory.total.messages);
      CHECK(all.bytes_sent == 3 * theory.total.elems_sent * Calls::kWidth);
      CHECK(most.messages_sent == 3 * theory.busiest.messages);
      CHECK(most.bytes_sent == 3 * theory.busiest.elems_sent * Calls::kWidth);
      CHECK(all.messages_received == all.messages_sent);
      CHECK(all.bytes_received == all.bytes_sent);
    }
  }
}

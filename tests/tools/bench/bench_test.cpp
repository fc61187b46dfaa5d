// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "bench/command/info.hpp"
#include "bench/command/names.hpp"
#include "bench/measure/data.hpp"
#include "bench/measure/measure.hpp"
#include "bench/measure/operations.hpp"
#include "bench/measure/trial.hpp"
#include "bench/report/report.hpp"
#include "kernels/combine.hpp"
#include "support/ranks.hpp"
#include "trial_cases.hpp"

using namespace ccoll;
using namespace ccoll::bench;

namespace {

/// Combines `parts` in a random order and grouping, as some algorithm might.
std::vector<std::byte> combine_somehow(std::vector<std::vector<std::byte>> parts, DataType type,
                                       ReduceOp op, std::mt19937& random) {
  const CombineFunction combine = find_combine(type, op);
  const auto size = static_cast<std::uint32_t>(parts.size());
  while (parts.size() > 1) {
    std::shuffle(parts.begin(), parts.end(), random);
    const std::size_t taken = 2 + random() % std::min<std::size_t>(3, parts.size() - 1);
    std::vector<const std::byte*> sources;
    for (std::size_t i = 0; i < taken; i++) sources.push_back(parts[parts.size() - 1 - i].data());
    std::vector<std::byte> out(parts[0].size());
    const bool is_last = taken == parts.size();
    combine(sources.data(), taken, out.data(), kPeriod, is_last && op == ReduceOp::avg ? size : 1);
    parts.resize(parts.size() - taken);
    parts.push_back(std::move(out));
  }
  return parts[0];
}

std::chrono::nanoseconds thread_cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

TEST_CASE("the table fits 80 columns and marks unsteady times", "[bench][unit]") {
  Row row;
  row.bytes = std::uint64_t{64} << 30;
  row.type = "bfloat16";
  row.reduce_op = "product";
  row.root = 63;
  row.algorithm = "recursive_doubling";
  row.transport = "inproc";
  row.timing = summarise({100, 100, 100, 120, 120}, {});
  const Table table(*find_operation("reduce"), {.width = 120});
  const std::string steady = table.line(row);
  CHECK(steady.size() <= 120);
  CHECK(steady.find('~') == std::string::npos);
  CHECK(steady.find("recursive_doubling") != std::string::npos);
  row.timing = summarise({100, 100, 100, 150, 150}, {});
  CHECK(row.timing.spread == Approx(0.5));
  CHECK(table.line(row).find("100.0~") != std::string::npos);
  CHECK(table.heading().find("root") != std::string::npos);
  CHECK(Table(*find_operation("barrier"), {}).heading().find("root") == std::string::npos);
  // A value that all rows share is shown above the table; the usual table has all other columns.
  const Extras alike{.types = false, .reductions = false, .roots = false};
  row.bytes = 32 << 20;
  const Table usual(*find_operation("reduce"), alike);
  CHECK(usual.line(row).size() <= 80);
  CHECK_THAT(usual.heading(), Catch::Contains("p99") && Catch::Contains("via") &&
                                  !Catch::Contains("root") && !Catch::Contains("redop"));
  row.firsts = FirstCalls{1234.5, 234.5};
  const Extras with_first{.first = true, .types = false, .reductions = false, .roots = false};
  const Table first(*find_operation("reduce"), with_first);
  CHECK(first.line(row).size() <= 80);
  CHECK_THAT(first.line(row), Catch::Contains("1234   234.5"));
  CHECK_THAT(first.heading(), Catch::Contains("first    2-20"));
  // If there is too little room, the least informative columns go first.
  const Extras narrow{.types = false, .reductions = false, .roots = false, .width = 66};
  CHECK(Table(*find_operation("reduce"), narrow).line(row).size() <= 66);
  CHECK_THAT(Table(*find_operation("reduce"), narrow).heading(),
             Catch::Contains("busbw") && !Catch::Contains("p99"));
}

TEST_CASE("inputs make the same bits in every order of combining", "[bench][property]") {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (const DataType type : kDataTypes) {
    for (const ReduceOp op : kReduceOps) {
      if (!is_defined(op, type)) continue;
      for (const int size : {1, 2, 3, 5, 8, 64, 300}) {
        CAPTURE(seed, to_string(type), to_string(op), size);
        const Recipe recipe{type, op, size};
        std::vector<std::vector<std::byte>> inputs;
        for (int r = 0; r < size; r++) inputs.push_back(make_input_period(recipe, r));
        const auto expected = make_reduced_period(recipe);
        for (int attempt = 0; attempt < 3; attempt++) {
          CHECK(combine_somehow(inputs, type, op, random) == expected);
        }
      }
    }
  }
}

TEST_CASE("a pattern's values differ between ranks and places", "[bench][property]") {
  for (const DataType type : kDataTypes) {
    Patterns patterns({type, ReduceOp::sum, 4});
    // Few float8 numbers add up exactly, and there are only two bools.
    const bool is_poor = type >= DataType::float8_e4m3;
    const std::uint64_t most_differ = is_poor ? kPeriod / 4 : kPeriod * 9 / 10;
    const auto a = patterns.input(0);
    const auto b = patterns.input(1);
    CAPTURE(to_string(type));
    CHECK(count_wrong(a.data(), kPeriod, size_of(type), b, 0) > most_differ);
    CHECK(count_wrong(a.data(), kPeriod - 1, size_of(type), a, 1) > most_differ);
  }
}

TEST_CASE("the check finds unwritten, wrong and overrun elements, and nothing else",
          "[bench][property]") {
  check_trials({.fill =
                    [](std::byte* data, const Segment& segment, std::span<const std::byte> period) {
                      fill(data, segment.elems, 4, period, segment.first);
                    },
                .flip = [](std::byte* byte) { *byte = ~*byte; }});
}

TEST_CASE("what a program has just computed is still what it contributes", "[bench][unit]") {
  Patterns patterns({DataType::float32, ReduceOp::sum, 2});
  Trial trial(*find_operation("reduce"), {2, 1, 0, 2000}, false, false, patterns);
  trial.arm();
  trial.renew();
  CHECK(trial.count_wrong_elems() == 0);
}

TEST_CASE("bus bandwidth factors are nccl-tests'", "[bench][unit]") {
  CHECK(find_operation("all_reduce")->bus_factor(4) == Approx(1.5));
  for (const char* name : {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"}) {
    CHECK(find_operation(name)->bus_factor(4) == Approx(0.75));
    CHECK(find_operation(name)->over_blocks);
  }
  for (const char* name : {"broadcast", "reduce", "send_recv"}) {
    CHECK(find_operation(name)->bus_factor(4) == 1);
  }
}

TEST_CASE("a row's time is the median of its batches", "[bench][unit]") {
  const Timing batches = summarise({5, 1, 9}, {});
  CHECK(batches.usec == 5);
  CHECK(batches.min_us == 1);
  CHECK(batches.max_us == 9);
  std::vector<double> calls(100);
  std::iota(calls.begin(), calls.end(), 1.0);
  const Timing single = summarise({50}, calls);
  CHECK(single.p50_us == 50);
  CHECK(single.p99_us == 99);
  CHECK(single.max_us == 100);
  CHECK(plan_batches(1, {}).calls == 20000);
  CHECK(plan_batches(50, {}).calls == 1000);
  CHECK(plan_batches(30000, {}).calls == 3);
  CHECK(plan_batches(1, {4, 0}).count == 4);
  CHECK(plan_batches(1, {90, 0}).calls == 10);
  const Batches uneven = plan_batches(1, {20, 0});
  CHECK(uneven.count * uneven.calls + uneven.rest == 20);
}

TEST_CASE("what runs before every call does not count", "[bench]") {
  Communicator alone = Communicator::create(make_inproc_store(), 0, 1);
  constexpr std::chrono::milliseconds kBetween{20};
  int calls = 0, between = 0;
  const auto timing = measure(
      alone, {.iters = 12, .warmup = 2}, [&] { calls++; },
      [&] {
        CHECK(between == calls - 2);
        between++;
        std::this_thread::sleep_for(kBetween);
      });
  CHECK(calls == 14);
  CHECK(between == 12);
  CHECK(timing.iters == 12);
  CHECK(timing.usec < std::chrono::duration<double, std::micro>(kBetween).count());
}

TEST_CASE("a row's time is what the caller's clock says of the slowest rank", "[bench]") {
  std::vector<Timing> timings(2);
  std::vector<std::uint64_t> calls(2);
  const auto errors = testing::run_ranks(2, {}, [&](Communicator& pair) {
    const auto index = static_cast<std::size_t>(pair.rank());
    const auto by_hand = [&](std::uint64_t count, bool singly) {
      calls[index] += count;
      std::vector<double> times(singly ? count + 1 : 1, 70.0 + 30.0 * double(index));
      return times;
    };
    timings[index] = measure(pair, {.iters = 20, .warmup = 3}, by_hand);
  });
  for (const auto& error : errors) CHECK(error == "");
  for (const Timing& timing : timings) {
    CHECK(timing.usec == 100);
    CHECK(timing.p50_us == 100);
    CHECK(timing.iters == 20);
  }
  CHECK(calls == std::vector<std::uint64_t>{23, 23});
}

TEST_CASE("the first call and those up to the twentieth have times of their own", "[bench]") {
  std::vector<FirstCalls> firsts(2);
  const auto errors = testing::run_ranks(2, {}, [&](Communicator& pair) {
    std::uint64_t made = 0;
    // The slowest rank's first call takes 900, and the next 19 take 90.
    const auto by_hand = [&](std::uint64_t count, bool singly) {
      const double time = made == 0 ? 900 : 90;
      testing::expect(count == (made == 0 ? 1 : 19), "calls of a batch");
      made += count;
      return std::vector<double>(singly ? count + 1 : 1, pair.rank() == 1 ? time : time / 2);
    };
    firsts[static_cast<std::size_t>(pair.rank())] = measure_first(pair, by_hand);
    testing::expect(made == kEarlyCalls, "calls in all");
  });
  for (const auto& error : errors) CHECK(error == "");
  for (FirstCalls& each : firsts) {
    each.divide_by(2);
    CHECK((each.first_us == 450 && each.early_us == 45));
  }
  Communicator alone = Communicator::create(make_inproc_store(), 0, 1);
  std::uint64_t calls = 0, between = 0;
  measure_first(
      alone, [&] { calls++; }, [&] { between++; });
  CHECK((calls == kEarlyCalls && between == kEarlyCalls));
}

TEST_CASE("waiting costs what it is spent on, and a call that does not go on by itself takes twice",
          "[bench]") {
  constexpr std::chrono::milliseconds kLate{60};
  std::vector<double> spins(2), sleeps(2);
  const auto errors = testing::run_ranks(2, {}, [&](Communicator& pair) {
    const auto index = static_cast<std::size_t>(pair.rank());
    sleeps[index] = measure_waiting(pair, kLate, RankIs::thread, [&] { pair.barrier(); });
    spins[index] = measure_waiting(pair, kLate, RankIs::thread, [&] {
      // Waits for CPU time, however little of a core it gets.
      const auto cpu_time = [before = thread_cpu_time()] { return thread_cpu_time() - before; };
      while (pair.rank() == 0 && cpu_time() < kLate) continue;
      pair.barrier();
    });
  });
  for (const auto& error : errors) CHECK(error == "");
  CHECK(spins[0] == spins[1]);
  CHECK(spins[0] >= 100);
  CHECK(sleeps[0] < spins[0] / 2);

  Communicator alone = Communicator::create(make_inproc_store(), 0, 1);
  CHECK(measure_overlap(alone, 20'000, [] {}) == Approx(1).epsilon(0.3));
  const auto alone_only = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  CHECK(measure_overlap(alone, 20'000, alone_only) == Approx(2).epsilon(0.3));
}

TEST_CASE("the CSV form has exactly the promised columns", "[bench][unit]") {
  Row row;
  row.op = "all_reduce";
  row.ranks = 4;
  row.bytes = 1024;
  row.count = 256;
  row.type = "float32";
  row.reduce_op = "sum";
  row.algorithm = "ring";
  row.transport = "tcp";
  row.memory = "registered";
  row.timing = summarise({2}, {});
  row.timing.iters = 9;
  row.algbw = 0.512;
  row.busbw = 0.768;
  const std::string header = kCsvHeader;
  CHECK(header ==
        "label,op,ranks,bytes,usec,algbw_GBps,busbw_GBps,wrong,dtype,redop,root,in_place,algo,"
        "transport,iters,min_us,p50_us,p99_us,max_us,count,spread_pct,baseline_usec,"
        "wait_cpu_pct,overlap_ratio,memory,first_us,early_us");
  CHECK(csv_line("x", row) ==
        "x,all_reduce,4,1024,2.00,0.512,0.768,,float32,sum,-1,0,ring,tcp,9,2.00,2.00,2.00,2.00,"
        "256,0.0,,,,registered,,");
  row.firsts = FirstCalls{12.5, 3};
  row.wrong = 3;
  const std::string line = csv_line("x", row);
  CHECK(line.find(",0.768,3,float32,") != std::string::npos);
  CHECK(line.ends_with(",registered,12.50,3.00"));
  row.device = "cuda";
  row.graph_calls = 7;
  row.put_cpu_us = 1.5;
  CHECK(csv_line("x", row) == line + ",cuda,7,1.50");
  CHECK(std::string(kCsvDeviceHeader) == ",device,graph_calls,put_cpu_us");
  CHECK(std::count(line.begin(), line.end(), ',') == std::count(header.begin(), header.end(), ','));
}

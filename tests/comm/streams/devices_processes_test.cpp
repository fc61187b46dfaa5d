// SPDX-License-Identifier: Apache-2.0
// Ranks as processes, or as threads of several, on GPUs that the host plays. Devices use stream
// steps on a shared GPU, or the team kernel on a GPU each (CCOLL_TEST_DEVICE_WAY=team). A rank may
// be killed, or memory may not be shareable. It is a separate program because it forks.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "any_device.hpp"
#include "devices.hpp"
#include "devices_processes.hpp"
#include "support/children.hpp"
#include "support/effort.hpp"
#include "support/logged.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

/// Random calls, plain and in graphs, on device and host memory, against the same calls on the
/// host.
void try_calls(Communicator& c, Communicator& host, unsigned seed, bool may_allocate = true) {
  std::mt19937 same(seed), own(seed + 1 + static_cast<unsigned>(c.rank()));
  const OwnedStream stream;
  const int trials = by_effort(8, 25, 300);
  for (int i = 0; i < trials; i++) {
    const std::size_t counts[] = {0, 1, 100, 30'011};
    Collective call{kKinds[same() % std::size(kKinds)], counts[same() % std::size(counts)],
                    static_cast<int>(same() % static_cast<unsigned>(c.size()))};
    if (same() % 8 == 0) call.op = Reduction::premultiplied_sum(3);
    const bool in_graph = same() % 3 == 0;
    const auto input = ramp(call.elems(true, c.size()), 100 * c.rank() + i);
    Values expected(call.elems(false, c.size()), -1);
    const auto some_kind = [&] {
      const MemoryKind kind = kind_of(own());
      return kind == MemoryKind::allocated && !may_allocate ? MemoryKind::ordinary : kind;
    };
    const AnyDevice from(input, some_kind(), own() % 3), to(expected, some_kind(), own() % 3);
    Values here = expected;
    const bool from_there = own() % 4 != 0, to_there = own() % 4 != 0;
    const bool in_group = same() % 4 == 0;
    const auto make = [&] {
      std::optional<CallGroup> group;
      if (in_group) group.emplace();
      call.make(c, from_there ? static_cast<const void*>(from.data()) : input.data(),
                to_there ? to.data() : here.data(), in(stream), false);
      if (in_group) {
        c.barrier(in(stream));
        group->end();
      }
    };
    if (in_graph) {
      const Graph graph(stream, make);
      for (int launch = 0; launch < 3; launch++) graph.launch(stream);
      stream.wait();
    } else {
      make();
      stream.wait();
    }
    call.make(host, input.data(), expected.data(), {}, false);
    expect((to_there ? to.values() : here) == expected,
           fmt::format("{} of {}{}", to_string(call.kind), call.count,
                       in_graph ? ", in a graph" : ""));
  }
  expect(c.error().empty(), c.error());
}

/// Only kernels use words.
void tiny_slices_go_by_words(Communicator& c) {
  const OwnedStream stream;
  const Device ones(Values(9, 1));
  const int before = cuda_on_host_team_kernels_by_words();
  sums(c, ones, 9, stream).wait();
  expect(ones.values() == Values(9, c.size()), "tiny sums");
  expect((cuda_on_host_team_kernels_by_words() > before) == has_gpus, "tiny slices go by words");
}

void calls_are_right() {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  for (const auto& [processes, of_each] : {std::pair{2, 1}, {3, 1}, {2, 2}}) {
    run_processes(
        fmt::format("{} processes of {} ranks", processes, of_each),
        {.processes = processes, .of_each = of_each}, [seed](Communicator& c, Communicator& host) {
          expect(way_of(c) == way_then(), "it is by " + way_of(c));
          expect(c.counters().device_workspace_bytes > 0, "it has no workspace");
          try_calls(c, host, seed);
          tiny_slices_go_by_words(c);
          // A communicator made from it chooses a way of its own.
          auto half = c.split(c.rank() % 2, 0);
          // A team needs one rank, or a GPU per rank.
          const bool is_team = half->size() == 1 || way_then() == "team";
          expect(way_of(*half) == (is_team ? "team" : "steps"), "a split is by " + way_of(*half));
          const OwnedStream stream;
          const Device ones(Values(9, 1));
          sums(*half, ones, 9, stream).wait();
          expect(ones.values() == Values(9, half->size()), "a split's sums");
        });
  }
}

void memory_that_cannot_be_shared() {
  for (const std::string fault : {"export", "import", "apart"}) {
    run_processes("fault " + fault, {.fault = fault}, [&](Communicator& c, Communicator& host) {
      expect(c.counters().device_workspace_bytes == 0, "it is by " + way_of(c));
      try_calls(c, host, 1, fault != "export");
    });
  }
  for (const std::string fault : {"handle", "open", "elsewhere"}) {
    run_processes("fault " + fault, {.fault = fault}, [&](Communicator& c, Communicator& host) {
      expect(way_of(c) == way_then(), "it is by " + way_of(c));
      try_calls(c, host, 1);
      // Memory that others would have opened by then if they could.
      const OwnedStream stream;
      const AnyDevice ones(Values(9000, 1), MemoryKind::registered, 0),
          all(Values(18'000, -1), MemoryKind::registered, 0);
      const Graph graph(stream, [&] {
        c.all_gather(ConstBlock(ones.data(), 9000, kType),
                     Block(all.data(), c.size() * 9000, kType), in(stream));
      });
      graph.launch(stream);
      stream.wait();
      expect(all.values() == Values(18'000, 1), "what all have is gathered");
      expect(fault == "elsewhere" || cuda_on_host_opened() == 0, "something was opened");
    });
  }
}

/// If kernels cannot communicate, streams still can.
void kernels_that_do_not_work() {
  for (const std::string fault : {"lonely", "garbled", "mute", "halved"}) {
    run_processes("fault " + fault, {.fault = fault}, [&](Communicator& c, Communicator& host) {
      expect(way_of(c) == "steps", "it is by " + way_of(c));
      try_calls(c, host, 1);
    });
  }
  const auto told = logged([] {
    run_processes(
        "one rank's kernels are refused", {},
        [](Communicator& c, Communicator& host) {
          expect(way_of(c) == "steps", "it is by " + way_of(c));
          try_calls(c, host, 1);
        },
        [](int process) { cuda_on_host_refuses(1, process == 1); });
  });
  const std::string remark = "collectives of 2 ranks' GPUs go by steps, if they can, not by team: ";
  const auto at = told.find(remark);
  check(at != told.npos && told.find(remark, at + 1) == told.npos &&
            told.find("rank 1 gave up: launching a team's 1 blocks", at) != told.npos,
        "one remark says why: " + told);
}

void other_calls() {
  // Both have the same steps: they differ in their signatures alone.
  run_processes("sum and max", {}, [](Communicator& c, Communicator&) {
    const OwnedStream stream;
    const Device buffer(Values(100, 1));
    auto options = in(stream);
    options.label = c.rank() == 0 ? "gradients" : "weights";
    auto work = c.all_reduce_async(Block(buffer.data(), 100, kType),
                                   c.rank() == 0 ? ReduceOp::sum : ReduceOp::max, options);
    const auto told = message_of([&] { work.wait(); });
    expect(told.find("gradients") != std::string::npos && told.find("weights") != std::string::npos,
           "told: " + told);
    stream.wait();
  });
}

void a_rank_that_does_not_come() {
  run_processes(
      "a rank that does not come", {.timeout = 400ms}, [](Communicator& c, Communicator&) {
        const OwnedStream stream;
        const Device buffer(Values(100, 1));
        std::string told;
        if (c.rank() == 0) {
          auto work = sums(c, buffer, 100, stream);
          told = message_of([&] { work.wait(); });
          stream.wait();
        } else {
          wait_for_error(c);
          told = c.error();
        }
        expect(
            told.find("timed out") != std::string::npos && told.find("rank 1") != std::string::npos,
            "told: " + told);
      });
}

/// cudaMalloc memory, registered on some ranks; each in turn frees its memory and allocates again.
/// New memory at the old address must count as other memory on all ranks.
void registered_and_freed() {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  run_processes("registered and freed", {.processes = 3}, [seed](Communicator& c, Communicator&) {
    constexpr std::size_t kCount = 20'000, kBytes = kCount * sizeof(std::int32_t);
    const auto ranks = static_cast<std::size_t>(c.size());
    std::mt19937 own(seed + static_cast<unsigned>(c.rank()));
    const OwnedStream stream;
    int again = 0, opened = 0;
    const void* was = nullptr;
    const int rounds = by_effort(10, 40, 400);
    for (int round = 0; round < rounds; round++) {
      void* data = nullptr;
      // It starts at a random offset; equal sizes make it reuse the same address.
      constexpr std::size_t kMostSkipped = 100;
      check_cuda(cudaMalloc(&data, 4 * kMostSkipped + (1 + ranks) * kBytes), "cudaMalloc");
      again += data == was ? 1 : 0;
      was = data;
      auto* const begin = static_cast<std::int32_t*>(data) + own() % kMostSkipped;
      Memory memory;
      if (own() % 3 != 0) memory = register_memory(begin, (1 + ranks) * kBytes);
      const auto mine = ramp(kCount, 1000 * round + c.rank());
      Values gathered(ranks * kCount, -1);
      auto* const there = begin + kCount;
      check_cuda(cudaMemcpy(begin, mine.data(), kBytes, cudaMemcpyHostToDevice), "copying there");
      check_cuda(cudaMemcpy(there, gathered.data(), ranks * kBytes, cudaMemcpyHostToDevice),
                 "copying there");
      for (int call = 0; call < 3; call++) {
        // In a graph, calls wait until others have opened the memory.
        const auto gather = [&] {
          c.all_gather(ConstBlock(begin, kCount, kType), Block(there, c.size() * kCount, kType),
                       in(stream));
        };
        if (call == 1) {
          const Graph graph(stream, gather);
          graph.launch(stream);
          stream.wait();
        } else {
          gather();
        }
      }
      stream.wait();
      opened = std::max(opened, cuda_on_host_opened());
      Values expected;
      for (int rank = 0; rank < c.size(); rank++)
        for (const auto value : ramp(kCount, 1000 * round + rank)) expected.push_back(value);
      check_cuda(cudaMemcpy(gathered.data(), there, ranks * kBytes, cudaMemcpyDeviceToHost),
                 "copying back");
      expect(gathered == expected, fmt::format("round {}", round));
      expect(memory.reset_within(kLong), "it is not back");
      check_cuda(cudaFree(data), "cudaFree");
    }
    expect(opened > 0, "none was open");
    expect(again > 0, "none is at the same address");
  });
}

/// Many rounds of graphs alternating with plain calls.
void graphs_among_plain_calls(std::size_t count) {
  constexpr int kRounds = 4, kSums = 5;
  const int blocks = by_effort(8, 25, 250);
  run_processes("graphs and plain calls", {.processes = 2}, [&](Communicator& c, Communicator&) {
    const OwnedStream stream, other;
    const Device summed(Values(count, 0)), once(Values(count, 7));
    const Graph graph(stream, [&] {
      for (int i = 0; i < 2; i++) sums(c, summed, count, stream);
      c.broadcast(Block(once.data(), count, kType), 1, in(stream));
    });
    for (int block = 0; block < blocks; block++) {
      const Values begin(count, 2 * block + c.rank());
      check_cuda(
          cudaMemcpy(summed.data(), begin.data(), count * sizeof(begin[0]), cudaMemcpyHostToDevice),
          "copying there");
      for (int round = 0; round < kRounds; round++) {
        graph.launch(stream);
        sums(c, summed, count, stream);
        graph.launch(stream);
      }
      stream.wait();
      sums(c, once, count, other, ReduceOp::max);
      // The first call sums both ranks' values, and each later one doubles the result.
      const std::int32_t expected = (4 * block + 1) << (kRounds * kSums - 1);
      expect(summed.values() == Values(count, expected), fmt::format("block {}", block));
      other.wait();
      expect(once.values() == Values(count, 7),
             fmt::format("block {}: what does not change", block));
    }
  });
}

/// Communicators of the same ranks have room for their kernels side by side, in whatever order each
/// rank's streams reach their calls. If rank 1's GPU has no room for another, both ranks use stream
/// steps for that one.
void groups_on_small_gpus() {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  const auto told = logged([seed] {
    run_processes(
        "small GPUs", {},
        [seed](Communicator& c, Communicator& host) {
          std::vector<Communicator> groups;
          do groups.push_back(c.duplicate());
          while (way_of(groups.back()) == "team" && groups.size() < 20);
          expect(way_of(groups.back()) == "steps", "all have room");
          expect(groups.size() > 2, fmt::format("{} have room", groups.size() - 1));
          // A call of many lanes.
          constexpr std::size_t kCount = 1 << 20;
          std::atomic<bool> may_go{false};
          std::vector<std::unique_ptr<OwnedStream>> streams;
          std::vector<Device> summed;
          std::vector<std::unique_ptr<Graph>> graphs;
          for (auto& group : groups) {
            const auto& stream = *streams.emplace_back(std::make_unique<OwnedStream>());
            const auto& sum = summed.emplace_back(Values(kCount, 1));
            graphs.push_back(
                std::make_unique<Graph>(stream, [&] { sums(group, sum, kCount, stream); }));
          }
          std::vector<std::size_t> order(groups.size());
          std::iota(order.begin(), order.end(), 0);
          std::mt19937 own(seed + static_cast<unsigned>(c.rank()));
          const int rounds = by_effort(4, 6, 20);
          for (int round = 0; round < rounds; round++) {
            if (round == 0 && c.rank() == 1)
              std::ranges::reverse(order);
            else if (round != 0)
              std::ranges::shuffle(order, own);
            // The streams wait until both ranks have launched all.
            may_go = false;
            for (const auto& stream : streams) hold_until(may_go, *stream);
            for (const std::size_t i : order) {
              const bool in_graph = round % 2 != 0 && i % 3 != 1;
              in_graph ? graphs[i]->launch(*streams[i])
                       : void(sums(groups[i], summed[i], kCount, *streams[i]));
            }
            host.barrier();
            may_go = true;
            for (std::size_t i = 0; i < groups.size(); i++) {
              streams[i]->wait();
              expect(groups[i].error().empty(), groups[i].error());
              expect(summed[i].values() == Values(kCount, 2 << round), "sums");
            }
          }
          try_calls(groups.back(), host, seed);
          graphs.clear();
          groups.clear();
          host.barrier();
          // CUDA may report later that a graph is gone.
          bool is_team = false;
          for (int i = 0; i < 100 && !is_team; i++) is_team = way_of(c.duplicate()) == "team";
          expect(is_team, "what is gone is in the way");
        },
        [](int process) { cuda_on_host_has_multiprocessors(process == 1 ? 2 : 3); });
  });
  const auto at = told.find("go by steps, if they can, not by team: ");
  check(at != told.npos && told.find("rank 1: GPU 1 has room for ", at) != told.npos,
        "it is said why: " + told);
}

/// One rank reports once why the host makes the calls of GPUs that the other ranks have.
void the_way_of_some_ranks_is_told() {
  const std::map<std::set<int>, std::string> whys = {{{}, way_then()},
                                                     {{0}, "host: rank 0 without a GPU"},
                                                     {{1, 2}, "host: ranks 1, 2 without a GPU"}};
  for (const auto& [without, why] : whys) {
    const Ranks ranks{.processes = 3, .without_gpu = without};
    const auto told = logged([&] {
      run_processes(
          "a way that is told", ranks, [](Communicator&, Communicator&) {},
          [](int) { setenv("CCOLL_LOG", "info", 1); });
    });
    const std::string words = "collectives in CUDA's streams go by ";
    const auto at = told.find(words + why);
    check(at != told.npos && told.find(words) == at && told.find(words, at + 1) == told.npos,
          fmt::format("{}{} is told once, not: {}", words, why, told));
  }
}

}  // namespace

int main() {
  calls_are_right();
  the_way_of_some_ranks_is_told();
  constexpr std::size_t kTiny = 50;
  graphs_among_plain_calls(3000);
  if (has_gpus) graphs_among_plain_calls(kTiny);
  memory_that_cannot_be_shared();
  other_calls();
  a_rank_that_does_not_come();
  registered_and_freed();
  a_rank_that_aborts();
  for (const auto kind : {MemoryKind::allocated, MemoryKind::registered})
    for (const bool in_graph : {false, true}) a_rank_that_is_killed(in_graph, kind);
  if (has_gpus)
    for (const bool in_graph : {false, true})
      a_rank_that_is_killed(in_graph, MemoryKind::ordinary, kTiny);
  a_rank_that_is_killed_amid_messages();
  a_rank_that_is_killed_after_a_close();
  if (has_gpus) {
    kernels_that_do_not_work();
    for (const bool is_killed : {false, true}) a_graph_that_stands(is_killed);
    groups_on_small_gpus();
  }
  std::cout << fmt::format("{} failures\n", failures);
  return failures == 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes share GPU memory and make calls by stream steps on one GPU. With
// CCOLL_TEST_GROUP=kernels they make them by the team kernel, on a GPU each. The host plays CUDA,
// with memfds as memory. It is a separate program because it forks.

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rank_processes.hpp"
#include "stream_group_parts.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"

namespace ccoll::test {

namespace {

void test_matrix(unsigned seed) {
  const int draws = testing::by_effort(1, 2, 40);
  for (const Rank size : {1U, 2U, 3U, 4U}) {
    run_processes("the matrix", size, [&](Rank rank, device::Exchange& exchange) {
      std::mt19937_64 random(seed + size);
      const auto bench = join(rank, size, exchange);
      GroupTrials trials(*bench, random, kLong);
      for (int draw = 0; draw < draws && failures == 0; draw++) {
        for (const auto& entry : catalogue())
          try_case(trials, test::random_case(entry, size, random));
      }
    });
  }
}

/// Ranks of one process on one GPU access each other's memory by pointer and import nothing.
void test_threads(unsigned seed) {
  if (!by_kernels()) setenv("CCOLL_GPU_FAULT", "import", 1);
  run_processes("ranks of one process", 1, [&](Rank, device::Exchange&) {
    auto sockets = make_sockets(3);
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < 3; rank++) {
      threads.emplace_back([&, rank] {
        SocketExchange exchange(rank, std::move(sockets[rank]));
        std::mt19937_64 random(seed);
        const auto bench = join(rank, 3, exchange);
        GroupTrials trials(*bench, random, kLong);
        for (std::size_t i = 0; i < catalogue().size(); i += 3)
          try_case(trials, test::random_case(catalogue()[i], 3, random));
        for (const MemoryKind kind : kLentKinds)
          check_lent(*bench, trials, ring_case(Kind::all_gather, 3), kind, true,
                     "ranks of one process");
        check(cuda_on_host_opened() == 0, "no process opens its own memory");
      });
    }
  });
  unsetenv("CCOLL_GPU_FAULT");
}

/// Probing finds what does not work, and all ranks hear of it.
void test_faults() {
  struct Fault {
    const char* name;
    Rank rank;
    std::string said;
  };
  const Fault faults[] = {
      {"lonely", 1, "a kernel that waits for others' did not end in time: rank "},
      {"garbled", 2, "what rank 0's kernel writes here is wrong"},
      {"mute", 1, "a kernel that waits for others' words did not end in time: rank "},
      {"halved", 2, "what rank 2's kernel writes here by words is wrong"},
      {"export", 1, "rank 1: cuMemExportToShareableHandle"},
      {"import", 0, "rank 0: mapping rank 1's GPU memory: cuMemImportFromShareableHandle"},
      {"apart", 2, "rank 2: reading the memory of rank 0's GPU gives wrong data"},
      {"words", 1, "a word that rank 1's stream writes is not seen"},
  };
  for (const auto& fault : faults) {
    const std::string name = fault.name;
    const bool is_of_kernels =
        name == "lonely" || name == "garbled" || name == "mute" || name == "halved";
    if (!by_kernels() && is_of_kernels) continue;
    run_processes(fault.name, 3, [&](Rank rank, device::Exchange& exchange) {
      if (rank == fault.rank) setenv("CCOLL_GPU_FAULT", fault.name, 1);
      auto options = options_of(rank, 3);
      if (name != "words" && name != "lonely" && name != "mute") options.trial = kLong;
      const auto made = GroupBench::make(options, exchange, in(kLong));
      check(!made, fmt::format("{} fails", fault.name));
      if (made) return;
      check(made.error().kind == ErrorKind::unsupported &&
                made.error().message.find(fault.said) != std::string::npos,
            fmt::format("{} at rank {}: {}", fault.name, rank, made.error().message));
    });
  }
}

/// Calls without a reduction run no kernel if copies are requested; all others do.
void test_by_copies(unsigned seed) {
  const int draws = testing::by_effort(1, 3, 40);
  for (const Rank size : {2U, 3U, 4U}) {
    run_processes("by copies", size, [&](Rank rank, device::Exchange& exchange) {
      std::mt19937_64 random(seed + size);
      const auto bench = join(rank, size, exchange, true);
      GroupTrials trials(*bench, random, kLong);
      const int at_first = cuda_on_host_kernels();
      try_case(trials, ring_case(Kind::all_reduce, size));
      check(cuda_on_host_kernels() > at_first, "a reduction without kernels");
      for (int draw = 0; draw < draws && failures == 0; draw++) {
        for (const auto& entry : catalogue()) {
          const auto made = test::random_case(entry, size, random);
          const int before = cuda_on_host_kernels();
          try_case(trials, made);
          const bool is_copied = !test::lowered_for_streams(made).copies.empty();
          const bool has_run = cuda_on_host_kernels() > before;
          check(!is_copied || !has_run, made.text() + " runs kernels");
        }
      }
    });
  }
}

/// Tiny calls are kernels by words, whichever ranks are in place; larger calls are not.
void test_by_words(unsigned seed) {
  for (const Rank size : {2U, 4U}) {
    run_processes("by words", size, [&](Rank rank, device::Exchange& exchange) {
      std::mt19937_64 random(seed + size);
      const auto bench = join(rank, size, exchange);
      GroupTrials trials(*bench, random, kLong);
      const auto check_case = [&](const TeamCase& made, bool is_tiny) {
        const int before = cuda_on_host_team_kernels_by_words();
        try_case(trials, made);
        check((cuda_on_host_team_kernels_by_words() > before) == is_tiny,
              fmt::format("{} goes by words: {}", made.text(), is_tiny));
      };
      for (const Algorithm algorithm : {Algorithm::ring, Algorithm::one_shot}) {
        auto made = test::case_of(Kind::all_reduce, algorithm, size, 1 + random() % 500, 1 << 20);
        for (Rank each = 0; each < size; each++) made.in_place[each] = random() % 2 == 0;
        check_case(made, true);
        made.tiny_bytes = 0;
        check_case(made, false);
        made = test::case_of(Kind::all_reduce, algorithm, size, 5000, 1 << 20);
        check_case(made, false);
      }
      const auto devices = bench->group().device_numbers();
      for (const auto& entry : catalogue()) {
        auto made = test::random_case(entry, size, random);
        made.choice.slice_elems = 4096;
        made.tiny_bytes = device::kTinyBytes;
        check_case(made, test::lowered_for_streams(made, devices).program.by_words);
      }
      // With separate buffers words would do, but no rank knows whether the others' are separate.
      auto made = test::case_of(Kind::all_reduce, Algorithm::two_shot, size, 8, 1 << 20);
      check_case(made, false);
      made.devices = devices;
      const auto apart = made.lowered();
      const auto refused = bench->group().load(apart);
      check(
          apart.program.by_words && !refused && refused.error().kind == ErrorKind::invalid_argument,
          "a program by words of ranks that are apart is refused");
      value_or_throw(exchange.swap("", {}, in(kLong)));
    });
  }
}

/// Ranks with different options, and a rank that is absent.
void test_set_up() {
  const auto differ = [](const std::string& in_what, const auto& change) {
    run_processes(in_what + " differ", 2, [&](Rank rank, device::Exchange& exchange) {
      auto options = options_of(rank, 2);
      options.trial = kLong;
      if (rank == 1) change(options);
      const auto made = GroupBench::make(options, exchange, in(kLong));
      check(!made && made.error().kind == ErrorKind::mismatch, in_what + " differ");
    });
  };
  differ("shared bytes", [](StreamGroupOptions& options) { options.shared_bytes += 64 << 10; });
  // Kernels use no links.
  if (!by_kernels()) differ("links", [](StreamGroupOptions& options) { options.links++; });
  differ("copies", [](StreamGroupOptions& options) { options.by_copies = true; });
  run_processes("a rank that is gone", 2, [&](Rank rank, device::Exchange& exchange) {
    if (rank == 1) return;
    const auto made = GroupBench::make(options_of(rank, 2), exchange, in(kLong));
    check(!made && made.error().kind == ErrorKind::peer_lost && made.error().culprit == 1,
          "a rank that is gone");
  });
}

}  // namespace

}  // namespace ccoll::test

using namespace ccoll::test;

int main() {
  if (by_kernels()) cuda_on_host_has(4);
  const auto seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  enum Of { both, kernels, steps };
  struct Part {
    const char* name;
    Of of;
    std::function<void()> run;
  };
  const Part parts[] = {
      {"set-up", both, test_set_up},
      {"memory outlives its maker", both, test_outlives},
      {"faults", both, test_faults},
      {"the matrix", both, [=] { test_matrix(seed); }},
      {"by copies", steps, [=] { test_by_copies(seed); }},
      {"what is lent", both, [=] { test_lent(seed); }},
      {"freed and taken anew", both, [=] { test_freed(seed, MemoryKind::allocated); }},
      {"registered, freed and taken anew", both, [=] { test_freed(seed, MemoryKind::registered); }},
      {"a rank that cannot map", both, [=] { test_not_mapped(seed); }},
      {"memory that is not shared", both, [=] { test_not_shared(seed); }},
      {"parts of an allocation", both, [=] { test_parts(seed); }},
      {"more memories than places", both, [=] { test_many(seed); }},
      {"ranks of one process", both, [=] { test_threads(seed); }},
      {"by words", kernels, [=] { test_by_words(seed); }},
      {"killed", both, [=] { test_killed(seed); }},
      {"killed among words", kernels, [=] { test_killed_among_words(seed); }},
      {"late", both, test_late},
      {"given up", both, [] { std::ranges::for_each(kinds_of_calls(), test_given_up); }},
      {"given up while lent", both, test_given_up_while_lent},
      {"ended here", both, test_ended_here},
      {"one beside another", kernels, [] { std::ranges::for_each(kinds_of_calls(), test_beside); }},
      {"room", kernels, [=] { test_room(seed); }},
      {"fewest blocks", kernels, test_fewest_blocks},
  };
  for (const auto& [name, of, run] : parts) {
    if (of == (by_kernels() ? steps : kernels)) continue;
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::cout << fmt::format("{}: {:.1f} s", name, took.count()) << std::endl;
  }
  return failures == 0 ? 0 : 1;
}

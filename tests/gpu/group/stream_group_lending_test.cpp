// SPDX-License-Identifier: Apache-2.0
// A rank's buffers that the others read where they are, and the end of such loans.
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "rank_processes.hpp"
#include "stream_group_parts.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"

namespace ccoll::test {

/// All ranks' buffers are lent: only slices that no schedule lends go through slots.
void test_lent(unsigned seed) {
  for (const Rank size : {2U, 3U}) {
    run_processes("what is lent", size, [&](Rank rank, device::Exchange& exchange) {
      std::mt19937_64 random(seed + size);
      const auto bench = join(rank, size, exchange);
      GroupTrials trials(*bench, random, kLong);
      for (const auto& entry : catalogue()) {
        // The ranks use different kinds.
        const MemoryKind kind = kLentKinds[(random() % 2 + rank) % 2];
        check_lent(*bench, trials, test::random_case(entry, size, random), kind, true,
                   "what is lent");
      }
      const auto made = ring_case(Kind::all_gather, size);
      const auto program = value_or_throw(bench->load(made));
      for (const MemoryKind kind : kLentKinds) {
        check_lent(*bench, trials, made, kind, true, "what is lent");
        const std::uint64_t before = bench->group().slot_bytes();
        TeamMemory memory(made, random);
        bench->use(kind);
        check(bench->run(program, memory, in(kLong)).has_value(), "a plain call");
        check(bench->group().slot_bytes() == before, "what has been mapped is lent by plain calls");
        try_case(trials, made, MemoryKind::ordinary);
        check(bench->group().slot_bytes() > before, "ordinary memory is not lent");
      }
    });
  }
}

/// New memory at the address of freed memory counts as other memory on all ranks.
void test_freed(unsigned seed, MemoryKind kind) {
  const int rounds = testing::by_effort(8, 30, 300);
  run_processes("freed and taken anew", 3, [&](Rank rank, device::Exchange& exchange) {
    std::mt19937_64 random(seed);
    const auto bench = join(rank, 3, exchange);
    GroupTrials trials(*bench, random, kLong);
    int again = 0;
    for (int round = 0; round < rounds && failures == 0; round++) {
      const std::byte* const was = bench->room(kind, 0)->data();
      bench->give_away(kind, 0).reset();
      value_or_throw(bench->take(kind, 0));
      again += bench->room(kind, 0)->data() == was ? 1 : 0;
      const auto made = ring_case(Kind::all_gather, 3);
      // Some calls come before others have mapped it, some after.
      if (round % 3 == 0) try_case(trials, made, kind);
      check_lent(*bench, trials, made, kind, true, "freed and taken anew");
      try_case(trials, made, kind);
    }
    check(again > rounds / 2, fmt::format("{} of {} are at the same address", again, rounds));
    // Memory that is returned gets unmapped.
    const auto limit = in(kLong);
    while (mappings() > 3 * kMostMappings && in(0ms) < limit) std::this_thread::sleep_for(1ms);
    check(mappings() <= 3 * kMostMappings, fmt::format("{} mappings are left", mappings()));
    const int most =
        kind == MemoryKind::registered ? 2 * (kOfSamples + int{GroupBench::kRooms}) : 0;
    check(cuda_on_host_opened() <= most, fmt::format("{} are open", cuda_on_host_opened()));
    value_or_throw(exchange.swap("", {}, in(kLong)));
  });
}

/// If one rank cannot map memory, nothing is lent, and nobody waits for it.
void test_not_mapped(unsigned seed) {
  struct Way {
    MemoryKind kind;
    const char* fault;
    std::string said;
  };
  const Way ways[] = {
      {MemoryKind::allocated, "later", "rank 1: cuMemImportFromShareableHandle"},
      {MemoryKind::registered, "open", "rank 1: cudaIpcOpenMemHandle"},
      {MemoryKind::registered, "elsewhere",
       "rank 1: reading the memory that its process shares gives wrong data"},
      {MemoryKind::registered, "endless",
       "rank 1: reading a pattern that its process shares did not end in time"},
  };
  for (const auto& [kind, fault, said] : ways) {
    run_processes(fault, 3, [&](Rank rank, device::Exchange& exchange) {
      std::mt19937_64 random(seed);
      // It can map only what the group itself needs.
      if (rank == 1) setenv("CCOLL_GPU_FAULT", fault, 1);
      const auto bench = join(rank, 3, exchange);
      GroupTrials trials(*bench, random, kLong);
      const std::uint64_t before = bench->group().slot_bytes();
      const auto made = ring_case(Kind::all_gather, 3);
      // A rank that hangs in a probe does not hear that others have mapped its memory.
      const bool may_lend = rank == 1, lends = may_lend && fault != std::string("endless");
      check_lent(*bench, trials, made, kind, lends, fault);
      const bool has_lent = bench->group().slot_bytes() == before;
      check(has_lent ? may_lend : !lends, "those lend whom all the others can map");
      value_or_throw(exchange.swap("", {}, in(kLong)));
      // The log reports it once, however many memories there are.
      check_lent(*bench, trials, made, kind, lends, fault);
      const auto times = [&] { return heard_here->count(said); };
      for (const auto limit = in(kLong); rank != 1 && times() == 0 && in(0ms) < limit;)
        std::this_thread::sleep_for(1ms);
      check(times() == (rank == 1 ? 0 : 1), fmt::format("{}: rank {} says why", fault, rank));
      value_or_throw(exchange.swap("", {}, in(kLong)));
    });
  }
}

/// CUDA gives no handle for this cudaMalloc memory; the rank that registers it reports that.
void test_not_shared(unsigned seed) {
  run_processes("no handle", 2, [&](Rank rank, device::Exchange& exchange) {
    std::mt19937_64 random(seed);
    setenv("CCOLL_GPU_FAULT", "handle", 1);
    const auto bench = join(rank, 2, exchange);
    GroupTrials trials(*bench, random, kLong);
    const std::uint64_t before = bench->group().slot_bytes();
    check_lent(*bench, trials, ring_case(Kind::all_gather, 2), MemoryKind::registered, false,
               "no handle");
    check(bench->group().slot_bytes() > before, "what others cannot have is not lent");
    check(heard_here->count("cudaIpcGetMemHandle") == 1, "no handle: it is said once");
    value_or_throw(exchange.swap("", {}, in(kLong)));
  });
}

/// Parts of one allocation are opened once, and closed exactly when the last is returned.
void test_parts(unsigned seed) {
  run_processes("parts of an allocation", 2, [&](Rank rank, device::Exchange& exchange) {
    constexpr std::uint64_t kPart = 100'000;
    const auto bench = join(rank, 2, exchange);
    std::mt19937_64 random(seed);
    const auto meet = [&] { value_or_throw(exchange.swap("", {}, in(kLong))); };
    auto allocation = value_or_throw(device::allocate_on_device(3 * kPart));
    std::vector<std::unique_ptr<device::Registered>> parts;
    for (int i = 0; i < 3; i++) {
      std::byte* const begin = allocation.get() + i * kPart;
      parts.push_back(value_or_throw(device::Registered::of_user(begin, kPart)));
      const auto overlapping = device::Registered::of_user(begin + kPart - 1, 1);
      check(!overlapping && overlapping.error().kind == ErrorKind::invalid_argument,
            "what is registered cannot be registered");
    }
    // Each rank sends this much.
    TeamCase made = ring_case(Kind::all_gather, 2);
    made.problem.count = 1000;
    const auto steps = value_or_throw(bench->load(made));
    const auto opened_are = [&](int count) {
      for (const auto limit = in(kLong); cuda_on_host_opened() != count && in(0ms) < limit;)
        std::this_thread::sleep_for(1ms);
      return cuda_on_host_opened() == count;
    };
    check(cuda_on_host_opened() == 0, "nothing is opened before it is sent");
    meet();
    for (const auto& part : parts) {
      bool lent = false, late = false;
      for (const auto limit = in(kLong); !lent && !late;) {
        const std::uint64_t before = bench->group().slot_bytes();
        const auto called =
            bench->group().call(steps, part->data(), part->data() + 8000, bench->stream());
        check(called.has_value() && bench->group().wait(in(kLong)).has_value(), "a call");
        const bool is_lent = bench->group().slot_bytes() == before;
        // Both stop after the same call.
        const std::string own = is_lent ? "lent" : in(0ms) < limit ? "" : "late";
        const auto said = value_or_throw(exchange.swap(own, {}, in(kLong)));
        lent = said[0].bytes == "lent" && said[1].bytes == "lent";
        late = said[0].bytes == "late" || said[1].bytes == "late";
      }
      check(lent, "each part is lent");
      check(cuda_on_host_opened() == kOfSamples + 1, "one allocation is opened once");
    }
    meet();
    check(parts[0]->is_back_within(kLong), "the first part is back");
    parts.pop_back();
    meet();
    check(cuda_on_host_opened() == kOfSamples + 1, "it stays open while any part may be read");
    meet();
    check(parts[1]->is_back_within(kLong), "the last part is back");
    meet();
    check(opened_are(kOfSamples), "then it is closed");
    parts.clear();
    allocation.reset();
  });
}

/// Memories beyond the number of places use slots until a place is free.
void test_many(unsigned seed) {
  run_processes("more memories than places", 2, [&](Rank rank, device::Exchange& exchange) {
    std::mt19937_64 random(seed);
    const auto bench = join(rank, 2, exchange);
    GroupTrials trials(*bench, random, kLong);
    const auto made = ring_case(Kind::all_gather, 2);
    std::vector<std::unique_ptr<test::Room>> kept;
    for (std::uint32_t i = 0; i < device::kLoanPlaces; i++) {
      const MemoryKind kind = kLentKinds[i % 2];
      check_lent(*bench, trials, made, kind, true, fmt::format("memory {}", i));
      kept.push_back(bench->give_away(kind, 0));
      value_or_throw(bench->take(kind, 0));
    }
    const std::uint64_t before = bench->group().slot_bytes();
    check_lent(*bench, trials, made, kLentKinds[0], false, "one too many");
    check(bench->group().slot_bytes() > before, "one too many is not lent");
    kept.clear();
    bench->give_away(kLentKinds[0], 0).reset();
    value_or_throw(bench->take(kLentKinds[0], 0));
    check_lent(*bench, trials, made, kLentKinds[0], true, "when there is a place again");
    value_or_throw(exchange.swap("", {}, in(kLong)));
  });
}

/// A rank that has mapped memory keeps it after the memory's owner is gone.
void test_outlives() {
  constexpr std::size_t kBytes = 100'000;
  run_processes("memory outlives its maker", 2, [&](Rank rank, device::Exchange& exchange) {
    std::vector<std::byte> here(kBytes, std::byte{0x3c});
    if (rank == 0) {
      const auto memory = value_or_throw(device::SharedMemory::make(0, kBytes));
      check(cudaMemcpy(memory->data(), here.data(), kBytes, cudaMemcpyHostToDevice) == cudaSuccess,
            "memory is written");
      const int file = memory->file().number();
      value_or_throw(exchange.swap(fmt::format("{}", memory->size()), {&file, 1}, in(kLong)));
      value_or_throw(exchange.swap("mapped", {}, in(kLong)));
      return;
    }
    auto parcels = value_or_throw(exchange.swap("", {}, in(kLong)));
    const auto memory = value_or_throw(
        device::SharedMemory::import(0, parcels[0].files.at(0), std::stoull(parcels[0].bytes)));
    parcels.clear();
    value_or_throw(exchange.swap("mapped", {}, in(kLong)));
    const auto gone = exchange.swap("", {}, in(kLong));
    check(!gone && gone.error().kind == ErrorKind::peer_lost, "the maker is gone");
    std::vector<std::byte> there(kBytes);
    check(cudaMemcpy(there.data(), memory->data(), kBytes, cudaMemcpyDeviceToHost) == cudaSuccess &&
              there == here,
          "what it wrote is there");
  });
}

}  // namespace ccoll::test

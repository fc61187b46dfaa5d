// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes share GPU memory and make calls by stream steps on one GPU. With
// CCOLL_TEST_GROUP=kernels they make them by the team kernel, on a GPU each. The host plays CUDA,
// with memfds as memory. It is a separate program because it forks.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "gpu/exchange.hpp"
#include "gpu/program/block_budget.hpp"
#include "gpu/program/rank_steps.hpp"
#include "group_bench.hpp"
#include "support/children.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/gpu/device_buffer.hpp"
#include "support/logged.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using ccoll::device::SocketExchange;
using ccoll::device::StreamGroup;
using ccoll::device::StreamGroupOptions;
using ccoll::test::GroupBench;
using ccoll::test::GroupTrials;
using ccoll::test::TeamCase;
using ccoll::test::TeamMemory;
using ccoll::testing::check;
using ccoll::testing::failures;
using ccoll::testing::kLentKinds;
using ccoll::testing::MemoryKind;

namespace {

/// Anything that does not hang ends within this time, even on a busy machine.
constexpr auto kLong = 60s;

/// How calls are made in this run of the tests.
bool by_kernels() {
  static const char* const asked = std::getenv("CCOLL_TEST_GROUP");
  return asked != nullptr && asked == std::string("kernels");
}

StreamGroup::TimePoint in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// How many mappings of shared GPU memory this process has.
std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:GPU ") != line.npos;
  return count;
}
/// The mappings of one rank once everything freed is gone: slots and rooms.
constexpr std::size_t kMostMappings = 1 + GroupBench::kRooms;
/// A rank that opens others' cudaMalloc memory also keeps their process's pattern open.
constexpr int kOfSamples = 1;

/// A socket between each two ranks: for each rank, the sockets to the others.
std::vector<std::vector<FileDescriptor>> make_sockets(Rank size) {
  std::vector<std::vector<FileDescriptor>> sockets(size);
  for (auto& each : sockets) each.resize(size);
  for (Rank a = 0; a < size; a++) {
    for (Rank b = 0; b < a; b++) {
      int pair[2] = {};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
      sockets[a][b] = FileDescriptor(pair[0]);
      sockets[b][a] = FileDescriptor(pair[1]);
    }
  }
  return sockets;
}

using Body = std::function<void(Rank rank, device::Exchange& exchange)>;

/// The log of this process, which is a rank.
const testing::Heard* heard_here = nullptr;

/// Runs a process for each rank. The rank that `dies` kills itself.
void run_processes(const std::string& what, Rank size, const Body& body,
                   std::optional<Rank> dies = std::nullopt) {
  auto sockets = make_sockets(size);
  const std::vector<testing::Heard> heard(size);
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < size; rank++) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    failures = 0;
    heard_here = &heard[rank];
    heard_here->begin();
    SocketExchange exchange(rank, std::move(sockets[rank]));
    sockets.clear();
    body(rank, exchange);
    std::cout << std::flush;
    std::_Exit(failures == 0 ? 0 : 1);
  }
  sockets.clear();
  const auto limit = in(kLong + kLong / 2);
  for (Rank rank = 0; rank < size; rank++) {
    int status = 0;
    while (waitpid(children[rank], &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > limit) kill(children[rank], SIGKILL);
      std::this_thread::sleep_for(1ms);
    }
    const bool well = dies == rank ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                   : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    check(well, fmt::format("{}: rank {} of {} ended with status {:#x}, and said: {}", what, rank,
                            size, status, heard[rank].text()));
  }
}

/// Also makes the rank's GPU the current one.
StreamGroupOptions options_of(Rank rank, Rank size) {
  StreamGroupOptions options;
  options.rank = rank;
  options.size = size;
  options.by_kernels = by_kernels();
  options.device = by_kernels() ? static_cast<int>(rank) : 0;
  testing::check_cuda(cudaSetDevice(options.device), "a device");
  return options;
}

std::unique_ptr<GroupBench> join(Rank rank, Rank size, device::Exchange& exchange,
                                 bool by_copies = false) {
  auto options = options_of(rank, size);
  options.by_copies = by_copies;
  options.shared_bytes = 4 << 20;
  options.most_blocks = by_kernels() ? 0 : 2;
  options.trial = kLong;
  return value_or_throw(GroupBench::make(options, exchange, in(kLong)));
}

void try_case(GroupTrials& trials, const TeamCase& made,
              std::optional<MemoryKind> kind = std::nullopt) {
  const Status ran = trials.run(made, kind);
  check(ran.has_value(), fmt::format("{}: {}", made.text(), ran ? "" : ran.error().message));
}

/// A ring in which every slice may be lent.
TeamCase ring_case(Kind kind, Rank size) {
  return test::case_of(kind, Algorithm::ring, size, 3'000, 100);
}

/// The bytes that this rank sends through slots if it can lend all that the schedule lends.
std::uint64_t bytes_not_lent(const TeamCase& made, Rank rank) {
  const auto steps = device::steps_of(test::lowered_for_streams(made), rank).value();
  std::uint64_t bytes = 0;
  for (const auto& fold : steps.folds) {
    const bool is_lent = fold.lent.is_any() && !(fold.lent.if_separate && made.in_place[rank]);
    if (fold.is_to_slot && !is_lent) bytes += fold.bytes;
  }
  return bytes;
}

/// It uses a graph, because a captured call waits until others have mapped the memory to lend.
void check_lent(GroupBench& bench, GroupTrials& trials, const TeamCase& made, MemoryKind kind,
                bool is_lent, const std::string& what) {
  const std::uint64_t before = bench.group().slot_bytes();
  const Status ran = trials.replay(made, 2, kind);
  check(ran.has_value(),
        fmt::format("{}: {}: {}", what, made.text(), ran ? "" : ran.error().message));
  const std::uint64_t bytes = bench.group().slot_bytes() - before;
  const bool by_words =
      test::lowered_for_streams(made, bench.group().device_numbers()).program.by_words;
  const std::uint64_t expected = by_words ? 0 : bytes_not_lent(made, bench.rank());
  // If the call is in place, ranges that both buffers use may be missing on this rank.
  const bool may_be_less = made.in_place[bench.rank()];
  check(!is_lent || bytes == expected || (may_be_less && bytes < expected),
        fmt::format("{}: {}: {} bytes in slots, {} are not lent", what, made.text(), bytes,
                    expected));
}

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

/// A call of many steps.
TeamCase long_case(Rank size) { return ring_case(Kind::all_reduce, size); }

/// A call that uses words, if there are any.
TeamCase tiny_case(Rank size) {
  return test::case_of(Kind::all_reduce, Algorithm::ring, size, 50, 50);
}

using MakeCase = TeamCase (*)(Rank size);
/// Stream steps treat a call by words like any other.
std::vector<MakeCase> kinds_of_calls() {
  if (!by_kernels()) return {long_case};
  return {long_case, tiny_case};
}

/// A rank that is about to make such a call.
struct LongCall {
  LongCall(Rank rank, Rank size, device::Exchange& exchange, std::uint64_t seed = 1,
           MakeCase make = long_case)
      : random(seed), bench(join(rank, size, exchange)), made(make(size)) {}

  std::mt19937_64 random;
  const std::unique_ptr<GroupBench> bench;
  const TeamCase made;
  const device::GroupProgram* const program = value_or_throw(bench->load(made));
  TeamMemory memory{made, random};
};

/// The stream has finished and still works, and the group reports why it has failed.
void check_survivor(GroupBench& bench, Rank rank, const device::GroupProgram* program,
                    const Status& ended, const std::string& what) {
  const std::string said = ended ? "no error" : ended.error().message;
  const bool is_over = !ended && said.find("may still be written") == said.npos;
  check(is_over, what + ": " + said);
  if (!is_over) return;
  check(cudaStreamSynchronize(bench.stream()) == cudaSuccess, what + ": the stream ends");
  std::mt19937_64 random(1);
  TeamMemory memory(long_case(rank + 1), random);
  GroupBench::Trip trip(bench, 0, memory);
  const TeamMemory before = memory;
  check(trip.go(bench.stream()).has_value() &&
            cudaStreamSynchronize(bench.stream()) == cudaSuccess && trip.come_back().has_value() &&
            memory == before,
        what + ": the stream still works");
  const Status refused = bench.group().call(program, trip.input(), trip.output(), bench.stream());
  check(!refused && !ended && refused.error().kind == ended.error().kind,
        what + ": further calls are refused with the cause");
}

/// Dies after some looks. Each look lets the stream make progress.
void look_and_die(GroupBench& bench, std::size_t looks) {
  const auto event = value_or_throw(device::make_event());
  cudaEventRecord(event.get(), bench.stream());
  for (; looks > 0; looks--) cudaEventQuery(event.get());
  kill(getpid(), SIGKILL);
}

/// Rank 1 dies in the middle of a call; another call may be queued behind it.
void test_killed(unsigned seed) {
  const int rounds = testing::by_effort(2, 6, 60);
  for (int round = 0; round < rounds; round++) {
    const Rank size = 2 + round % 3;
    const auto what = fmt::format("killed in round {} of seed {}", round, seed);
    run_processes(
        what, size,
        [&](Rank rank, device::Exchange& exchange) {
          LongCall call(rank, size, exchange, seed + round);
          auto& [random, bench, made, program, memory] = call;
          if (round % 3 != 0) {
            // The memory is being read while its owner dies.
            GroupTrials trials(*bench, random, kLong);
            check_lent(*bench, trials, made, kLentKinds[round % 2], true, what);
          }
          GroupBench::Trip trip(*bench, 0, memory), next(*bench, 1, memory);
          check(bench->begin(program, trip).has_value(), what);
          if (round % 2 == 0) check(bench->begin(program, next).has_value(), what);
          // All have called before any gives up.
          value_or_throw(exchange.swap("", {}, in(kLong)));
          if (rank == 1) look_and_die(*bench, random() % 5);
          const auto begin = std::chrono::steady_clock::now();
          const Status ended = bench->group().wait(in(500ms));
          check(std::chrono::steady_clock::now() - begin < 20s, what + ": ends in time");
          check_survivor(*bench, rank, program, ended, fmt::format("{}: rank {}", what, rank));
          const std::string said = ended ? "" : ended.error().message;
          const char* const stands = by_kernels() ? "steps of call" : "stands after";
          check(said.find(stands) != said.npos, what + " says where it stands: " + said);
        },
        1);
  }
}

/// Rank 1 dies among tiny calls; those before are complete, and none is queued.
void test_killed_among_words(unsigned seed) {
  const int rounds = testing::by_effort(3, 8, 80);
  for (int round = 0; round < rounds; round++) {
    const Rank size = 2 + round % 3;
    const auto what = fmt::format("killed among words in round {} of seed {}", round, seed);
    run_processes(
        what, size,
        [&](Rank rank, device::Exchange& exchange) {
          LongCall call(rank, size, exchange, seed + round, tiny_case);
          auto& [random, bench, made, program, memory] = call;
          testing::TeamOnHost host(512, 8192);
          const auto lowered = test::lowered_for_streams(made);
          const std::size_t last = random() % 20;
          for (std::size_t i = 0;; i++) {
            TeamMemory here(made, random), expected = here;
            host.run(lowered, expected.buffers(), 1);
            if (i == last) value_or_throw(exchange.swap("", {}, in(kLong)));
            if (i == last && rank == 1) {
              GroupBench::Trip trip(*bench, 0, here);
              check(bench->begin(program, trip).has_value(), what);
              look_and_die(*bench, random() % 8);
            }
            const Status ran = bench->run(program, here, i < last ? in(kLong) : in(500ms));
            if (!ran) {
              check(i >= last, fmt::format("{}: call {} of {} before", what, i, last));
              check_survivor(*bench, rank, program, ran, fmt::format("{}: rank {}", what, rank));
              return;
            }
            check(i <= last, what + ": a call without it");
            check(std::ranges::equal(here.all(rank), expected.all(rank)),
                  fmt::format("{}: bits of call {}", what, i));
          }
        },
        1);
  }
}

/// Rank 1 never calls: a rank that waits for it reports that at its deadline.
void test_late() {
  run_processes("late", 2, [&](Rank rank, device::Exchange& exchange) {
    LongCall call(rank, 2, exchange);
    auto& [random, bench, made, program, memory] = call;
    if (rank == 0) {
      GroupBench::Trip trip(*bench, 1, memory);
      check(bench->begin(program, trip).has_value(), "late: the call is begun");
      const Status ended = bench->group().wait(in(300ms));
      const std::string said = ended ? "no error" : ended.error().message;
      // Earlier calls are those that probed the kernels.
      const char* const stands = by_kernels() ? "rank 0's lane 0 not ended after 1 steps of call 6"
                                              : "waits for slice 1 of rank 1 (which has sent 0)";
      check(!ended && ended.error().kind == ErrorKind::timed_out && said.find(stands) != said.npos,
            "late: it says for whom it waits: " + said);
      check_survivor(*bench, rank, program, ended, "late");
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
  });
}

/// After a group has been given up, ranks that have mapped memory may still read it.
void test_given_up_while_lent() {
  run_processes("given up while lent", 2, [&](Rank rank, device::Exchange& exchange) {
    std::mt19937_64 random(1);
    auto bench = join(rank, 2, exchange);
    GroupTrials trials(*bench, random, kLong);
    for (const MemoryKind kind : kLentKinds)
      check_lent(*bench, trials, ring_case(Kind::all_gather, 2), kind, true, "given up while lent");
    value_or_throw(exchange.swap("", {}, in(kLong)));
    const std::size_t before = mappings();
    check(cuda_on_host_opened() == kOfSamples + 1, "given up while lent: one is open");
    const auto registered = bench->give_away(MemoryKind::registered, 0);
    if (rank == 0) {
      bench->group().abort({ErrorKind::aborted, "enough", std::nullopt});
      bench->give_away(MemoryKind::allocated, 0).reset();
      check(!registered->lent().is_back_within(100ms), "given up while lent: it is not back");
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
    // Others soon hear that it is gone.
    std::this_thread::sleep_for(100ms);
    check(mappings() == before - (rank == 0 ? 1 : 0), "given up while lent: it stays mapped");
    check(cuda_on_host_opened() == kOfSamples + 1, "given up while lent: it stays open");
    value_or_throw(exchange.swap("", {}, in(kLong)));
    bench.reset();
    check(registered->lent().is_back_within(kLong), "given up while lent: it comes back at last");
  });
}

/// A rank's lent memory comes back when its own group ends, even if other groups continue.
void test_ended_here() {
  run_processes("ended here", 2, [&](Rank rank, device::Exchange& exchange) {
    std::mt19937_64 random(1);
    auto bench = join(rank, 2, exchange);
    GroupTrials trials(*bench, random, kLong);
    check_lent(*bench, trials, ring_case(Kind::all_gather, 2), MemoryKind::registered, true,
               "ended here");
    value_or_throw(exchange.swap("", {}, in(kLong)));
    if (rank == 0) {
      const auto room = bench->give_away(MemoryKind::registered, 0);
      bench.reset();
      check(room->lent().is_back_within(kLong), "ended here: it comes back");
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
  });
}

/// Rank 0's graph runs beside its call that waits for rank 1: both end, and all report why.
void test_beside(MakeCase make) {
  run_processes("one beside another", 2, [&](Rank rank, device::Exchange& exchange) {
    LongCall call(rank, 2, exchange, 1, make);
    auto& [random, bench, made, program, memory] = call;
    GroupBench::Trip trip(*bench, 0, memory), other(*bench, 1, memory);
    cudaStream_t const beside = bench->stream(1);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launched = nullptr;
    check(cudaStreamBeginCapture(beside, cudaStreamCaptureModeGlobal) == cudaSuccess, "a capture");
    const Status called = bench->group().call(program, other.input(), other.output(), beside, true);
    check(called && cudaStreamEndCapture(beside, &graph) == cudaSuccess &&
              cudaGraphInstantiate(&launched, graph, 0) == cudaSuccess,
          "a capture of a call");
    // Both have captured their calls before anything ends.
    value_or_throw(exchange.swap("", {}, in(kLong)));
    if (rank == 0) {
      check(bench->begin(program, trip).has_value(), "a call");
      check(cudaGraphLaunch(launched, beside) == cudaSuccess, "a graph beside it");
      const Status ended = bench->group().wait(in(kLong));
      check_survivor(*bench, rank, program, ended, "one beside another");
      check(cudaStreamSynchronize(beside) == cudaSuccess, "the graph ends, too");
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
    const Status told = bench->group().check();
    const std::string said = told ? "no error" : told.error().message;
    check(said.find("rank 0's call of a team found another one under way") == 0,
          fmt::format("rank {} says why: {}", rank, said));
    cudaGraphExecDestroy(launched);
    cudaGraphDestroy(graph);
  });
}

/// One rank does not call and another gives up: the others hear of it.
void test_given_up(MakeCase make) {
  run_processes("given up", 3, [&](Rank rank, device::Exchange& exchange) {
    LongCall call(rank, 3, exchange, 1, make);
    auto& [random, bench, made, program, memory] = call;
    GroupBench::Trip trip(*bench, 1, memory);
    if (rank == 2) {
      std::this_thread::sleep_for(20ms);
      bench->group().abort({ErrorKind::mismatch, "something else was called", 0});
      const Status refused = bench->group().check();
      check(!refused && refused.error().message == "something else was called", "own words");
      return;
    }
    const TeamMemory before = memory;
    Status ended = bench->begin(program, trip);
    if (ended) ended = bench->group().wait(in(kLong));
    const std::string said = ended ? "no error" : ended.error().message;
    check(said.find("rank 2 gave up: something else was called") == 0 &&
              ended.error().kind == ErrorKind::mismatch && ended.error().culprit == 0,
          "the others hear of it: " + said);
    check_survivor(*bench, rank, program, ended, "given up");
    // Without rank 2 there is no sum of all, so the released call does nothing.
    GroupBench::Trip after(*bench, 1, memory);
    check(after.come_back().has_value() && memory == before, "given up: nothing is stored");
  });
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

/// A group, and the program of a ring with as many lanes (blocks) as it may have.
struct FullGroup {
  std::unique_ptr<GroupBench> bench;
  TeamCase made;
  const device::GroupProgram* program = nullptr;

  FullGroup(std::unique_ptr<GroupBench> of, Rank size)
      : bench(std::move(of)),
        made(test::case_of(Kind::all_reduce, Algorithm::ring, size, 20'000, 100)) {
    for (made.choice.lanes = 33; program == nullptr && made.choice.lanes > 1;) {
      made.choice.lanes--;
      const auto loaded = bench->load(made);
      if (loaded) program = *loaded;
      const bool is_full = loaded || loaded.error().kind == ErrorKind::unsupported;
      check(is_full, "too many lanes: " + (loaded ? "" : loaded.error().message));
    }
  }
  std::uint32_t blocks() const { return program == nullptr ? 0 : made.choice.lanes; }
};

/// Begins a call of each group in that order, and waits for all.
void run_all(std::vector<FullGroup>& groups, const std::vector<std::size_t>& order,
             std::mt19937_64& random) {
  testing::TeamOnHost host(512, 8192);
  std::vector<TeamMemory> memory;
  for (const auto& group : groups) memory.emplace_back(group.made, random);
  auto expected = memory;
  std::vector<GroupBench::Trip> trips;
  for (std::size_t i = 0; i < groups.size(); i++) {
    host.run(test::lowered_for_streams(groups[i].made), expected[i].buffers(), 1);
    trips.emplace_back(*groups[i].bench, 0, memory[i]);
  }
  for (const std::size_t i : order)
    check(groups[i].bench->begin(groups[i].program, trips[i]).has_value(), "a call begins");
  for (std::size_t i = 0; i < groups.size(); i++) {
    const Rank rank = groups[i].bench->rank();
    const Status ended = groups[i].bench->group().wait(in(kLong));
    check(ended.has_value(), fmt::format("group {}: {}", i, ended ? "" : ended.error().message));
    check(trips[i].come_back().has_value() &&
              std::ranges::equal(memory[i].all(rank), expected[i].all(rank)),
          fmt::format("what group {} leaves", i));
  }
}

/// Several groups of the same ranks, on small GPUs. Each group's share fits beside the others' on
/// each GPU and is the same on all ranks. All run at once, in any order on each rank. If one rank's
/// GPU has no room left, there is no group.
void test_room(unsigned seed) {
  constexpr Rank kSize = 3;
  run_processes("room", kSize, [&](Rank rank, device::Exchange& exchange) {
    constexpr int kMultiprocessors[kSize] = {64, 3, 7};
    cuda_on_host_has_multiprocessors(kMultiprocessors[rank]);
    auto options = options_of(rank, kSize);
    options.shared_bytes = 4 << 20;
    options.most_blocks = 0;
    options.trial = kLong;
    // A block of the smallest size for which a multiprocessor has room.
    const auto all = 32 * static_cast<std::uint32_t>(kMultiprocessors[rank]);
    const auto room = [&] {
      return device::BlockBudget::of_process().room(nullptr, options.device, all);
    };
    const auto at_first = room();
    std::vector<FullGroup> groups;
    std::string said;
    while (said.empty() && groups.size() < 20) {
      auto made = GroupBench::make(options, exchange, in(kLong));
      if (made) groups.emplace_back(std::move(*made), kSize);
      if (!made) said = made.error().message;
    }
    check(groups.size() > 2 &&
              said.find("rank 1: GPU 1 has room for 2 blocks, 4 are needed") != said.npos,
          fmt::format("{} groups, then: {}", groups.size(), said));

    std::string text;
    std::uint32_t blocks = 0;
    for (const auto& group : groups) {
      text += fmt::format(" {}", group.blocks());
      blocks += group.blocks();
      check(group.blocks() >= device::kFewestGroupBlocks, "too few:" + text);
    }
    for (const auto& other : value_or_throw(exchange.swap(text, {}, in(kLong))))
      check(other.bytes == text, fmt::format("{} here, {} elsewhere", text, other.bytes));
    check(2 * blocks <= all, "too many for two calls of each:" + text);

    std::mt19937_64 random(seed), own(seed + rank);
    std::vector<std::size_t> order(groups.size());
    std::iota(order.begin(), order.end(), 0U);
    // At first the orders differ as much as possible.
    if (rank == 1) std::ranges::reverse(order);
    for (int round = 0; round < testing::by_effort(4, 8, 60) && failures == 0; round++) {
      run_all(groups, order, random);
      std::ranges::shuffle(order, own);
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
    groups.pop_back();
    check(GroupBench::make(options, exchange, in(kLong)).has_value(),
          "what is gone is in nobody's way");
    check(room() < at_first, "teams have as much as before");
    value_or_throw(exchange.swap("", {}, in(kLong)));
    groups.clear();
    check(room() == at_first, "all is given back");
  });
}

/// No program of one lane has more blocks than a group's minimum.
void test_fewest_blocks() {
  std::mt19937_64 random(1);
  for (const auto& entry : catalogue()) {
    for (Rank size = 1; size <= device::kMostTeamDevices && !entry.by_host; size++) {
      auto made = test::random_case(entry, size, random);
      made.choice.lanes = 1;
      for (Rank rank = 0; rank < size; rank++) made.devices.push_back(rank);
      const auto lowered = made.lowered();
      for (Rank rank = 0; rank < size; rank++) {
        const auto blocks = lowered.blocks_of(rank).size();
        check(blocks <= device::kFewestGroupBlocks,
              fmt::format("{}: {} blocks", made.text(), blocks));
      }
    }
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

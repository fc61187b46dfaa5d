// SPDX-License-Identifier: Apache-2.0
// Ranks that abort or are killed in the middle of calls: the others end, and go on without them.
#include <signal.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>

#include "any_device.hpp"
#include "devices.hpp"
#include "devices_processes.hpp"
#include "support/real_time.hpp"

namespace ccoll::testing {

/// All ranks are in the middle of a call when rank 0 aborts.
void a_rank_that_aborts() {
  run_processes("abort", {.processes = 3}, [](Communicator& c, Communicator& host) {
    const OwnedStream stream;
    const Device buffer(Values(30'000, 1));
    std::optional<Work> work;
    if (c.rank() != 0) work = sums(c, buffer, 30'000, stream);
    host.barrier();
    if (c.rank() == 0) c.abort("that is enough");
    const auto told = message_of([&] {
      if (work) work->wait();
      sums(c, buffer, 30'000, stream).wait();
    });
    expect(told.find("that is enough") != told.npos, "told: " + told);
    stream.wait();
  });
}

/// Rank 2 kills itself amid messages that the host copies in pieces; the others end, and exchange
/// such messages without it.
void a_rank_that_is_killed_amid_messages() {
  run_processes(
      "killed amid messages", {.processes = 3, .killed = {2}}, [](Communicator& c, Communicator&) {
        constexpr std::size_t kCount = 2'000'000;
        const OwnedStream stream;
        const auto exchange = [&](Communicator& among, int number) {
          const int size = among.size(), to = (among.rank() + 1) % size;
          const int from = (among.rank() + size - 1) % size;
          const Device out(ramp(kCount, number + among.rank())), got(Values(kCount, 0));
          auto work = among.send_recv_async(ConstBlock(out.data(), kCount, kType), to,
                                            Block(got.data(), kCount, kType), from, 0, in(stream));
          if (number == 2 && c.rank() == 2) ::kill(getpid(), SIGKILL);
          work.wait();
          expect(got.values() == ramp(kCount, number + from), "a message");
        };
        for (int i = 0; i < 200 && c.error().empty(); i++) {
          try {
            exchange(c, i);
          } catch (const Error&) {
            break;
          }
        }
        wait_for_error(c);
        expect(!c.error().empty(), "nobody is missed");
        stream.wait();
        auto rest = c.shrink();
        expect(rest.size() == 2, "the survivors are two");
        exchange(rest, 1000);
      });
}

/// Rank 2 kills itself in the middle of calls; the others end, and go on without it.
void a_rank_that_is_killed(bool in_graph, MemoryKind kind, std::size_t count) {
  run_processes(in_graph ? "killed in a graph" : "killed", {.processes = 3, .killed = {2}},
                [in_graph, kind, count](Communicator& c, Communicator&) {
                  const OwnedStream stream;
                  const AnyDevice buffer(Values(count, 1), kind, 1);
                  std::optional<Graph> graph;
                  if (in_graph) graph.emplace(stream, [&] { sums(c, buffer, count, stream); });
                  std::optional<Work> last;
                  for (int i = 0; i < 200 && c.error().empty(); i++) {
                    if (c.rank() == 2 && i == 10) {
                      if (in_graph) graph->launch(stream);
                      ::kill(getpid(), SIGKILL);
                    }
                    try {
                      in_graph ? graph->launch(stream)
                               : void(last = sums(c, buffer, count, stream));
                    } catch (const Error&) {
                      break;
                    }
                    if (i % 4 == 0) stream.wait();
                  }
                  wait_for_error(c);
                  expect(!c.error().empty(), "nobody is missed");
                  // Streams and graphs still run, whatever their results.
                  stream.wait();
                  if (in_graph)
                    for (int i = 0; i < 3; i++) graph->launch(stream);
                  stream.wait();
                  auto rest = c.shrink();
                  expect(rest.size() == 2, "the survivors are two");
                  expect(way_of(rest) == way_then(), "they are by " + way_of(rest));
                  const Device again(Values(1000, 1));
                  sums(rest, again, 1000, stream).wait();
                  expect(again.values() == Values(1000, 2), "the survivors' sums");
                });
}

/// Rank 1's part of a graph is stuck on its GPU while no host knows of a call, so rank 0's part
/// waits for it. An abort by rank 0 or the loss of rank 1 ends the wait.
void a_graph_that_stands(bool is_killed) {
  run_processes(is_killed ? "killed beside a graph" : "abort of a graph",
                {.killed = is_killed ? std::set{1} : std::set<int>{}},
                [is_killed](Communicator& c, Communicator& host) {
                  constexpr std::size_t kCount = 30'000;
                  const OwnedStream stream;
                  const Device buffer(Values(kCount, 1));
                  const Graph graph(stream, [&] { sums(c, buffer, kCount, stream); });
                  graph.launch(stream);
                  stream.wait();
                  cuda_on_host_holds_graphs(c.rank() == 1);
                  graph.launch(stream);
                  const auto limit = std::chrono::steady_clock::now() + kLong;
                  while (c.rank() == 1 && cuda_on_host_held_kernels() == 0)
                    expect(std::chrono::steady_clock::now() < limit,
                           "rank 1's part does not begin");
                  host.barrier();
                  // The hosts finish their concurrent work.
                  leave_time(300ms);
                  if (is_killed && c.rank() == 1) ::kill(getpid(), SIGKILL);
                  if (!is_killed && c.rank() == 0) c.abort("that is enough");
                  expect(ends_within(20s, stream), "the graph stands");
                  wait_for_error(c);
                  const std::string why = is_killed ? "rank 1" : "that is enough";
                  expect(c.error().find(why) != std::string::npos, "told: " + c.error());
                });
}

/// Rank 1 is killed in the middle of a graph's call after rank 0 has closed the communicator, so
/// nobody reports the loss to rank 0.
void a_rank_that_is_killed_after_a_close() {
  run_processes("killed after a close", {.killed = {1}}, [](Communicator& c, Communicator&) {
    constexpr std::size_t kCount = 30'000;
    const OwnedStream stream;
    const Device buffer(Values(kCount, 1));
    // The first read of this memory by its device kills rank 1, after a while.
    void* const deadly = mmap(nullptr, 4 * kCount, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, [](int) {
      sleep(1);
      ::kill(getpid(), SIGKILL);
    });
    const Graph graph(stream, [&] {
      c.all_reduce(ConstBlock(c.rank() == 1 ? deadly : buffer.data(), kCount, kType),
                   Block(buffer.data(), kCount, kType), ReduceOp::sum, in(stream));
    });
    graph.launch(stream);
    leave_time(300ms);  // for the device to come to the call
    c.close();
    stream.wait();
  });
}

}  // namespace ccoll::testing

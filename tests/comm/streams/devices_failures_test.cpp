// SPDX-License-Identifier: Apache-2.0
// How calls in CUDA's streams end when anything goes wrong, on a device that the host plays.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "devices.hpp"
#include "held_stream.hpp"
#include "support/asleep.hpp"
#include "support/children.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

/// Whether the first of `gpus` GPUs is soon unused after its last communicator: abandoned streams
/// are checked every 100 ms.
bool is_left_alone(int gpus) {
  return eventually([&] {
    cuda_on_host_has(gpus);
    leave_time(400ms);
    return !cuda_on_host_has_context(0);
  });
}

/// Whether the stream finishes.
bool ends(cudaStream_t stream) {
  const auto event = *device::make_event();
  check_cuda(cudaEventRecord(event.get(), stream), "an event");
  static_cast<void>(eventually([&] { return cudaEventQuery(event.get()) != cudaErrorNotReady; }));
  return cudaEventQuery(event.get()) == cudaSuccess;
}

}  // namespace

TEST_CASE("devices: the end of a call's time limit lets the stream go on", "[comm]") {
  auto options = options_for("");
  options.timeout = 300ms;
  const auto errors = run_on_devices(
      2,
      [](Communicator& c) {
        const OwnedStream stream;
        const Device buffer(ramp(10, 0));
        if (c.rank() == 0) {
          auto work =
              c.all_reduce_async(Block(buffer.data(), 10, kType), ReduceOp::sum, in(stream));
          auto behind =
              c.all_reduce_async(Block(buffer.data(), 10, kType), ReduceOp::sum, in(stream));
          stream.wait();
          expect(eventually([&] { return behind.test(); }) && !behind.error().empty(),
                 "the call behind it has no error");
          expect(c.error().find("timed out") != std::string::npos, "error() does not say so");
          work.wait();
        } else {
          wait_for_error(c);
          c.all_reduce(Block(buffer.data(), 10, kType), ReduceOp::sum, in(stream));
        }
      },
      options);
  CHECK_THAT(errors[0], Catch::Contains("all_reduce") && Catch::Contains("timed out") &&
                            Catch::Contains("rank 1"));
  // In stream steps, its GPU's words may report it before the other hosts do.
  CHECK_THAT(errors[1],
             (Catch::Contains("broke the communicator") || Catch::Contains("rank 0 gave up")) &&
                 Catch::Contains("timed out"));
}

namespace {

/// The errors of two ranks if the stream of rank 1 does not come to their call.
std::vector<std::string> errors_without_a_stream() {
  auto options = options_for("");
  options.timeout = 1s;
  std::atomic<bool> is_called{false}, is_over{false};
  return run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device there(ramp(10, 0));
        Values here(10);
        if (c.rank() == 1) hold_until(is_over, stream);
        // The other rank is certain to wait there when its limit begins.
        if (c.rank() == 0) expect(eventually([&] { return is_called.load(); }), "no call");
        auto* const buffer = c.rank() == 1 ? there.data() : here.data();
        auto work = c.all_reduce_async(Block(buffer, 10, kType), ReduceOp::sum,
                                       c.rank() == 1 ? in(stream) : CallOptions{});
        if (c.rank() == 1) {
          is_called = true;
          wait_for_error(c);
          is_over = true;
        }
        work.wait();
      },
      options, [](int rank) { return rank == 1; });
}

}  // namespace

TEST_CASE("devices: a rank whose stream does not come to the call is named", "[comm]") {
  const auto says = Catch::Contains("its stream has not reached it");
  auto errors = errors_without_a_stream();
  // A rank that does not run in the quarter second before its limit gives up without asking.
  for (int again = 0; again < 4 && !says.match(errors[0]); again++)
    errors = errors_without_a_stream();
  CHECK_THAT(errors[0], Catch::Contains("timed out") && Catch::Contains("rank 1") && says);
  CHECK_THAT(errors[1], Catch::Contains("timed out"));
}

TEST_CASE("devices: ranks that call different things are told, and their streams go on", "[comm]") {
  const auto errors = run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(ramp(10, 0));
    auto options = in(stream);
    options.label = c.rank() == 0 ? "gradients" : "weights";
    auto work = c.rank() == 0
                    ? c.all_reduce_async(Block(buffer.data(), 10, kType), ReduceOp::sum, options)
                    : c.broadcast_async(Block(buffer.data(), 9, kType), 0, options);
    stream.wait();
    work.wait();
    c.barrier();
  });
  for (const auto& error : errors)
    CHECK_THAT(error, Catch::Contains("gradients") && Catch::Contains("weights"));
}

TEST_CASE("devices: abort() and close() end what is in streams", "[comm]") {
  const bool closes = GENERATE(false, true);
  // In a team the call itself waits for the other rank.
  const bool is_team = way() == "team";
  Sleeper caller;
  std::atomic<bool> is_called{false}, is_over{false};
  const auto errors = run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(ramp(10, 0));
    if (c.rank() == 1) {
      const bool waits =
          is_team ? caller.sleeps() : eventually([&] { return is_over || (is_called && !closes); });
      c.abort("enough");
      return expect(waits, "rank 0 does not come so far");
    }
    caller.is_this_thread();
    const auto told = message_of([&] {
      auto work = c.all_reduce_async(Block(buffer.data(), 10, kType), ReduceOp::sum, in(stream));
      is_called = true;
      if (closes) c.close();
      stream.wait();
      work.wait();
    });
    is_over = true;
    throw std::runtime_error(told);
  });
  const bool is_closed = closes && !is_team;
  CHECK_THAT(errors[0], is_closed ? Catch::Contains("destroyed") : Catch::Contains("enough"));
  CHECK(errors[1].empty());
}

TEST_CASE("devices: nobody looks after what was called as it was given up", "[comm]") {
  if (gpus() > 1) return;
  for (int round = 0; round < 20; round++) {
    std::atomic<int> calls{0};
    const auto errors = run_on_devices(2, [&](Communicator& c) {
      if (c.rank() == 1) {
        // In a team the call itself waits for the other rank.
        static_cast<void>(eventually([&] { return calls >= 2 + round; }, 20ms));
        return c.abort("enough");
      }
      const OwnedStream stream;
      const Device buffer(ramp(10, 0));
      for (;; calls++)
        c.all_reduce_async(Block(buffer.data(), 10, kType), ReduceOp::sum, in(stream));
    });
    CHECK_THAT(errors[0], Catch::Contains("enough"));
  }
  CHECK(is_left_alone(1));
}

TEST_CASE("devices: what CUDA says of a device that has failed is told on all ranks", "[comm]") {
  std::atomic<int> ended{0};
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device there(ramp(10, 0));
        Values here(10);
        auto* const buffer = c.rank() == 0 ? there.data() : here.data();
        c.barrier();
        if (c.rank() == 0) cuda_on_host_fails(cudaErrorIllegalAddress);
        auto again = [&] {
          auto work = c.all_reduce_async(Block(buffer, 10, kType), ReduceOp::sum,
                                         c.rank() == 0 ? in(stream) : CallOptions{});
          work.wait();
        };
        const auto told = message_of(again);
        // The device is repaired before its streams are released.
        if (++ended == 2) cuda_on_host_fails(cudaSuccess);
        while (ended < 2) std::this_thread::yield();
        throw std::runtime_error(told);
      },
      options_for(""), [](int rank) { return rank == 0; });
  for (const auto& error : errors)
    CHECK_THAT(error, Catch::Contains("rank 0 failed") && Catch::Contains("700"));
}

TEST_CASE("devices: a Work ends where the device fails when the call has ended well", "[comm]") {
  std::atomic<bool> is_held{false}, may_go{false}, has_failed{false};
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        if (c.rank() == 1) {
          while (!is_held) std::this_thread::yield();
          Values here(10);
          const auto told = message_of([&] { c.all_reduce(Block(here.data(), 10, kType)); });
          leave_time(50ms);  // rank 0 waits for its Work meanwhile
          cuda_on_host_fails(cudaErrorIllegalAddress);
          has_failed = true;
          throw std::runtime_error(told);
        }
        const OwnedStream stream, other;
        const Device there(ramp(10, 0));
        auto work = c.all_reduce_async(Block(there.data(), 10, kType), ReduceOp::sum, in(stream));
        const auto has_begun = [&] {
          return c.dump().find("not begun: its stream") == std::string::npos;
        };
        expect(eventually(has_begun), "the stream did not come to the call");
        // From here on the stream gets no more of the host's functions.
        std::pair hold(&is_held, &may_go);
        const auto wait = [](void* both) {
          const auto [held, go] = *static_cast<decltype(hold)*>(both);
          *held = true;
          while (!*go) std::this_thread::yield();
        };
        check_cuda(cudaLaunchHostFunc(other, wait, &hold), "a host function");
        const auto told = message_of([&] { work.wait(); });
        may_go = true;
        while (!has_failed) std::this_thread::yield();
        cuda_on_host_fails(cudaSuccess);
        throw std::runtime_error(told);
      },
      options_for(""), [](int rank) { return rank == 0; });
  CHECK_THAT(errors[0], Catch::Contains("700") && Catch::Contains("has not passed the call"));
  CHECK(errors[1] == "no error");
}

TEST_CASE("devices: a forked child has no part in what is in streams", "[comm]") {
  if (!kChildrenHaveMemory) return;
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(ramp(10, 0));
    std::atomic<bool> may_go = c.rank() != 0;
    c.barrier();
    // A team's call may be over as soon as it has been made.
    hold_until(may_go, stream);
    auto work = c.all_reduce_async(Block(buffer.data(), 10, kType), ReduceOp::sum, in(stream));
    if (c.rank() == 0) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(10);
        const auto is_told = [](const std::string& text) {
          return text.find("forked child") != std::string::npos;
        };
        const bool well =
            is_told(message_of([&] { work.wait(); })) && is_told(c.error()) &&
            is_told(message_of([&] { c.all_reduce(Block(buffer.data(), 10, kType)); }));
        _exit(well ? 0 : 1);
      }
      int status = -1;
      waitpid(child, &status, 0);
      may_go = true;
      expect(status == 0, fmt::format("the child ended with status {:#x}", status));
    }
    work.wait();
    auto expected = ramp(10, 0);
    for (auto& value : expected) value *= 2;
    expect(buffer.values() == expected, "the parent's call");
  }));
}

TEST_CASE("devices: a child is told that is forked while a thread is in a call", "[comm]") {
  if (!kChildrenHaveMemory) return;
  Sleeper caller;
  std::atomic<bool> has_forked{false};
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(Values(10, 1));
    const auto call = [&] {
      c.all_reduce(Block(buffer.data(), 10, kType), ReduceOp::sum, in(stream));
    };
    if (c.rank() == 1) {
      expect(eventually([&] { return has_forked.load(); }), "no child");
    } else {
      caller.is_this_thread();
      std::thread forking([&] {
        // A team's call waits for the other rank. Other calls end soon.
        if (way() == "team") static_cast<void>(caller.sleeps());
        fork_child("a child", [&] {
          const auto is_told = [](const std::string& text) {
            return text.find("forked child") != std::string::npos;
          };
          const auto send = [&] { c.send(ConstBlock(buffer.data(), 10, kType), 1, 0, in(stream)); };
          _exit(is_told(message_of(call)) && is_told(message_of(send)) ? 0 : 1);
        });
        has_forked = true;
      });
      call();
      forking.join();
      stream.wait();
      return expect(failures == 0, "the child");
    }
    call();
    stream.wait();
    expect(buffer.values() == Values(10, 2), "the parent's call");
  }));
}

TEST_CASE("devices: after an abort ranks shrink, and devices make their calls again", "[comm]") {
  check_all_well(run_on_devices(3, [](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(Values(1000, 1));
    const auto call = [&](Communicator& of, ReduceOp op) {
      of.all_reduce(Block(buffer.data(), 1000, kType), op, in(stream));
    };
    // Some of them may fail because rank 1 ends.
    static_cast<void>(message_of([&] {
      for (int i = 0; i < 5; i++) call(c, ReduceOp::max);
    }));
    if (c.rank() == 1) c.abort("enough");
    wait_for_error(c);
    stream.wait();
    auto again = c.shrink();
    expect(again.size() == 3, "all are there");
    expect((again.counters().device_workspace_bytes > 0) == (way() != "host"), "another way");
    check_cuda(cudaMemsetAsync(buffer.data(), 1, 4000, stream), "memset");
    call(again, ReduceOp::sum);
    stream.wait();
    expect(buffer.values() == Values(1000, 0x03030303), "the sums");
  }));
}

TEST_CASE("devices: what calls in streams have stays when all communicators are gone", "[comm]") {
  const bool is_barrier = GENERATE(false, true);
  const TwoStreams streams;
  const Device second(ramp(70'000, 0));
  use_gpu_of(0);
  const Device first(ramp(70'000, 0));
  const Values here(70'000, 5);
  std::optional<HeldStream> held;
  std::atomic<bool> is_over{false};
  std::atomic<int> called{0}, closed_before{0};
  // If close() waits for the device, the test fails instead of hanging.
  std::jthread late;
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const auto rank = static_cast<std::size_t>(c.rank());
    if (rank == 1) {
      held.emplace(streams[1]);
      late = std::jthread([&] {
        static_cast<void>(eventually([&] { return is_over.load(); }, 5s));
        is_over = true;
        held->go_on();
      });
    }
    auto* const buffer = (rank == 0 ? first : second).data();
    if (is_barrier)
      c.barrier_async(in(streams[rank]));
    else
      c.all_reduce_async(ConstBlock(rank == 0 ? here.data() : buffer, 70'000, kType),
                         Block(buffer, 70'000, kType), ReduceOp::sum, in(streams[rank]));
    // This gives the stream time to copy from the host.
    leave_time(100ms);
    for (++called; called < 2;) std::this_thread::yield();
    // Its error about calls under way depends on the way.
    static_cast<void>(message_of([&] { c.close(); }));
    closed_before += is_over ? 0 : 1;
  }));
  CHECK(closed_before == 2);
  CHECK_FALSE(is_over.exchange(true));
  late.join();
  // A kernel whose memory is gone would never finish.
  for (const std::size_t rank : {0, 1}) {
    use_gpu_of(static_cast<int>(rank));
    CHECK(ends(streams[rank]));
  }
}

TEST_CASE("devices: a stream whose call has failed does not wait for room", "[comm]") {
  auto options = options_for("", 1s);
  options.device.staging_bytes = 4096;
  const TwoStreams streams;
  std::optional<HeldStream> held;
  Values here[2] = {Values(700), Values(700)};
  check_all_well(run_on_devices(
      2,
      [&](Communicator& c) {
        const Device there(Values(700, 1));
        const auto rank = static_cast<std::size_t>(c.rank());
        if (rank == 1) held.emplace(streams[1]);
        const auto call = [&](int number) {
          auto* const output = rank == 0 ? here[number].data() : there.data();
          return c.all_reduce_async(ConstBlock(there.data(), 700 - 100 * number * rank, kType),
                                    Block(output, 700 - 100 * number * rank, kType), ReduceOp::sum,
                                    in(streams[rank]));
        };
        auto first = call(0);
        // Rank 0 needs room for it, but gets none before the first call has ended.
        expect(!message_of([&] { call(1).wait(); }).empty(), "calls that differ");
        static_cast<void>(message_of([&] { first.wait(); }));
      },
      options));
  held->go_on();
  for (const std::size_t rank : {0, 1}) {
    use_gpu_of(static_cast<int>(rank));
    CHECK(ends(streams[rank]));
  }
}

TEST_CASE("devices: a rank gives no context to a GPU that is not its own", "[comm]") {
  if (gpus() > 1) return;  // then each GPU is some rank's own
  // Remnants of earlier communicators on GPU 0 go with its last communicator.
  check_all_well(run_on_devices(2, [](Communicator& c) { c.barrier(); }));
  REQUIRE(is_left_alone(2));
  auto options = on_device();
  options.device.ordinal = 1;
  const auto store = make_inproc_store();
  check_all_well(run_threads(2, [&](int rank) {
    auto c = Communicator::create(store, rank, 2, options);
    const device::CurrentDevice current(1);
    const OwnedStream stream;
    const Device buffer(Values(10));
    const Values ones(10, 1);
    Work work;
    // GPU 0 is current on all threads that have not used a GPU.
    std::thread([&] {
      work = c.all_reduce_async(ConstBlock(ones.data(), 10, kType), Block(buffer.data(), 10, kType),
                                ReduceOp::sum, in(stream));
    }).join();
    // Only the communicators' own threads look after it.
    stream.wait();
    static_cast<void>(eventually([&] { return work.test(); }));
    work.wait();
    expect(buffer.values() == Values(10, 2), "the sums");
  }));
  CHECK(cuda_on_host_has_context(1));
  CHECK_FALSE(cuda_on_host_has_context(0));
  // A device that has a context becomes current again.
  check_cuda(cudaSetDevice(0), "a device");
  { const device::CurrentDevice current(1); }
  int now = -1;
  check_cuda(cudaGetDevice(&now), "a device");
  CHECK(now == 0);
  cuda_on_host_has(gpus());
}

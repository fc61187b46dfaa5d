// SPDX-License-Identifier: Apache-2.0
// Tests abort() and close() while a thread is unreachable, in a system call or in the caller's own
// function. This program's C library calls stop at a gate on request.
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <latch>

#include "support/asleep.hpp"
#include "support/eventually.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"
#include "usable_transports.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// A thread that passes waits until the gate is opened.
class Gate {
 public:
  /// The next pass() of a thread that may be held stops here.
  void shut() {
    inside_ = false;
    shut_ = true;
  }
  void open() {
    shut_ = false;
    shut_.notify_all();
  }
  void pass() {
    if (!may_hold || !shut_) return;
    inside_ = true;
    shut_.wait(true);
  }
  /// Whether a thread comes to be held here.
  bool holds_one() const {
    return ccoll::testing::eventually([this] { return inside_.load(); });
  }
  static thread_local bool may_hold;

 private:
  std::atomic<bool> shut_ = false, inside_ = false;
};
thread_local bool Gate::may_hold = false;

Gate of_system_calls, of_functions;

}  // namespace

// The calls that a thread in a communicator's call makes, for links' data and doorbells.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  of_system_calls.pass();
  return syscall(SYS_sendmsg, socket, message, flags);
}
extern "C" ssize_t readv(int descriptor, const iovec* parts, int count) {
  of_system_calls.pass();
  return syscall(SYS_readv, descriptor, parts, count);
}
extern "C" ssize_t write(int descriptor, const void* bytes, size_t count) {
  of_system_calls.pass();
  return syscall(SYS_write, descriptor, bytes, count);
}
extern "C" ssize_t read(int descriptor, void* bytes, size_t count) {
  of_system_calls.pass();
  return syscall(SYS_read, descriptor, bytes, count);
}

namespace ccoll {
namespace {

using Catch::Matchers::Contains;
using testing::message_of;
using testing::options_for;
using testing::run_threads;

/// 1 s is promised; the rest is for a busy machine.
constexpr auto kSoon = 4s;

void add(const void* in, void* inout, std::size_t count, DataType) {
  of_functions.pass();
  const auto* from = static_cast<const float*>(in);
  auto* to = static_cast<float*>(inout);
  for (std::size_t i = 0; i < count; i++) to[i] += from[i];
}

/// The error that a rank's thread gets, and when.
struct Told {
  std::string error;
  Clock::time_point at;
};

/// Makes calls on a thread until one fails, and counts them.
std::future<Told> calls_of(Communicator& rank, bool may_be_held, std::atomic<int>& calls) {
  return std::async(std::launch::async, [&rank, may_be_held, &calls] {
    const auto sum = Reduction::custom(add, {.name = "add"});
    std::vector<float> data(10'000, 1);
    Gate::may_hold = may_be_held;
    auto error = message_of([&] {
      for (;;) {
        rank.all_reduce(data, sum);
        calls++;
        // A rank that sleeps must be woken, which takes a system call.
        if (!may_be_held) testing::be_late(1ms);
      }
    });
    return Told{std::move(error), Clock::now()};
  });
}

/// Ranks in calls; the first rank's thread is held.
struct Held {
  Held(Gate& where, std::string_view transport, int size)
      : gate(where), ranks(Communicator::create_all(size, options_for(transport))) {
    for (auto& rank : ranks) told.push_back(calls_of(rank, &rank == ranks.data(), calls));
    // Their links are open.
    holds = testing::eventually([&] { return calls >= 5 * size; });
    gate.shut();
    holds = gate.holds_one() && holds;
  }
  ~Held() { gate.open(); }
  /// Whether the held rank reads memory that the others lend, so that they have to wait for it.
  bool is_read() const { return &gate == &of_functions && ranks[0].transport_to(1) == "inproc"; }
  Gate& gate;
  std::atomic<int> calls = 0;
  std::vector<Communicator> ranks;
  std::vector<std::future<Told>> told;  // before the ranks: they use them
  bool holds = false;
};

/// Two ranks in an all_reduce without a waiting caller. The service thread is held in the caller's
/// reduction until released.
struct HeldInBackground {
  explicit HeldInBackground(std::string_view transport)
      : ranks(Communicator::create_all(2, options_for(transport))) {
    const auto sum = Reduction::custom(
        [this, main_thread = std::this_thread::get_id()](const void*, void*, std::size_t,
                                                         DataType) {
          // The thread that begins a call makes some progress on it, too.
          if (std::this_thread::get_id() == main_thread || runs.exchange(true)) return;
          ends.wait();
        },
        {.name = "slow"});
    for (std::size_t rank = 0; rank < 2; rank++)
      works.push_back(
          ranks[rank].all_reduce_async(Block(data[rank].data(), kCount, DataType::float32), sum));
    static_cast<void>(testing::eventually([&] { return runs.load(); }));
  }
  ~HeldInBackground() { let_go(); }
  void let_go() {
    if (!ends.try_wait()) ends.count_down();
  }

  /// The data takes more than one turn of the service thread.
  static constexpr std::size_t kCount = 4 << 20;
  std::atomic<bool> runs = false;
  std::latch ends{1};
  std::vector<std::vector<float>> data{2, std::vector<float>(kCount)};  // outlives its users
  std::vector<Communicator> ranks;
  std::vector<Work> works;
};

Clock::duration time_of(const std::function<void()>& body) {
  const auto began = Clock::now();
  body();
  return Clock::now() - began;
}

}  // namespace

TEST_CASE("abort: returns, and ends the other ranks' calls, while a thread of this rank is held",
          "[comm]") {
  for (auto* const gate : {&of_system_calls, &of_functions}) {
    for (const auto& kind : testing::usable_transports()) {
      CAPTURE(kind.name, gate == &of_functions);
      Held held(*gate, kind.name, 3);
      REQUIRE(held.holds);
      const auto began = Clock::now();
      held.ranks[0].abort("the input has ended");
      CHECK(Clock::now() - began < kSoon);
      if (held.is_read()) gate->open();
      for (const std::size_t other : {1, 2}) {
        const auto told = held.told[other].get();
        CHECK_THAT(told.error,
                   Contains("aborted: ") && Contains("rank 0 aborted: the input has ended"));
        CHECK(told.at - began < kSoon);
      }
      const auto opened = Clock::now();
      gate->open();
      const auto told = held.told[0].get();
      CHECK_THAT(told.error, Contains("rank 0 aborted: the input has ended"));
      CHECK(told.at - opened < kSoon);
      // All ranks still live.
      const auto errors = run_threads(3, [&](int rank) {
        auto next = held.ranks[static_cast<std::size_t>(rank)].shrink();
        testing::expect(next.size() == 3, fmt::format("{} are left", next.size()));
        next.barrier();
      });
      for (const auto& error : errors) CHECK(error == "");
    }
  }
}

TEST_CASE("close: of a rank whose peer is held returns, and ends its own call", "[comm]") {
  for (auto* const gate : {&of_system_calls, &of_functions}) {
    for (const auto& kind : testing::usable_transports()) {
      CAPTURE(kind.name, gate == &of_functions);
      Held held(*gate, kind.name, 2);
      REQUIRE(held.holds);
      if (held.is_read()) gate->open();
      CHECK(time_of([&] { held.ranks[1].close(); }) < kSoon);
      CHECK_THAT(held.told[1].get().error, Contains("aborted: "));
      const auto opened = Clock::now();
      gate->open();
      const auto told = held.told[0].get();
      CHECK_THAT(told.error, Contains("rank 1"));
      CHECK(told.at - opened < kSoon);
    }
  }
}

TEST_CASE("close: returns once the thread that is held in this rank's call has come back",
          "[comm]") {
  for (auto* const gate : {&of_system_calls, &of_functions}) {
    for (const auto& kind : testing::usable_transports()) {
      CAPTURE(kind.name, gate == &of_functions);
      Held held(*gate, kind.name, 2);
      REQUIRE(held.holds);
      auto closing = std::async(std::launch::async, [&] {
        held.ranks[0].close();
        return Clock::now();
      });
      CHECK(closing.wait_for(100ms) == std::future_status::timeout);
      const auto opened = Clock::now();
      gate->open();
      CHECK(closing.get() - opened < kSoon);
      CHECK_THAT(held.told[0].get().error, Contains("aborted: "));
      CHECK_THAT(held.told[1].get().error, Contains("rank 0"));
    }
  }
}

TEST_CASE("abort: returns while a function of the caller's runs in the background", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name);
    HeldInBackground held(kind.name);
    CHECK(held.runs);
    CHECK(time_of([&] { held.ranks[0].abort(); }) < kSoon);
    held.let_go();
    const auto ended = Clock::now();
    for (auto& work : held.works)
      CHECK_THAT(message_of([&] { work.wait(); }), Contains("aborted: ") && Contains("rank 0"));
    CHECK(Clock::now() - ended < kSoon);
  }
}

TEST_CASE("close: returns while a function of the caller's runs for another job", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name);
    auto idle = Communicator::create_all(2, options_for(kind.name));
    HeldInBackground held(kind.name);
    CHECK(held.runs);
    CHECK(time_of([&] {
            for (auto& rank : idle) rank.close();
          }) < kSoon);
    held.let_go();
    for (auto& work : held.works) CHECK(message_of([&] { work.wait(); }) == "no error");
  }
}

TEST_CASE("abort: in no call, again, and of what is broken, breaks it with the first cause",
          "[comm]") {
  auto ranks = Communicator::create_all(2, options_for("inproc"));
  auto part = ranks[0].duplicate(), other = ranks[1].duplicate();
  part.abort("first");
  part.abort("second");
  other.abort("third");
  CHECK_THAT(message_of([&] { part.barrier(); }), Contains("rank 0 aborted: first"));
  CHECK_THAT(message_of([&] { other.barrier(); }), Contains("aborted: "));
  // Their parent communicators are still usable.
  const auto errors = run_threads(2, [&](int rank) { ranks[std::size_t(rank)].barrier(); });
  for (const auto& error : errors) CHECK(error == "");
  part.close();
  CHECK_THAT(message_of([&] { part.abort(); }), Contains("the communicator was closed"));
}

TEST_CASE("abort: ends the wait for a subgroup's other ranks", "[comm]") {
  auto ranks = Communicator::create_all(2, options_for("inproc"));
  testing::Sleeper waiter;
  auto waiting = std::async(std::launch::async, [&] {
    waiter.is_this_thread();
    return message_of([&] { ranks[0].subgroup({0, 1}); });
  });
  REQUIRE(waiter.sleeps());
  const auto began = Clock::now();
  ranks[1].abort("no");
  CHECK_THAT(waiting.get(), Contains("rank 1 aborted: no"));
  CHECK(Clock::now() - began < kSoon);
}

TEST_CASE("abort, close: wait for no thread that starts another communicator", "[comm]") {
  // A store server that accepts connections but never answers.
  const int server = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(::listen(server, 8) == 0);
  sockaddr_in address{};
  socklen_t length = sizeof address;
  REQUIRE(::getsockname(server, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  auto starting = std::async(std::launch::async, [&] {
    Environment environment;
    environment.rank = 1;
    environment.size = 2;
    environment.store = fmt::format("tcp://127.0.0.1:{}", ntohs(address.sin_port));
    auto options = options_for("");
    options.start_timeout = 6s;
    return message_of([&] { Communicator::create(environment, options); });
  });
  auto ranks = Communicator::create_all(2, options_for(""));
  CHECK(time_of([&] { ranks[0].abort(); }) < kSoon);
  for (auto& rank : ranks) {
    std::string told;
    CHECK(time_of([&] { told = message_of([&] { rank.close(); }); }) < kSoon);
    // A rank that has not been in a call since learns of it here, but the aborting rank does not.
    CHECK(told == (&rank == ranks.data() ? "no error" : "aborted: rank 0 aborted"));
  }
  CHECK(starting.wait_for(0s) == std::future_status::timeout);
  CHECK_THAT(starting.get(), Contains("timed_out: "));
  ::close(server);
}

TEST_CASE("abort, close: wait for no link that is being opened", "[comm]") {
  // Rank 1 is a separate process that stops before rank 0 connects to its listener.
  const bool aborts = GENERATE(true, false);
  for (const auto* const transport : {"tcp", "shm"}) {
    CAPTURE(transport, aborts);
    const auto server = serve_tcp_store();
    auto at = "CCOLL_TEST_STORE=" + server->address();
    auto by = fmt::format("CCOLL_TEST_BY={}", transport);
    std::vector<char*> variables = {at.data(), by.data()};
    for (char** each = environ; *each != nullptr; each++) variables.push_back(*each);
    variables.push_back(nullptr);
    std::string name = "abort_test", what = "[stopped]";
    std::array<char*, 3> words = {name.data(), what.data(), nullptr};
    pid_t peer = 0;
    REQUIRE(posix_spawn(&peer, "/proc/self/exe", nullptr, nullptr, words.data(),
                        variables.data()) == 0);
    {
      auto rank =
          Communicator::create(connect_tcp_store(server->address()), 0, 2, options_for(transport));
      int status = 0;
      REQUIRE(::waitpid(peer, &status, WUNTRACED) == peer);
      REQUIRE(WIFSTOPPED(status));
      auto told = std::async(std::launch::async, [&] {
        const std::vector<float> data(1'000'000);
        return message_of([&] { rank.send(data, 1); });
      });
      CHECK(told.wait_for(300ms) == std::future_status::timeout);
      CHECK(time_of([&] { aborts ? rank.abort() : rank.close(); }) < kSoon);
      CHECK(told.wait_for(kSoon) == std::future_status::ready);
      CHECK_THAT(told.get(), Contains("aborted: "));
      CHECK(time_of([&] { rank.close(); }) < kSoon);
    }
    ::kill(peer, SIGKILL);
    ::waitpid(peer, nullptr, 0);
  }
}

TEST_CASE("abort: the rank that stops", "[.][stopped]") {
  const auto store = connect_tcp_store(std::getenv("CCOLL_TEST_STORE"));
  const auto rank = Communicator::create(store, 1, 2, options_for(std::getenv("CCOLL_TEST_BY")));
  ::raise(SIGSTOP);
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
// Links over RDMA when devices, libraries and packets misbehave, on the in-memory device of
// tests/rdma.
#include <catch2/catch.hpp>
#include <cerrno>
#include <random>

#include "rdma/device.hpp"
#include "rdma/faults.hpp"
#include "support/effort.hpp"
#include "transport/pair.hpp"
#include "transport/verbs/errors.hpp"
#include "transport/verbs/events.hpp"
#include "transport/verbs/queue_pair.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using rdma::Call;
using rdma::Of;

namespace {

constexpr int kLast = IBV_WC_TM_RNDV_INCOMPLETE;

TransportKind verbs() { return *find_transport("verbs"); }

/// Two ranks that use RDMA or nothing. Resets the test's faults at the end, and checks that nothing
/// is left at the device.
class Faulty {
 public:
  /// `next`: the fallback if RDMA does not work; null: none.
  explicit Faulty(const TransportKind* next = nullptr, bool checksum = false) {
    Pair::Setting setting;
    setting.checksum = checksum;
    setting.next = next;
    pair.emplace(verbs(), setting);
  }
  ~Faulty() {
    rdma::reset();
    rdma::plug(true);
    tell(IBV_EVENT_PORT_ACTIVE);
  }
  void tell(ibv_event_type event) {
    rdma::tell(event);
    CHECK(eventually(*pair, [] { return rdma::untold() == 0; }));
  }
  void end() {
    rdma::reset();
    pair->sender.reset();
    pair->receiver.reset();
    // Incomplete links are cleaned up on the service thread.
    CHECK(eventually(*pair, [] { return rdma::objects() == rdma::Objects{}; }));
    CHECK(rdma::times_not_ready() == 0);
  }
  /// Once both ends have handled a slice, no step of making the link can fail any more.
  void settle() {
    pair->open();
    exchange(0);
  }
  void exchange(std::uint64_t number) {
    const auto data = pattern(number, 3000);
    push(*pair->sender, number, data);
    REQUIRE(receives(number, data));
  }
  bool receives(std::uint64_t number, const std::vector<std::byte>& data) {
    const ReceiveLink::View* view = nullptr;
    if (!eventually(*pair, [&] {
          view = pair->receiver->front();
          return view != nullptr || pair->receiver->failure() != nullptr;
        }))
      return false;
    return view != nullptr && view->header.sequence == number && equals(*view, data) &&
           pair->receiver->begin_read() && pair->receiver->pop();
  }
  /// Sends slices until that end has failed.
  template <typename Link>
  Failure failure_of(const Link& link) {
    std::uint64_t sequence = 1000;
    const auto data = pattern(1, 1000);
    REQUIRE(eventually(*pair, [&] {
      if (pair->sender->failure() == nullptr && pair->sender->has_room())
        push(*pair->sender, sequence++, data);
      bool popped = true;
      if (pair->receiver->front() != nullptr) popped = pair->receiver->pop();
      return !popped || link.failure() != nullptr;
    }));
    return *link.failure();
  }

  std::optional<Pair> pair;
};

}  // namespace

TEST_CASE("rdma: whatever a completion says is the cause of the link's failure",
          "[transport][verbs]") {
  const auto of = GENERATE(Of::sends, Of::receives);
  for (int status = 1; status <= kLast; status++) {
    CAPTURE(status, of == Of::sends);
    Faulty faulty;
    faulty.settle();
    rdma::complete_with(static_cast<ibv_wc_status>(status), of);
    // For sends, too, the receiver's come first (credits): only every eighth slice has one.
    auto& pair = *faulty.pair;
    const auto failure = faulty.failure_of(*pair.receiver);
    const verbs::Path path{0, "127.0.0.1", "fake0 port 1"};
    const auto expected = verbs::failure_of(static_cast<ibv_wc_status>(status), 0x5a, path);
    CHECK(failure.message == expected.message);
    CHECK(failure.kind == expected.kind);
    CHECK(failure.culprit == expected.culprit);
    // A sender to a failed end gets no answer.
    const auto other = faulty.failure_of(*pair.sender);
    CHECK(other.kind == ErrorKind::peer_lost);
    CHECK(other.culprit == 1U);
    faulty.end();
  }
}

namespace {

/// The calls that make a link, in order at both ends, each of which may fail.
struct SetUp {
  Call call;
  std::uint64_t number;
  int code;
  const char* said;
  std::uint64_t times = 1;
};
/// A queue pair is requested with ever less inline data.
constexpr std::uint64_t kTries = 10;
constexpr SetUp kSetUps[] = {
    {Call::reg_mr, 1, ENOMEM, "registering memory"},
    {Call::reg_mr, 2, ENOMEM, "ulimit -l"},
    {Call::create_comp_channel, 1, EMFILE, "a completion channel"},
    {Call::create_comp_channel, 2, EMFILE, "a completion channel"},
    {Call::create_cq, 1, ENOMEM, "a completion queue"},
    {Call::create_cq, 2, EINVAL, "a completion queue"},
    {Call::create_qp, 1, ENOMEM, "a queue pair", kTries},
    {Call::create_qp, 2, ENOMEM, "a queue pair", kTries},
    {Call::modify_qp, 1, EINVAL, "initialized"},
    {Call::modify_qp, 2, EINVAL, "initialized"},
    {Call::modify_qp, 3, ENETUNREACH, "a route"},
    {Call::modify_qp, 4, EINVAL, "ready to send"},
    {Call::modify_qp, 5, ETIMEDOUT, "ready to receive"},
    {Call::modify_qp, 6, EINVAL, "ready to send"},
    {Call::post_recv, 1, ENOMEM, "to receive"},
};

}  // namespace

TEST_CASE("rdma: a link that cannot be made at one end is one of the next transport at both",
          "[transport][verbs]") {
  for (const auto& each : kSetUps) {
    CAPTURE(to_string(each.call), each.number);
    Faulty faulty(find_transport("tcp"));
    rdma::fail(each.call, each.code, each.number, each.times);
    faulty.settle();
    for (std::uint64_t i = 1; i < 20; i++) faulty.exchange(i);
    CHECK(faulty.pair->of(0).gave_up(1));
    faulty.end();
  }
}

TEST_CASE("rdma: where nothing else may be used the error says what could not be made, and where",
          "[transport][verbs]") {
  for (const auto& each : kSetUps) {
    CAPTURE(to_string(each.call), each.number);
    Faulty faulty;
    rdma::fail(each.call, each.code, each.number, each.times);
    faulty.pair->open();
    REQUIRE(eventually(*faulty.pair, [&] {
      faulty.pair->sender->has_room();
      return faulty.pair->sender->failure() != nullptr;
    }));
    const auto said = faulty.pair->sender->failure()->message;
    for (const char* part : {"no RDMA with rank 1", "fake0 port 1", each.said})
      CHECK_THAT(said, Catch::Contains(part));
    faulty.end();
  }
}

TEST_CASE("rdma: what may travel within a request is as much as the device grants",
          "[transport][verbs]") {
  const auto granted = GENERATE(0U, 1U, 32U, 33U, 64U, 255U, 256U, 1000U);
  Faulty faulty;
  rdma::grant_inline(granted);
  faulty.settle();
  for (std::size_t bytes = 0; bytes < 300; bytes += 7) {
    const auto data = pattern(bytes, bytes);
    push(*faulty.pair->sender, bytes, data);
    CHECK(faulty.receives(bytes, data));
  }
  faulty.end();
}

TEST_CASE("rdma: a device that takes no more to send ends the link, not the process",
          "[transport][verbs]") {
  const bool is_credit = GENERATE(false, true);
  Faulty faulty;
  faulty.settle();
  // Slices 2 to 5, and then the credit for five.
  rdma::fail(Call::post_send, ENOMEM, is_credit ? 5 : 2);
  auto& pair = *faulty.pair;
  const auto failure =
      is_credit ? faulty.failure_of(*pair.receiver) : faulty.failure_of(*pair.sender);
  CHECK(failure.kind == ErrorKind::exhausted);
  CHECK_THAT(failure.message, Catch::Contains("fake0 port 1") && Catch::Contains("rank"));
  faulty.end();
}

TEST_CASE("rdma: calls that fail while a link is used end it with an error that names the device",
          "[transport][verbs]") {
  const auto call = GENERATE(Call::post_recv, Call::poll_cq);
  CAPTURE(to_string(call));
  Faulty faulty;
  faulty.settle();
  rdma::fail(call, ENOMEM, 1, 1'000'000);
  const auto failure = faulty.failure_of(*faulty.pair->receiver);
  CHECK_THAT(failure.message, Catch::Contains("fake0 port 1"));
  faulty.end();
}

TEST_CASE("rdma: completions of sends and receives come in any order", "[transport][verbs]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  Faulty faulty;
  faulty.settle();
  rdma::mix_completions(seed);
  std::mt19937_64 random(seed);
  for (std::uint64_t sent = 1, taken = 1; taken < 3000;) {
    const auto data = [&](std::uint64_t number) { return pattern(number, 1 + number % 1000); };
    while (random() % 4 != 0 && faulty.pair->sender->has_room()) {
      push(*faulty.pair->sender, sent, data(sent));
      sent++;
    }
    for (; random() % 4 != 0 && taken < sent; taken++) REQUIRE(faulty.receives(taken, data(taken)));
  }
  faulty.end();
}

TEST_CASE("rdma: a message that is told twice, or never, is found", "[transport][verbs]") {
  const bool is_twice = GENERATE(false, true);
  Faulty faulty;
  faulty.settle();
  if (is_twice)
    rdma::repeat_completion(Of::receives);
  else
    rdma::lose_completion(Of::receives);
  const auto failure = faulty.failure_of(*faulty.pair->receiver);
  CHECK_THAT(failure.message, Catch::Contains("rank 0 at 127.0.0.1"));
  // A repeated completion may find no room for its receive before anybody looks at it.
  if (!is_twice) CHECK(failure.kind == ErrorKind::corrupt);
  faulty.end();
}

TEST_CASE(
    "rdma: packets wait for a cable that comes back in time; what is too late has lost the peer",
    "[transport][verbs]") {
  const bool is_too_late = GENERATE(false, true);
  Faulty faulty;
  faulty.settle();
  rdma::plug(false);
  const auto data = pattern(1, 5000);
  for (std::uint64_t i = 1; i < 4; i++) push(*faulty.pair->sender, i, data);
  CHECK(faulty.pair->receiver->front() == nullptr);
  CHECK(faulty.pair->sender->failure() == nullptr);
  rdma::plug(true, is_too_late);
  if (is_too_late) {
    const auto failure = faulty.failure_of(*faulty.pair->sender);
    CHECK(failure.kind == ErrorKind::peer_lost);
    CHECK_THAT(failure.message, Catch::Contains("CCOLL_IB_TIMEOUT"));
  } else {
    for (std::uint64_t i = 1; i < 4; i++) CHECK(faulty.receives(i, data));
  }
  faulty.end();
}

TEST_CASE("rdma: a device that neither delivers nor gives up has lost the peer, to who waits",
          "[transport][verbs]") {
  const bool is_sender = GENERATE(false, true);
  Faulty faulty;
  faulty.settle();
  auto& pair = *faulty.pair;
  for (std::uint64_t i = 1; i < 3; i++) faulty.exchange(i);
  // It fails to deliver slices, or the credit for four.
  const auto data = pattern(1, 100);
  if (!is_sender) push(*pair.sender, 3, data);
  rdma::plug(false);
  if (is_sender)
    push(*pair.sender, 3, data);
  else
    REQUIRE(faulty.receives(3, data));
  pair.waiters[is_sender ? 0 : 1]->prepare();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto failure_there = [&] {
    return is_sender ? pair.sender->failure() : pair.receiver->failure();
  };
  while (failure_there() == nullptr && std::chrono::steady_clock::now() < end) {
    pair.sender->progress();
    pair.receiver->front();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(failure_there() != nullptr);
  CHECK_THAT(failure_there()->message, Catch::Contains("it has stalled"));
  CHECK(failure_there()->kind == ErrorKind::peer_lost);
  rdma::plug(true);
  faulty.end();
}

TEST_CASE("rdma: of a device that confirms what it is asked for nothing is thought",
          "[transport][verbs]") {
  Faulty faulty;
  faulty.settle();
  auto& pair = *faulty.pair;
  for (std::uint64_t i = 1; i < 3; i++) faulty.exchange(i);
  const auto sent = rdma::times_sent(1);
  for (const auto& waiter : pair.waiters) waiter->prepare();
  const auto end = std::chrono::steady_clock::now() + 3 * verbs::Watchdog::kQuiet;
  while (std::chrono::steady_clock::now() < end) {
    pair.sender->progress();
    pair.receiver->front();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Three slices had no completion requested, too few for a credit, so one write asked for them.
  CHECK(rdma::times_sent(1) == sent + 1);
  CHECK(pair.sender->failure() == nullptr);
  for (std::uint64_t i = 3; i < 20; i++) faulty.exchange(i);
  faulty.end();
}

TEST_CASE("rdma: a port that went down is named, though its event has not come",
          "[transport][verbs]") {
  Faulty faulty;
  faulty.settle();
  rdma::plug(false);
  push(*faulty.pair->sender, 1, pattern(1, 5000));
  rdma::set_port(IBV_PORT_DOWN);
  rdma::plug(true, true);
  const auto failure = faulty.failure_of(*faulty.pair->sender);
  rdma::set_port(IBV_PORT_ACTIVE);
  CHECK_THAT(failure.message, Catch::Contains("no answer after all retries") &&
                                  Catch::Contains("this end's port is down"));
  faulty.end();
}

TEST_CASE("rdma: events of a queue pair, its queue or the device end links as they say, or do not",
          "[transport][verbs]") {
  // The sender's end, or the receiver's, which polls in vain or sleeps.
  const std::size_t end = GENERATE(0, 1);
  for (int number = 0; number <= IBV_EVENT_WQ_FATAL; number++) {
    const auto event = static_cast<ibv_event_type>(number);
    const auto concern = verbs::concern_of(event);
    if (concern == verbs::Concern::none) continue;
    CAPTURE(number, end);
    Faulty faulty;
    faulty.settle();
    auto& pair = *faulty.pair;
    const auto failure_there = [&] {
      return end == 0 ? pair.sender->failure() : pair.receiver->failure();
    };
    if (concern == verbs::Concern::pair)
      rdma::tell_of_pair(event, end);
    else if (concern == verbs::Concern::queue)
      rdma::tell_of_queue(event, end);
    else
      rdma::tell(event);
    if (const auto expected =
            verbs::failure_of(event, {end == 0 ? 1U : 0U, "127.0.0.1", "fake0 port 1"})) {
      REQUIRE(eventually(pair, [&] {
        pair.receiver->front();
        return failure_there() != nullptr;
      }));
      CHECK(failure_there()->message == expected->message);
      CHECK(failure_there()->kind == expected->kind);
    } else {
      CHECK(eventually(pair, [&] { return rdma::untold() == 0; }));
      for (std::uint64_t i = 1; i < 10; i++) faulty.exchange(i);
      CHECK(failure_there() == nullptr);
    }
    faulty.end();
  }
}

TEST_CASE("rdma: an event wakes who sleeps", "[transport][verbs]") {
  Faulty faulty;
  faulty.settle();
  auto& pair = *faulty.pair;
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    rdma::tell(IBV_EVENT_DEVICE_FATAL);
  });
  const auto begin = std::chrono::steady_clock::now();
  while (pair.receiver->failure() == nullptr &&
         std::chrono::steady_clock::now() < begin + std::chrono::seconds(20)) {
    pair.waiters[1]->prepare();
    if (pair.receiver->front() == nullptr && pair.receiver->failure() == nullptr)
      pair.waiters[1]->sleep(std::chrono::seconds(30));
    pair.waiters[1]->awake();
    pair.receiver->front();
  }
  later.join();
  REQUIRE(pair.receiver->failure() != nullptr);
  CHECK(std::chrono::steady_clock::now() < begin + std::chrono::seconds(20));
  faulty.end();
}

TEST_CASE("rdma: links are not made through a port or a device that has gone since",
          "[transport][verbs]") {
  const auto event = GENERATE(IBV_EVENT_PORT_ERR, IBV_EVENT_DEVICE_FATAL);
  Faulty faulty;
  faulty.tell(event);
  faulty.pair->open();
  REQUIRE(eventually(*faulty.pair, [&] {
    faulty.pair->sender->has_room();
    return faulty.pair->sender->failure() != nullptr;
  }));
  CHECK_THAT(faulty.pair->sender->failure()->message, Catch::Contains("no active port"));
  faulty.tell(IBV_EVENT_PORT_ACTIVE);
  faulty.pair->open(1);
  faulty.exchange(0);
  faulty.end();
}

TEST_CASE("rdma: with checksums a bit that flips is an error that names the slice and the link",
          "[transport][verbs]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int draw = 0; draw < by_effort(30, 100, 1000); draw++) {
    const auto slices = 1 + random() % 10;
    const auto bytes = random() % (random() % 2 == 0 ? 300 : 100'000);
    // Headers are a small part of the traffic: half of the flips go there.
    const auto bit = random() % (8 * (sizeof(verbs::SlotHead) + (random() % 2 == 0 ? bytes : 0)));
    CAPTURE(seed, draw, slices, bytes, bit);
    Faulty faulty(nullptr, true);
    faulty.settle();
    rdma::flip(bit, slices);
    const auto data = pattern(draw, bytes);
    for (std::uint64_t i = 1; i <= slices; i++) {
      push(*faulty.pair->sender, i, data);
      CHECK(faulty.receives(i, data) == (i < slices));
    }
    const auto* const failure = faulty.pair->receiver->failure();
    REQUIRE(failure != nullptr);
    CHECK(failure->kind == ErrorKind::corrupt);
    CHECK_THAT(failure->message, Catch::StartsWith(fmt::format(
                                     "the data received over the RDMA link from rank 0 of the job "
                                     "(127.0.0.1, pid 0) to rank 1 of the job (127.0.0.1, "
                                     "pid 0), lane 0, are not the data that were sent: slice {}, ",
                                     slices)));
    CHECK_FALSE(faulty.pair->receiver->whole());
    faulty.end();
  }
}

TEST_CASE(
    "rdma: without checksums slices are sent as they are given, and a length that is wrong is "
    "found",
    "[transport][verbs]") {
  Faulty faulty;
  faulty.settle();
  auto sent = header(1, 0);
  sent.reserved = 77;
  REQUIRE(eventually(*faulty.pair, [&] { return faulty.pair->sender->has_room(); }));
  faulty.pair->sender->room(0);
  faulty.pair->sender->push(sent);
  const SliceHeader* seen = nullptr;
  REQUIRE(eventually(*faulty.pair, [&] { return (seen = faulty.pair->receiver->peek()); }));
  CHECK(seen->reserved == 77);
  CHECK(faulty.pair->receiver->pop());
  rdma::flip(8 * (offsetof(verbs::SlotHead, slice) + offsetof(SliceHeader, bytes)));
  push(*faulty.pair->sender, 2, pattern(1, 100));
  CHECK_FALSE(faulty.receives(2, pattern(1, 100)));
  REQUIRE(faulty.pair->receiver->failure() != nullptr);
  CHECK(faulty.pair->receiver->failure()->kind == ErrorKind::corrupt);
  CHECK(faulty.pair->receiver->failure()->culprit == 0U);
  CHECK_THAT(faulty.pair->receiver->failure()->message,
             Catch::Contains("header does not describe the data"));
  faulty.end();
}

// SPDX-License-Identifier: Apache-2.0
// Start-up: ids that are handed round, stores opened by the caller, settings.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "algorithms/algorithms.hpp"
#include "comm/groups/agreement.hpp"
#include "comm/groups/member.hpp"
#include "comm/messages/messages.hpp"
#include "comm/streams/device_ways.hpp"
#include "net/interface.hpp"
#include "support/ranks.hpp"
#include "system/variables.hpp"
#include "transport/transport.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::expect;
using testing::message_of;
using testing::run_threads;

namespace {

CommunicatorOptions impatient() {
  CommunicatorOptions options;
  options.start_timeout = 10s;
  options.timeout = 10s;
  return options;
}

void meet(const UniqueId& id, int rank, int size) {
  auto communicator = Communicator::create(id, rank, size, impatient());
  std::int32_t sum = rank;
  communicator.all_reduce(std::span(&sum, 1));
  expect(sum == size * (size - 1) / 2, "a sum is wrong");
}

}  // namespace

TEST_CASE("start-up: ranks that were handed an id meet, several ids at once", "[comm]") {
  const std::vector<UniqueId> ids = {UniqueId::create(), UniqueId::create(), UniqueId::create()};
  CHECK(ids[0] != ids[1]);
  const auto errors = run_threads(
      9, [&](int thread) { meet(ids[static_cast<std::size_t>(thread / 3)], thread % 3, 3); });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("start-up: time limits may be as long as can be", "[comm]") {
  constexpr auto kLongest = std::chrono::milliseconds::max();
  // The second limit overflows in nanoseconds, and the third once the time since boot is added.
  for (const auto limit : {kLongest, 9'300'000'000'000ms, 9'223'372'036'854ms}) {
    CAPTURE(limit.count());
    auto options = impatient();
    options.start_timeout = limit;
    options.timeout = limit;
    const auto id = UniqueId::create();
    const auto errors = run_threads(3, [&](int rank) {
      auto communicator = Communicator::create(id, rank, 3, options);
      auto half = communicator.split(rank % 2, 0, {.timeout = limit});
      std::int32_t sum = rank;
      half->all_reduce(std::span(&sum, 1), ReduceOp::sum, {.timeout = limit});
      communicator.all_reduce_async(std::span(&sum, 1)).wait(limit);
      expect(sum == 2 + 1 + 2, "a sum is wrong");
    });
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("start-up: an id works in other processes", "[.fork]") {
  // The children come first: making an id starts a thread, which a child would lack.
  int hand_round[2];
  REQUIRE(pipe(hand_round) == 0);
  std::vector<pid_t> children;
  for (int rank = 1; rank < 3; rank++) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // The child must not continue the parent's test.
      UniqueId id;
      if (read(hand_round[0], id.bytes.data(), id.bytes.size()) != ssize_t(id.bytes.size()))
        _exit(2);
      const bool met = run_threads(1, [&](int) { meet(id, rank, 3); })[0].empty();
      _exit(met ? 0 : 1);
    }
    children.push_back(child);
  }
  const auto id = UniqueId::create();
  for (std::size_t i = 0; i < children.size(); i++)
    CHECK(write(hand_round[1], id.bytes.data(), id.bytes.size()) == ssize_t(id.bytes.size()));
  CHECK(message_of([&] { meet(id, 0, 3); }) == "no error");
  for (const pid_t child : children) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  close(hand_round[0]);
  close(hand_round[1]);
}

TEST_CASE("start-up: an id makes one communicator", "[comm]") {
  const auto id = UniqueId::create();
  const auto errors = run_threads(2, [&](int rank) { meet(id, rank, 2); });
  for (const auto& error : errors) CHECK(error == "");
  CHECK_THAT(message_of([&] { meet(id, 0, 2); }), Contains("this id has been used"));
  const auto other = UniqueId::create();
  auto alone = Communicator::create(other, 0, 1, impatient());
  CHECK_THAT(message_of([&] { meet(other, 0, 1); }), Contains("this id has been used"));
}

TEST_CASE("start-up: ranks are reached by the route to the store that they were given", "[comm]") {
  std::string here;
  for (const auto& interface : net::list_interfaces())
    if (interface.address.is_v4() && !interface.address.is_loopback())
      here = interface.address.to_string();
  if (here.empty()) {
    WARN("no address but loopback on this machine: not tested");
    return;
  }
  auto options = impatient();
  options.token = "a token";
  const auto server = serve_tcp_store(here + ":0", options.token);
  const auto store = connect_tcp_store(server->address(), options.token, 10s);
  const auto errors = run_threads(2, [&](int rank) {
    const auto member =
        value_or_throw(Member::join(*store, static_cast<std::uint32_t>(rank), 2, options));
    for (const auto& address : member->table()) expect(ip_text(address) == here, ip_text(address));
    member->enter();
    member->exit();
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("start-up: bytes that are no id are refused", "[comm]") {
  const auto refused = [](const UniqueId& id) {
    return message_of([&] { Communicator::create(id, 0, 2, impatient()); });
  };
  CHECK_THAT(refused({}), Contains("are not an id (all are zero)"));
  UniqueId text;
  text.bytes.fill('x');
  CHECK_THAT(refused(text), Contains("are not an id (they begin wrongly)"));
  const auto good = UniqueId::create();
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; round++) {
    auto bad = good;
    bad.bytes[random() % bad.bytes.size()] ^= static_cast<std::uint8_t>(1 + random() % 255);
    CHECK_THAT(refused(bad), Contains("invalid_argument: ") &&
                                 (Contains("are not an id") || Contains("an id of version")));
  }
  CHECK_THAT(message_of([&] { Communicator::create(good, 0, 100'000'000, impatient()); }),
             Contains("a size of 100000000: expected 1 to 1048576 ranks"));
  CHECK_THAT(message_of([&] { Communicator::create_all(1'000'000'000, impatient()); }),
             Contains("a size of 1000000000: expected 1 to 1048576 ranks"));
  CHECK_THAT(message_of([&] { Communicator::create(good, 2, 2, impatient()); }),
             Contains("rank 2 of 2: a rank is at least 0 and less than the size"));
}

TEST_CASE("start-up: the ranks of one process come at once, all or some", "[comm]") {
  auto all = Communicator::create_all(4, impatient());
  REQUIRE(all.size() == 4);
  const auto id = UniqueId::create();
  std::vector<Communicator> first, second;
  const auto errors = run_threads(2, [&](int half) {
    const std::vector<int> ranks = half == 0 ? std::vector{0, 3} : std::vector{1, 2};
    (half == 0 ? first : second) = Communicator::create_all(id, ranks, 4, impatient());
  });
  for (const auto& error : errors) CHECK(error == "");
  CHECK((first[1].rank() == 3 && second[0].rank() == 1 && second[1].size() == 4));
  CHECK_THAT(message_of([] { Communicator::create_all(0); }),
             Contains("a size of 0: expected 1 to 1048576 ranks"));
}

TEST_CASE("start-up: each rank has its device from the list, which replaces the options'",
          "[comm]") {
  auto options = impatient();
  options.device.ordinal = 1 << 20;  // which no process has
  const std::vector<int> hosts(2, kHost);
  CHECK(Communicator::create_all(2, options, hosts).size() == 2);
  CHECK(Communicator::create_all(UniqueId::create(), std::vector{0, 1}, 2, options, hosts).size() ==
        2);
  const std::string refusal =
      ", devices: 2; expected one device per rank, or none to use the one of the options";
  CHECK(message_of([&] { Communicator::create_all(3, options, hosts); }) ==
        "invalid_argument: create_all: ranks: 3" + refusal);
  const auto id = UniqueId::create();
  CHECK(message_of([&] { Communicator::create_all(id, std::vector{1}, 2, options, hosts); }) ==
        "invalid_argument: create_all: ranks: 1" + refusal);
  CHECK_THAT(message_of([&] { Communicator::create_all(2, options); }), Contains("1048576"));
}

TEST_CASE("start-up: ranks are told why another one has no part in their communicator", "[comm]") {
  const auto store = make_inproc_store();
  const auto errors = run_threads(4, [&](int rank) {
    auto options = impatient();
    if (rank == 2) options.device.ordinal = 1 << 20;
    auto c = Communicator::create(store, rank, 4, options);
    c.barrier();
  });
  const std::string why = "DeviceOptions::ordinal is 1048576: ";
  CHECK_THAT(errors[2], Catch::StartsWith(why));
  for (const std::size_t rank : {0, 1, 3})
    CHECK_THAT(errors[rank],
               Contains("rank 2 could not make its part of the communicator: " + why));
}

TEST_CASE("start-up: what cannot begin is refused at once, and says what was given", "[comm]") {
  CHECK(message_of([] { Communicator::create(nullptr, 1, 2, impatient()); }) ==
        "invalid_argument: create: no store (null) for rank 1 of 2");
  const auto id = UniqueId::create();
  const std::vector<int> twice = {2, 0, 2};
  const auto start = std::chrono::steady_clock::now();
  CHECK(message_of([&] { Communicator::create_all(id, twice, 3, impatient()); }) ==
        "invalid_argument: create_all: rank 2 is given twice");
  CHECK(std::chrono::steady_clock::now() - start < 5s);  // not only after the limit
  for (const auto limit : {0ms, -5ms}) {
    CommunicatorOptions options;
    options.start_timeout = limit;
    const auto refusal = fmt::format(
        "invalid_argument: a time limit of start-up (start_timeout) of {} ms; it must be more than "
        "0",
        limit.count());
    CHECK(message_of([&] { Communicator::create_all(2, options); }) == refusal);
    CHECK(message_of([&] { Communicator::create(id, 0, 2, options); }) == refusal);
    CHECK(message_of([&] { Communicator::create(Environment{}, options); }) == refusal);
  }
}

TEST_CASE("start-up: a rank 0 that may not listen says so once", "[comm]") {
  Environment environment;
  environment.size = 2;
  environment.rank0_serves_store = true;
  environment.store = "tcp://0.0.0.0:4000";
  const auto message = message_of([&] { Communicator::create(environment, impatient()); });
  CHECK_THAT(message, Contains("rank 0 listening at 0.0.0.0:4000 needs a token"));
  CHECK(message.find("needs a token") == message.rfind("needs a token"));
}

TEST_CASE("start-up: the longest of limits is no limit that has passed", "[comm]") {
  auto options = impatient();
  options.start_timeout = std::chrono::milliseconds::max();
  CHECK(Communicator::create_all(3, options).size() == 3);
}

TEST_CASE("start-up: options of messages from the environment", "[comm]") {
  const auto with = [](const char* name, const char* value) {
    ::setenv(name, value, 1);
    CommunicatorOptions options;
    const auto error =
        testing::message_of([&] { options = CommunicatorOptions::from_environment(); });
    ::unsetenv(name);
    return std::pair(options, error);
  };
  CHECK(with("CCOLL_EAGER_LIMIT", "").first.eager_limit == 64 << 10);
  CHECK(with("CCOLL_EAGER_LIMIT", "0").first.eager_limit == 0);
  CHECK(with("CCOLL_EAGER_LIMIT", "131072").first.eager_limit == 128 << 10);
  for (const auto* wrong : {"131073", "-1", "64K", "many", "1 "})
    CHECK(with("CCOLL_EAGER_LIMIT", wrong).second ==
          std::string("invalid_argument: CCOLL_EAGER_LIMIT=") + wrong +
              " is not a whole number from 0 to 131072");
  CommunicatorOptions options;
  options.eager_limit = 131073;
  CHECK(testing::message_of([&] { Communicator::create_all(1, options); }) ==
        "invalid_argument: an eager limit of 131073 bytes: the most is 131072");
  CHECK_FALSE(with("CCOLL_SINGLE_COPY", "0").first.shm.single_copy);
  CHECK(with("CCOLL_SINGLE_COPY", "1").first.shm.single_copy);
  CHECK_FALSE(with("CCOLL_HUGE_PAGES", "0").first.shm.huge_pages);
  CHECK(with("CCOLL_HUGE_PAGES", "1").first.shm.huge_pages);
  CHECK(with("CCOLL_STRICT_SENDS", "1").first.strict_sends);
  CHECK_FALSE(with("CCOLL_STRICT_SENDS", "0").first.strict_sends);
  CHECK(with("CCOLL_HEARTBEAT", "2.5").first.heartbeat == 2500ms);
  CHECK(with("CCOLL_HEARTBEAT", "0").first.heartbeat == 0ms);
  CHECK(with("CCOLL_HEARTBEAT", "").first.heartbeat == CommunicatorOptions{}.heartbeat);
  CHECK(with("CCOLL_HEARTBEAT", "0.05").second ==
        "invalid_argument: CCOLL_HEARTBEAT=0.05 is not a time in seconds from 0.1 to 86400, or 0");
  CHECK(with("CCOLL_TIMEOUT", "0.25").first.timeout == 250ms);
  CHECK(with("CCOLL_TIMEOUT", "none").first.timeout == std::chrono::milliseconds::max());
  CHECK(with("CCOLL_TIMEOUT", "").first.timeout == 5min);
  CHECK(with("CCOLL_START_TIMEOUT", "90").first.start_timeout == 90s);
  CHECK(with("CCOLL_START_TIMEOUT", "none").first.start_timeout ==
        std::chrono::milliseconds::max());
  CHECK(with("CCOLL_START_TIMEOUT", "-1").second ==
        "invalid_argument: CCOLL_START_TIMEOUT=-1 is not a time in seconds from 0.001 to 31536000, "
        "or none");
  CHECK(with("CCOLL_STRICT_SENDS", "yes").second ==
        "invalid_argument: CCOLL_STRICT_SENDS=yes is not a whole number from 0 to 1");
}

TEST_CASE("start-up: what variables may be is what there is", "[comm]") {
  std::set<std::string_view> transport_names, algorithm_names;
  for (const auto& each : transports()) transport_names.insert(each.name);
  for (const auto& each : catalogue()) algorithm_names.insert(to_string(each.algorithm));
  const auto words = [](const char* name) {
    const auto all = values_of(name).words;
    return std::set(all.begin(), all.end());
  };
  CHECK(words("CCOLL_TRANSPORT") == transport_names);
  CHECK(words("CCOLL_ALGO") == algorithm_names);
  CHECK(words("CCOLL_DEVICE_WAY") == std::set{to_string(DeviceWay::team),
                                              to_string(DeviceWay::steps),
                                              to_string(DeviceWay::host)});
  CHECK(words("CCOLL_DEVICE_COPIES") ==
        std::set{to_string(DeviceCopies::always), to_string(DeviceCopies::never)});
  CHECK(values_of("CCOLL_HEARTBEAT").shortest == 100ms);
  CHECK(values_of("CCOLL_HEARTBEAT").longest == kMaxHeartbeat);
  CHECK(values_of("CCOLL_EAGER_LIMIT").most == kMaxEagerBytes);
  CHECK(values_of("CCOLL_LANES").most == kMaxLanes);
  // Every listed value is one that a communicator accepts.
  for (const char* name : {"CCOLL_TRANSPORT", "CCOLL_ALGO", "CCOLL_DEVICE_WAY"}) {
    for (const auto word : values_of(name).words) {
      ::setenv(name, std::string(word).c_str(), 1);
      CHECK(agreement_of(CommunicatorOptions::from_environment()));
      ::unsetenv(name);
    }
  }
  ::setenv("CCOLL_DEVICE_BLOCKS", "0", 1);
  CHECK(CommunicatorOptions::from_environment().device.blocks == 0);
  ::unsetenv("CCOLL_DEVICE_BLOCKS");
}

TEST_CASE("start-up: of the transports that may be used the best one is", "[comm]") {
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"^inproc", "shm"}, {"^inproc,shm,verbs", "tcp"}, {"tcp,shm", "shm"}, {"^tcp", "inproc"}};
  for (const auto& [allowed, used] : wanted) {
    CAPTURE(allowed);
    auto options = impatient();
    options.transport = allowed;
    const auto errors = testing::run_ranks(2, options, [&](Communicator& world) {
      std::vector<std::int32_t> values(100'000, 1);
      world.all_reduce(values);
      expect(values.back() == 2, "a sum is wrong");
      expect(world.transport_to(1 - world.rank()) == used, world.transport_to(1 - world.rank()));
    });
    for (const auto& error : errors) CHECK(error == "");
  }
  const auto store = make_inproc_store();
  for (const auto& error : run_threads(2, [&](int rank) {
         auto options = impatient();
         options.transport = rank == 0 ? "^verbs" : "shm,tcp";
         const auto text = message_of([&] { Communicator::create(store, rank, 2, options); });
         expect(
             text.find("CCOLL_TRANSPORT: rank 0 has inproc or shm or tcp, rank 1 has shm or tcp") !=
                 text.npos,
             text);
       }))
    CHECK(error == "");
}

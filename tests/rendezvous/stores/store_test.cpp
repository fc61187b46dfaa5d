// SPDX-License-Identifier: Apache-2.0
// One suite for every store: the promises of ccoll/store.hpp.
#include "ccoll/store.hpp"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>

#include "ccoll/types.hpp"
#include "rendezvous/stores/backend.hpp"

using namespace ccoll;
using namespace std::chrono_literals;

namespace {

/// A place where stores meet; connect() gives another store with the same keys.
struct Place {
  std::string name;
  std::function<std::shared_ptr<Store>()> connect;
  std::shared_ptr<void> kept;
};

std::vector<Place> places() {
  std::vector<Place> all;
  const auto tcp = [&](const std::string& name, const std::string& address) {
    std::shared_ptr<StoreServer> server = serve_tcp_store(address);
    all.push_back(
        {name, [server] { return connect_tcp_store(server->address(), {}, 5s); }, server});
  };
  tcp("tcp", "");
  try {
    tcp("tcp over IPv6", "[::1]:0");
  } catch (const Error&) {
    WARN("no IPv6 on this machine: its store was not tested");
  }
  static std::atomic<int> number{0};
  const std::string path =
      "/tmp/ccoll-store-test-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
  all.push_back({"file", [path] { return make_file_store(path); },
                 std::shared_ptr<void>(nullptr, [path](void*) { std::remove(path.c_str()); })});
  const auto inproc = make_inproc_store();
  all.push_back({"inproc", [inproc] { return inproc; }, nullptr});
  const std::size_t plain = all.size();
  for (std::size_t i = 0; i < plain; ++i) {
    const auto inner = all[i].connect;
    all.push_back({"prefix over " + all[i].name,
                   [inner] { return make_prefix_store(inner(), "job 7/"); }, all[i].kept});
  }
  return all;
}

std::optional<ErrorKind> kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

/// Runs `work` with 0 … count-1 on a thread each; returns the first failure's text, or "".
std::string on_threads(int count, const std::function<void(int)>& work) {
  std::mutex mutex;
  std::string failure;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (failure.empty()) failure = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failure;
}

using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("every store keeps, counts, compares, appends, lists and removes",
          "[rendezvous][conformance]") {
  for (const Place& place : places()) {
    INFO(place.name);
    const auto a = place.connect();
    const auto b = place.connect();
    const std::string binary("\0\xff\n", 3);
    a->set("k", binary);
    CHECK(b->get("k", 1s) == binary);
    a->set("k", "");
    CHECK(b->get("k", 1s).empty());
    CHECK(a->add("n", 5) == 5);
    CHECK(b->add("n", -7) == -2);
    CHECK(a->get("n") == "-2");
    a->set("text", "12x");
    CHECK(kind_of([&] { b->add("text", 1); }) == ErrorKind::invalid_argument);
    CHECK(a->compare_set("c", std::nullopt, "1"));
    CHECK_FALSE(b->compare_set("c", std::nullopt, "2"));
    CHECK_FALSE(b->compare_set("c", "0", "2"));
    CHECK_FALSE(b->compare_set("absent", "0", "2"));
    CHECK(b->compare_set("c", "1", "2"));
    CHECK(a->get("c") == "2");
    CHECK(a->append("log", "ab") == 2);
    CHECK(b->append("log", "c") == 3);
    CHECK(a->get("log") == "abc");
    CHECK(a->check(Keys{"k", "c"}));
    CHECK_FALSE(a->check(Keys{"k", "absent"}));
    const std::vector<std::pair<std::string, std::string>> pairs = {{"m/1", "x"}, {"m/2", "y"}};
    a->multi_set(pairs);
    CHECK(b->multi_get(Keys{"m/2", "m/1"}) == Keys{"y", "x"});
    CHECK(b->list("m/") == Keys{"m/1", "m/2"});
    CHECK(b->list("none").empty());
    CHECK(b->remove("m/1"));
    CHECK_FALSE(a->remove("m/1"));
    CHECK(a->list("m/") == Keys{"m/2"});
    CHECK(a->multi_get(Keys{}).empty());
  }
}

TEST_CASE("every store refuses keys and values over the limits", "[rendezvous][conformance]") {
  for (const Place& place : places()) {
    INFO(place.name);
    const auto store = place.connect();
    CHECK(kind_of([&] { store->barrier("b", 0); }) == ErrorKind::invalid_argument);
    const std::string key(kMaxKeyBytes + 1, 'k');
    CHECK(kind_of([&] { store->set(key, ""); }) == ErrorKind::invalid_argument);
    const std::string value(kMaxValueBytes, 'v');
    CHECK(kind_of([&] { store->set("k", value + "v"); }) == ErrorKind::invalid_argument);
    // It moves much data for few processors, and a prefix changes nothing.
    if (place.name.starts_with("prefix")) continue;
    store->set("k", value);
    CHECK(store->get("k") == value);
    CHECK(kind_of([&] { store->append("k", "v"); }) == ErrorKind::invalid_argument);
  }
}

TEST_CASE("a wait of any store ends with the key or with its time", "[rendezvous][conformance]") {
  for (const Place& place : places()) {
    INFO(place.name);
    const auto a = place.connect();
    const auto b = place.connect();
    CHECK(kind_of([&] { a->get("late", 20ms); }) == ErrorKind::timed_out);
    CHECK(kind_of([&] { a->wait(Keys{"late", "later"}, 0ms); }) == ErrorKind::timed_out);
    CHECK(on_threads(4, [&](int i) {
            if (i == 0) {
              std::this_thread::sleep_for(20ms);
              b->set("late", "1");
              b->set("later", "2");
            } else if (i == 1) {
              a->wait(Keys{"later", "late"}, 5s);
            } else {
              const auto values = (i == 2 ? a : b)->multi_get(Keys{"late", "later"}, 5s);
              if (values != Keys{"1", "2"}) throw std::runtime_error("wrong values");
            }
          }) == "");
  }
}

TEST_CASE("a barrier of any store holds until all came, again and again, without those who left",
          "[rendezvous][conformance]") {
  for (const Place& place : places()) {
    INFO(place.name);
    const auto early = place.connect();
    CHECK(kind_of([&] { early->barrier("b", 3, 20ms); }) == ErrorKind::timed_out);
    std::atomic<int> arrived{0};
    CHECK(on_threads(3, [&](int i) {
            const auto store = place.connect();
            for (int round = 1; round <= 5; ++round) {
              // One is late: a thread that passes without it has counted the caller that timed out.
              if (i == round % 3) std::this_thread::sleep_for(5ms);
              ++arrived;
              store->barrier("b", 3, 10s);
              if (arrived < 3 * round) throw std::runtime_error("passed too early");
            }
          }) == "");
  }
}

TEST_CASE("counters of any store lose nothing under many threads", "[rendezvous][conformance]") {
  for (const Place& place : places()) {
    INFO(place.name);
    const auto shared = place.connect();
    CHECK(on_threads(6, [&](int i) {
            const auto own = i % 2 == 0 ? shared : place.connect();
            for (int round = 0; round < 20; ++round) own->add("n", 1);
          }) == "");
    CHECK(shared->get("n") == "120");
  }
}

TEST_CASE("256 ranks in one process meet in a store", "[rendezvous][stress]") {
  const auto server = serve_tcp_store();
  const auto over_tcp = connect_tcp_store(server->address());
  for (const auto& store : {make_inproc_store(), over_tcp}) {
    CHECK(on_threads(256, [&](int rank) {
            store->set("rank" + std::to_string(rank), std::to_string(rank));
            const auto next = std::to_string((rank + 1) % 256);
            if (store->get("rank" + next, 20s) != next) throw std::runtime_error("wrong value");
            store->barrier("all", 256, 20s);
          }) == "");
  }
}

TEST_CASE("a file store survives a writer that died and refuses a stranger's file",
          "[rendezvous]") {
  const std::string path = "/tmp/ccoll-store-torn-" + std::to_string(::getpid());
  make_file_store(path)->set("a", "1");
  std::FILE* file = std::fopen(path.c_str(), "ab");
  std::fwrite("\x40\0\0\0torn", 1, 8, file);
  std::fclose(file);
  const auto store = make_file_store(path);
  CHECK(store->get("a", 1s) == "1");
  store->set("b", "2");
  CHECK(make_file_store(path)->multi_get(Keys{"a", "b"}, 1s) == Keys{"1", "2"});
  std::remove(path.c_str());
  CHECK(kind_of([&] { store->get("c", 5s); }) == ErrorKind::peer_lost);

  file = std::fopen(path.c_str(), "wb");
  std::fputs("somebody's diary", file);
  std::fclose(file);
  CHECK(kind_of([&] { make_file_store(path)->check(Keys{}); }) == ErrorKind::invalid_argument);
  std::remove(path.c_str());
  CHECK(kind_of([&] { make_file_store("/proc/nonexistent/x"); }) == ErrorKind::invalid_argument);
}

TEST_CASE("a store that is reached over a network says where, by whatever name its keys go",
          "[rendezvous]") {
  const auto server = serve_tcp_store();
  const auto store = connect_tcp_store(server->address());
  CHECK(store->address() == server->address());
  CHECK(make_prefix_store(store, "job 7/")->address() == server->address());
  CHECK(make_inproc_store()->address().empty());
  const std::string path = "/tmp/ccoll-store-address-" + std::to_string(::getpid());
  CHECK(make_file_store(path)->address().empty());
  std::remove(path.c_str());
}

TEST_CASE("a prefix needs a store", "[rendezvous]") {
  CHECK_THROWS_WITH(make_prefix_store(nullptr, "job 7/"),
                    "make_prefix_store: no store (null) for the prefix 'job 7/'");
}

TEST_CASE("a store that answers with fewer values than were asked for is told of",
          "[rendezvous][hostile]") {
  struct Forgetful final : rendezvous::Backend {
    Result<rendezvous::Response> call(rendezvous::Request, std::chrono::milliseconds) override {
      return rendezvous::Response{0, {"one"}};
    }
  };
  const auto store = rendezvous::make_store(std::make_unique<Forgetful>());
  CHECK(store->get("a", 1s) == "one");
  const std::vector<std::string> keys = {"a", "b"};
  try {
    store->multi_get(keys, 1s);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::corrupt);
    CHECK(std::string(error.what()) == "the store answered a get of 2 keys with 1 values");
  }
}

// SPDX-License-Identifier: Apache-2.0
// Children forked at awkward points: inside the caller's own reduction or store, and by another
// thread while ranks meet. The parent must be unaffected. The child may do as it likes there, and
// gets `aborted` when it returns into ccoll. No Catch2, as in fork_test.cpp.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/children.hpp"
#include "support/eventually.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::check;
using testing::eventually;
using testing::failures;
using testing::fork_child;
using testing::kChildrenHaveMemory;
using testing::kSoon;
using testing::status_of;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kSize = 3;
constexpr std::size_t kLongBytes = 1 << 20;

CommunicatorOptions options_for(const char* transport) {
  return testing::options_for(transport, 10s, 10s);
}

std::vector<Communicator> meet(const char* transport) {
  return Communicator::create_all(kSize, options_for(transport));
}

void sum_up(std::vector<Communicator>& ranks, const std::string& what) {
  std::vector<std::int32_t> values(ranks.size(), 1);
  {
    CallGroup group;
    for (std::size_t i = 0; i < ranks.size(); i++) ranks[i].all_reduce(std::span(&values[i], 1));
    group.end();
  }
  for (const auto value : values) check(value == kSize, what);
}

/// The result of a reduction over kSize ranks that forks once, in the first one's thread.
struct Forking {
  std::atomic<pid_t> child = -1;
  std::thread::id in_thread;
  std::function<void()> in_child = [] {};

  Reduction reduction() {
    return Reduction::custom(
        [this](const void* in, void* inout, std::size_t count, DataType) {
          const auto* from = static_cast<const std::int32_t*>(in);
          auto* to = static_cast<std::int32_t*>(inout);
          for (std::size_t i = 0; i < count; i++) to[i] += from[i];
          if (std::this_thread::get_id() != in_thread || child >= 0) return;
          const pid_t forked = fork();
          if (forked == 0) in_child();
          child = forked;
        },
        {.name = "forking"});
  }
};

/// The caller's own function forks in the middle of a call. The child may do as it likes there;
/// when it returns, its call is `aborted`, and the parent is unaffected.
void fork_in_reduction(const char* transport, bool returns) {
  const auto what = std::string(returns ? "a child that returns from" : "a child that ends in") +
                    " a reduction by " + transport;
  auto ranks = meet(transport);
  Forking forking;
  if (!returns) forking.in_child = [] { std::exit(failures); };
  const pid_t parent = getpid();
  std::vector<std::vector<std::int32_t>> values(kSize,
                                                std::vector<std::int32_t>(kLongBytes / 4, 1));
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < kSize; i++)
    threads.emplace_back([&, i] {
      if (i == 0) forking.in_thread = std::this_thread::get_id();
      try {
        const auto sum = forking.reduction();
        for (int round = 0; round < 3; round++) {
          std::ranges::fill(values[i], 1);
          ranks[i].all_reduce(values[i], sum);
          check(values[i] == std::vector<std::int32_t>(values[i].size(), kSize), what + ": a sum");
        }
        check(getpid() == parent, what + ": its call ends well");
      } catch (const Error& error) {
        const std::string text = error.what();
        check(getpid() != parent && error.kind() == ErrorKind::aborted &&
                  text.find("a child that the reduction 'forking' forked") != text.npos,
              what + ": " + text);
      }
      if (getpid() == parent) return;
      try {
        ranks[i].barrier();
        check(false, what + ": a barrier is taken");
      } catch (const Error& error) {
        check(error.kind() == ErrorKind::aborted, what + ": " + error.what());
      }
      std::exit(failures);
    });
  threads.clear();
  check(forking.child > 0, what + ": there was none");
  check(status_of(forking.child, what) == 0, what + ": it did not end well");
  sum_up(ranks, what);
}

/// The same on the service thread, where a child that returns has no caller and so exits.
void fork_in_background(const char* transport) {
  const auto what = std::string("a child of a reduction in the background by ") + transport;
  auto ranks = meet(transport);
  Forking forking;
  const auto main_thread = std::this_thread::get_id();
  const auto sum = Reduction::custom(
      [&](const void* in, void* inout, std::size_t count, DataType type) {
        if (std::this_thread::get_id() != main_thread && forking.child < 0)
          forking.in_thread = std::this_thread::get_id();
        forking.reduction().custom()->function(in, inout, count, type);
      },
      {.name = "forking"});
  std::vector<std::vector<std::int32_t>> values(kSize,
                                                std::vector<std::int32_t>(kLongBytes / 4, 1));
  std::vector<Work> works;
  for (std::size_t i = 0; i < kSize; i++)
    works.push_back(ranks[i].all_reduce_async(values[i], sum));
  check(eventually([&] { return forking.child > 0; }), what + ": there was none");
  const int status = status_of(forking.child, what);
  check(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE, what + ": its status");
  for (auto& work : works) work.wait();
  for (const auto& each : values)
    check(each == std::vector<std::int32_t>(each.size(), kSize), what + ": a sum");
  sum_up(ranks, what);
}

/// Another thread forks while ranks meet. Its children exit with success, every second one after
/// using ccoll itself, and the ranks meet.
void fork_while_ranks_meet() {
  const auto meet_in_child = [] {
    auto ranks = meet("tcp");
    sum_up(ranks, "ranks of a child");
  };
  std::atomic<bool> met = false;
  std::jthread other([&] {
    for (int i = 0; !met || i < 20; i++)
      fork_child("a child while ranks meet", [&] {
        if (kChildrenHaveMemory && i % 2 == 1) meet_in_child();
      });
  });
  for (int round = 0; round < 10; round++) {
    auto ranks = meet(round % 2 == 0 ? "shm" : "tcp");
    sum_up(ranks, "ranks that met while others forked");
  }
  met = true;
}

/// A custom store that forks at its `at`-th request.
class ForkingStore final : public Store {
 public:
  ForkingStore(std::shared_ptr<Store> store, int at) : store_(std::move(store)), at_(at) {}
  void set(std::string_view key, std::string_view value, Timeout timeout) override {
    store_->set(key, value, timeout);
    if (++requests_ == at_) child = fork();
  }
  std::string get(std::string_view key, Timeout timeout) override {
    auto value = store_->get(key, timeout);
    if (++requests_ == at_) child = fork();
    return value;
  }
  std::vector<std::string> list(std::string_view prefix, Timeout timeout) override {
    return store_->list(prefix, timeout);
  }
  // Start-up needs no other methods.
  void wait(std::span<const std::string>, Timeout) override {}
  std::int64_t add(std::string_view, std::int64_t, Timeout) override { return 0; }
  bool compare_set(std::string_view, std::optional<std::string_view>, std::string_view,
                   Timeout) override {
    return false;
  }
  std::size_t append(std::string_view, std::string_view, Timeout) override { return 0; }
  bool check(std::span<const std::string>, Timeout) override { return false; }
  bool remove(std::string_view, Timeout) override { return false; }
  std::vector<std::string> multi_get(std::span<const std::string>, Timeout) override { return {}; }
  void multi_set(std::span<const std::pair<std::string, std::string>>, Timeout) override {}
  void barrier(std::string_view, std::size_t, Timeout) override {}

  pid_t child = -1;

 private:
  const std::shared_ptr<Store> store_;
  const int at_;
  int requests_ = 0;
};

/// The store forks in the middle of start-up; the child's create fails at once.
void fork_in_store(int at) {
  const auto what = "a child of a store's request " + std::to_string(at);
  const pid_t parent = getpid();
  const auto shared = make_inproc_store();
  const auto forking = std::make_shared<ForkingStore>(shared, at);
  std::jthread other([&] {
    auto rank = Communicator::create(shared, 0, 2, options_for("tcp"));
    rank.barrier();
  });
  const auto began = Clock::now();
  try {
    auto rank = Communicator::create(forking, 1, 2, options_for("tcp"));
    check(getpid() == parent, what + ": it has a communicator");
    rank.barrier();
  } catch (const Error& error) {
    const std::string text = error.what();
    check(getpid() != parent && error.kind() == ErrorKind::aborted &&
              text.find("the store has forked process") != text.npos,
          what + ": " + text);
    check(Clock::now() - began < kSoon, what + ": late");
  }
  if (getpid() != parent) std::exit(failures);
  other.join();
  check(forking->child > 0, what + ": there was none");
  check(status_of(forking->child, what) == 0, what + ": it did not end well");
}

}  // namespace

int main() {
  for (const auto* transport : {"inproc", "shm", "tcp"}) {
    if (kChildrenHaveMemory)
      for (const bool returns : {false, true}) fork_in_reduction(transport, returns);
    fork_in_background(transport);
  }
  fork_while_ranks_meet();
  if (kChildrenHaveMemory)
    for (const int at : {1, 2}) fork_in_store(at);
  return failures;
}

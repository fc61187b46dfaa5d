// SPDX-License-Identifier: Apache-2.0
// Groups of calls in CUDA's streams, on a device that the host plays. One thread's calls for
// several ranks enter the streams in the order of its calls, whoever makes them.
#include <fmt/format.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "devices.hpp"
#include "support/asleep.hpp"
#include "support/effort.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kCount = 100;

/// One thread drives all ranks of two communicators, with a stream for each rank. One of the two
/// works through the host. Each call's result is the next one's input, so it shows their order.
class Driver {
 public:
  explicit Driver(unsigned seed) : random_(seed) {
    for (int rank = 0; rank < kRanks; rank++) {
      expected_.push_back(rank + 1);
      from_.emplace_back(Values(kCount, rank + 1));
      to_.emplace_back(Values(kCount));
    }
  }

  void run_group() {
    std::vector<Work> works;
    {
      CallGroup group;
      for (int call = 0; call < 6; call++) {
        auto made = make_call();
        if (!made.empty() && below(4) == 0) made[below(made.size())].wait(20s);
        works.insert(works.end(), made.begin(), made.end());
      }
      group.end();
    }
    for (auto& work : works) work.wait();
    for (std::size_t i = 0; i < kRanks; i++) {
      streams_[i].wait();
      INFO(calls_ << " on rank " << i);
      REQUIRE(from_[i].values() == Values(kCount, expected_[i]));
      REQUIRE(devices_[i].error() + hosts_[i].error() == "");
      // Begins again with small numbers.
      const Values values(kCount, expected_[i] = static_cast<std::int32_t>(i) + 1);
      check_cuda(cudaMemcpy(from_[i].data(), values.data(), 4 * kCount, cudaMemcpyHostToDevice),
                 "memcpy");
    }
    calls_.clear();
  }

 private:
  static constexpr int kRanks = 3;
  enum class What : std::uint8_t { sum, scaled, broadcast, ragged, by_host, rotation };

  std::size_t below(std::size_t limit) { return random_() % limit; }

  /// Makes the call on all ranks; returns the Works if it is asynchronous.
  std::vector<Work> make_call() {
    auto what = static_cast<What>(below(6));
    // Two in a row would be one batch.
    if (what == What::rotation && last_ == what) what = What::sum;
    last_ = what;
    const int root = static_cast<int>(below(kRanks));
    const bool async = below(2) == 0;
    calls_ += fmt::format(" {}{}", static_cast<int>(what), async ? "a" : "");
    std::vector<Work> works;
    const auto before = expected_;
    std::int32_t total = 0;
    for (const auto value : before) total += value;
    for (int rank = 0; rank < kRanks; rank++) {
      const auto i = static_cast<std::size_t>(rank);
      if (auto work = make_call(what, i, root, async)) works.push_back(*work);
      const auto root_value = before[static_cast<std::size_t>(root)];
      switch (what) {
        case What::sum:
        case What::by_host:
          expected_[i] = total;
          break;
        case What::scaled:
          expected_[i] = 3 * total;
          break;
        case What::broadcast:
        case What::ragged:
          expected_[i] = root_value;
          break;
        case What::rotation:
          expected_[i] = before[(i + kRanks - 1) % kRanks];
          break;
      }
    }
    if (what == What::ragged || what == What::rotation) std::swap(from_, to_);
    return works;
  }

  std::optional<Work> make_call(What what, std::size_t i, int root, bool async) {
    auto& c = devices_[i];
    const auto options = in(streams_[i]);
    void *const from = from_[i].data(), *const to = to_[i].data();
    Collective call{Kind::all_reduce, kCount, root};
    switch (what) {
      case What::sum:
        break;
      case What::scaled:
        call.op = Reduction::premultiplied_sum(std::int32_t{3});
        break;
      case What::broadcast:
        call.kind = Kind::broadcast;
        break;
      case What::by_host:
        return call.make(hosts_[i], from, from, options, async);
      case What::ragged: {
        Block outputs[kRanks];
        for (int rank = 0; rank < kRanks; rank++)
          outputs[rank] = rank == root ? Block{to, kCount, kType} : Block{nullptr, 0, kType};
        const ConstBlock input{from, static_cast<int>(i) == root ? kCount : 0, kType};
        if (async) return c.all_gather_v_async(input, outputs, options);
        c.all_gather_v(input, outputs, options);
        return std::nullopt;
      }
      case What::rotation: {
        const auto rank = static_cast<int>(i);
        c.recv(Block(to, kCount, kType), (rank + kRanks - 1) % kRanks, 0, options);
        c.send(ConstBlock(from, kCount, kType), (rank + 1) % kRanks, 0, options);
        return std::nullopt;
      }
    }
    return call.make(c, from, from, options, async);
  }

  std::mt19937 random_;
  std::vector<Communicator> devices_ = Communicator::create_all(kRanks, on_device());
  std::vector<Communicator> hosts_ = Communicator::create_all(kRanks, [] {
    auto options = on_device();
    options.device.way = DeviceWay::host;
    return options;
  }());
  const OwnedStream streams_[kRanks];
  std::vector<Device> from_, to_;
  std::vector<std::int32_t> expected_;
  What last_ = What::sum;
  std::string calls_;
};

}  // namespace

TEST_CASE("devices: a group's calls come into streams in the order of the calls",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  Driver driver(seed);
  const int groups = by_effort(5, 20, 500);
  for (int i = 0; i < groups; i++) driver.run_group();
}

TEST_CASE("devices: ranks of one thread may share a stream in a group", "[comm]") {
  if (way() != "team") return;
  auto ranks = Communicator::create_all(2, on_device());
  const OwnedStream stream;
  const Device first(Values(10, 1)), second(Values(10, 2));
  CallGroup group;
  for (int i = 0; i < 2; i++) {
    ranks[0].all_reduce(Block(first.data(), 10, kType), ReduceOp::sum, in(stream));
    ranks[1].all_reduce(Block(second.data(), 10, kType), ReduceOp::sum, in(stream));
  }
  group.end();
  stream.wait();
  CHECK((first.values() == Values(10, 6) && second.values() == Values(10, 6)));
}

TEST_CASE("devices: a Work may be waited for, and asked for, in its open group", "[comm]") {
  std::atomic<bool> was_early{false};
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device sums(Values(10, 1));
    const auto call = [&] {
      return c.all_reduce_async(Block(sums.data(), 10, kType), ReduceOp::sum, in(stream));
    };
    CallGroup group;
    auto waited = call();
    waited.wait(20s);
    expect(sums.values() == Values(10, 2), "what is waited for");
    auto asked = call();
    expect(eventually([&] { return asked.test(); }), "what is asked for is not over");
    expect(sums.values() == Values(10, 4), "what is asked for");
    if (c.rank() == 0) {
      auto early = call();
      const auto message = message_of([&] { early.wait(30ms); });
      was_early = true;
      expect(message.starts_with("timed_out"), "it does not return");
      // A call behind it.
      auto next = call();
      c.barrier(in(stream));
      next.wait(20s);
      group.end();
    } else {
      expect(eventually([&] { return was_early.load(); }), "rank 0 waits");
      call();
      call();
      group.end();
      c.barrier();
    }
    stream.wait();
    expect(sums.values() == Values(10, 16), "what is called after it");
  }));
}

TEST_CASE("devices: what fails as a Work is waited for is its group's failure, too", "[comm]") {
  if (way() != "team") return;
  std::atomic<bool> is_over{false};
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        if (c.rank() == 1) {
          return expect(eventually([&] { return is_over.load(); }), "rank 0 waits");
        }
        const OwnedStream stream;
        const Device sums(Values(10, 1));
        CallGroup group;
        auto work = c.all_reduce_async(Block(sums.data(), 10, kType), ReduceOp::sum, in(stream));
        const auto waited = message_of([&] { work.wait(20s); });
        const auto ended = message_of([&] { group.end(); });
        is_over = true;
        throw std::runtime_error(waited + "; " + ended);
      },
      options_for("", 300ms));
  CHECK_THAT(errors[0], Catch::Matches("timed_out: .* timed out after [0-9]+ ms.*; timed_out: .*"));
}

TEST_CASE("devices: a communicator that ends while its put-off call waits is the group's failure",
          "[comm]") {
  if (way() != "team") return;
  auto ranks = Communicator::create_all(2, on_device());
  const OwnedStream stream;
  const Device sums(Values(10, 1));
  group_begin();
  auto work = ranks[0].all_reduce_async(Block(sums.data(), 10, kType), ReduceOp::sum, in(stream));
  CHECK_FALSE(work.test());
  ranks[0].close();
  CHECK_THAT(message_of([] { group_end(); }),
             Catch::StartsWith("aborted") && Catch::Contains("ended before its group"));
  CHECK(work.test());
}

TEST_CASE("devices: a group that waits for another thread's call does not spin", "[comm]") {
  if (way() != "team") return;
  std::atomic<bool> is_over{false};
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const OwnedStream streams[2];
    const Device sums[2] = {Device(Values(10, 1)), Device(Values(10, 1))};
    const auto call = [&](std::size_t i) {
      c.all_reduce(Block(sums[i].data(), 10, kType), ReduceOp::sum, in(streams[i]));
    };
    if (c.rank() == 1) {
      expect(eventually([&] { return is_over.load(); }), "rank 0 waits");
      call(0);
      call(1);
    } else {
      CallGroup group;
      call(0);
      Sleeper caller;
      std::thread before([&] {
        caller.is_this_thread();
        call(1);
      });
      const bool waits = caller.sleeps();
      std::thread other([&] {
        be_late(400ms);
        is_over = true;
      });
      const auto busy = [] {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
      };
      const auto begun = busy();
      group.end();
      const auto ended = busy();
      before.join();
      other.join();
      expect(waits, "the other thread's call does not wait");
      expect(ended - begun < 0.1, fmt::format("busy for {} s", ended - begun));
    }
    for (std::size_t i = 0; i < 2; i++) {
      streams[i].wait();
      expect(sums[i].values() == Values(10, 2), "the sums");
    }
  }));
}

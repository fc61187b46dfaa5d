// SPDX-License-Identifier: Apache-2.0
// Where a device stands that is late, as errors and dumps tell.
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/record/dump/dump.hpp"
#include "devices.hpp"
#include "dumps/read.hpp"
#include "held_stream.hpp"
#include "support/gpu/cuda_on_host.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

TEST_CASE("devices: a device that does not make its part in time is told of", "[comm]") {
  if (way() == "host") return;
  auto options = options_for("");
  options.timeout = 300ms;
  std::atomic<bool> is_held{false}, may_go{false};
  std::atomic<int> told_ranks{0};
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream, other;
        const Device there(ramp(10, 0));
        Values here(10);
        std::pair hold(&is_held, &may_go);
        if (c.rank() == 0) {
          // Meanwhile no host memory reaches the device.
          const auto wait = [](void* both) {
            const auto [held, go] = *static_cast<decltype(hold)*>(both);
            *held = true;
            while (!*go) std::this_thread::yield();
          };
          check_cuda(cudaLaunchHostFunc(other, wait, &hold), "a host function");
        }
        while (!is_held) std::this_thread::yield();
        auto* const buffer = c.rank() == 0 ? here.data() : there.data();
        auto work = c.all_reduce_async(Block(buffer, 10, kType), ReduceOp::sum, in(stream));
        wait_for_error(c);
        if (++told_ranks == 2) may_go = true;
        work.wait();
      },
      options);
  for (const auto& error : errors) {
    CHECK_THAT(error, Catch::Contains("the device has not finished it in time"));
    if (way() == "steps") CHECK_THAT(error, Catch::Contains(" stands after "));
  }
  // Rank 0 may have everything that it waits for.
  if (way() == "steps") CHECK_THAT(errors[1], Catch::Contains(" steps, and waits for "));
}

TEST_CASE("devices: of a kernel that does not end in time it is said where it stands", "[comm]") {
  if (way() != "team") return;
  auto options = options_for("");
  options.timeout = 300ms;
  cuda_on_host_holds_kernels(true);
  std::atomic<int> told{0};
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device sums(Values(1000, 1));
        auto work = c.all_reduce_async(Block(sums.data(), 1000, kType), ReduceOp::sum, in(stream));
        wait_for_error(c);
        const auto dump = value_or_throw(dump::parse(c.dump()));
        expect(dump.failure.has_value(), "the dump of a call that has failed");
        for (const auto& each : dump.under_way)
          if (each.device.find("lane 0 not ended after 0 steps of call ") != std::string::npos)
            told++;
        work.wait();
      },
      options);
  cuda_on_host_holds_kernels(false);
  // A rank that hears of it from the other may find the device already broken.
  CHECK(told >= 1);
  for (const auto& error : errors) {
    CHECK_THAT(error, Catch::Contains("the device has not finished it in time: rank ") &&
                          Catch::Contains("lane 0 not ended after 0 steps of call "));
  }
}

namespace {

/// Returns whether both ranks' dumps showed a call whose host part had not begun. It begins early
/// where a rank makes the call so late that the other one looks for it (Streams::enter).
bool show_how_far_the_device_is() {
  std::atomic<bool> may_go{false};
  std::atomic<int> seen{0}, seen_before_host{0};
  if (way() == "team") cuda_on_host_holds_kernels(true);
  const auto errors = run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device sums(Values(1000, 1));
    std::optional<HeldStream> held(stream);
    auto call = in(stream);
    call.label = "sums";
    auto work = c.all_reduce_async(Block(sums.data(), 1000, kType), ReduceOp::sum, std::move(call));
    // Waits until a dump shows what `is_awaited` looks for.
    const auto dump_of = [&](const std::function<bool(const dump::UnderWay&)>& is_awaited) {
      dump::Dump dump;
      const auto is_shown = [&] {
        dump = value_or_throw(dump::parse(c.dump()));
        return !dump.under_way.empty() && is_awaited(dump.under_way.front());
      };
      expect(eventually(is_shown), "the call is not shown as it should be: " + c.dump());
      return dump;
    };
    const auto has_words = [](const dump::UnderWay& shown, std::string_view words) {
      return shown.device.find(words) != std::string::npos;
    };
    const auto before = dump_of([&](const auto& shown) {
      return shown.device.starts_with("its stream has not reached it");
    });
    if (before.under_way.front().standing.starts_with("not begun: its stream")) seen_before_host++;
    // With stream steps only one rank's stream continues, so the other stops in its first wait.
    const bool goes_on = way() == "team" || c.rank() == 0;
    if (goes_on) held->go_on();
    if (goes_on)
      (void)dump_of([&](const auto& shown) {
        return has_words(shown, "its stream has reached it; ") &&
               has_words(shown, way() == "team" ? "lane 0 not ended after 0 steps of call "
                                                : "rank 0 stands after ");
      });
    if (way() == "team") {
      // The concurrent barrier is over, but the call is not.
      const auto dump =
          dump_of([](const auto& shown) { return shown.standing == "the host has done its part"; });
      expect(has_words(dump.under_way.front(), "lane 0 not ended after 0 steps"),
             "where it stands");
      expect(
          dump.under_way.front().text.starts_with("all_reduce of 1000 ") &&
              dump.under_way.front().text.find("(call 0, \"sums\") on rank") != std::string::npos,
          "its name: " + dump.under_way.front().text);
      const auto apart = dump.under_way.front().begun - dump.last_calls.front().begun;
      expect(std::abs(apart) < 1'000'000'000, "when it began");
      expect(dump.calls == 1 && dump.finished == 0, "how many calls are over");
      expect(dump.last_calls.front().state == dump::State::begun, "the call's state");
    }
    if (++seen == 2) may_go = true;
    static_cast<void>(eventually([&] { return may_go.load(); }));
    if (c.rank() == 0) cuda_on_host_holds_kernels(false);
    held->go_on();
    work.wait();
    const auto dump = value_or_throw(dump::parse(c.dump()));
    expect(dump.under_way.empty() && dump.finished == dump.calls, "a call that is over");
    expect(dump.last_calls.back().state == dump::State::ended, "the state of what is over");
  });
  cuda_on_host_holds_kernels(false);
  CHECK(errors == std::vector<std::string>(2));
  return seen_before_host == 2;
}

}  // namespace

TEST_CASE("devices: a dump says how far the device is with what it has not ended", "[comm]") {
  if (way() == "host" || way() == "copies") return;
  int late = 0;
  while (!show_how_far_the_device_is() && late < 10) late++;
  CHECK(late < 10);
}

// SPDX-License-Identifier: Apache-2.0
// failing_program WHAT: a job whose last rank misbehaves, for diagnosis_test.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"

int main(int count, char** arguments) {
  if (count != 2) return std::fputs("usage: failing_program WHAT\n", stderr), 2;
  const std::string_view what = arguments[1];
  using namespace std::chrono_literals;
  auto options = ccoll::CommunicatorOptions::from_environment();
  options.timeout = what == "hang" ? 100s : what == "sleep" ? 1s : 2s;
  options.strict_sends = what == "all send";
  auto world = ccoll::Communicator::create(options);
  std::vector<float> data(1 << 18);
  const bool last = world.rank() == world.size() - 1;
  try {
    for (int i = 0; i < 3; i++) world.all_reduce(data, data);
    if (what == "cycle") {
      const int next = (world.rank() + 1) % world.size();
      world.recv(std::span(data), next, 7, {.label = "from the next"});
    }
    if (what == "order") {
      auto second = world.duplicate({.name = "second"});
      if (last) second.broadcast(ccoll::Block(data.data(), 9, ccoll::DataType::float32), 0);
      world.all_reduce(data, data, ccoll::ReduceOp::sum, {.label = "gradients"});
      if (!last) second.broadcast(ccoll::Block(data.data(), 9, ccoll::DataType::float32), 0);
    }
    if (what == "all send") {
      world.send(std::span(data).first(9), (world.rank() + 1) % world.size(), 7);
      world.recv(std::span(data), (world.rank() + 2) % world.size(), 7);
    }
    if (what == "send alone" && last) world.send(std::span(data), 0, 7);
    if (what == "leave" && last) return 0;
    if (last && what == "hang") std::fprintf(stderr, "hangs\n");
    if (last && (what == "sleep" || what == "hang" || what == "send alone"))
      std::this_thread::sleep_for(what == "hang" ? 60s : 4s);
    if (last && what == "stop") raise(SIGSTOP);
    if (last && what == "kill") raise(SIGKILL);
    if (what == "mismatch")
      world.all_reduce(ccoll::Block(data.data(), last ? 3 : 4, ccoll::DataType::float32));
    world.all_reduce(data, data, ccoll::ReduceOp::sum, {.algorithm = "ring", .label = "gradients"});
  } catch (const ccoll::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}

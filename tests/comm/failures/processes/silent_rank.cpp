// SPDX-License-Identifier: Apache-2.0
// silent_rank ELEMENTS [HEARTBEAT_MS]: one rank of silent_test. It makes calls until one fails or
// rank 0 is told to end them, continues with the survivors, and reports line by line.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"

namespace {

using Elements = std::vector<std::int64_t>;
constexpr std::int64_t kOwn = 0x5a5a5a5a;  ///< the caller's own value, set after a call

void say(const std::string& text) { std::cout << text + "\n" << std::flush; }

std::string text_of(const ccoll::Error& error) {
  return std::string(to_string(error.kind())) + ": " + error.what();
}

/// Waits for the next line from the test, or for the test's end.
void await_line() {
  std::string line;
  std::getline(std::cin, line);
}

/// Each rank contributes its own number; the last element says whether any rank wants to end.
bool call(ccoll::Communicator& ranks, Elements& in, Elements& out, bool end) {
  std::fill(in.begin(), in.end(), ranks.rank() + 1);
  in.back() = end;
  ranks.all_reduce(in, out);
  const std::int64_t sum = std::int64_t{ranks.size()} * (ranks.size() + 1) / 2;
  if (std::any_of(out.begin(), out.end() - 1, [&](std::int64_t each) { return each != sum; }))
    throw std::runtime_error("a wrong result");
  return out.back() > 0;
}

bool is_untouched(const Elements& buffer) {
  return std::all_of(buffer.begin(), buffer.end(), [](std::int64_t each) { return each == kOwn; });
}

/// After a failure the survivors continue, and a rank outside their group harms nobody.
int go_on(ccoll::Communicator& ranks, Elements& in, Elements& out) {
  std::fill(in.begin(), in.end(), kOwn);
  std::fill(out.begin(), out.end(), kOwn);
  try {
    ranks = ranks.shrink({.timeout = std::chrono::seconds(60)});
  } catch (const ccoll::Error& error) {
    say("alone " + text_of(error));
    return 3;
  }
  Elements small(8), result(8);
  call(ranks, small, result, false);
  std::string left;
  for (int rank = 0; rank < ranks.size(); rank++)
    left += " " + std::to_string(ranks.job_rank(rank));
  say("left" + left);
  await_line();
  call(ranks, small, result, false);
  if (!is_untouched(in) || !is_untouched(out)) throw std::runtime_error("buffers were written to");
  say("unharmed");
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  const auto elements = static_cast<std::size_t>(std::atoi(arguments[1]));
  auto options = ccoll::CommunicatorOptions::from_environment();
  if (count > 2) options.heartbeat = std::chrono::milliseconds(std::atoi(arguments[2]));
  auto ranks = ccoll::Communicator::create(options);
  Elements in(elements), out(elements);
  std::atomic<bool> end{false};
  std::thread listener;
  if (ranks.rank() == 0)
    listener = std::thread([&] {
      await_line();
      end = true;
    });
  call(ranks, in, out, false);
  say("ready " + std::to_string(ranks.rank()));
  int status = 0;
  try {
    while (!call(ranks, in, out, end)) continue;
    say("over");
  } catch (const ccoll::Error& error) {
    say("failed " + text_of(error));
    status = go_on(ranks, in, out);
  }
  if (listener.joinable()) listener.join();
  ranks.close();
  say("closed");
  return status;
} catch (const std::exception& error) {
  say("wrong " + std::string(error.what()));
  std::_Exit(1);
}

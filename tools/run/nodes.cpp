// SPDX-License-Identifier: Apache-2.0
#include "run/nodes.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <regex>
#include <string>

#include "ccoll/store.hpp"
#include "core/deadline.hpp"

namespace ccoll {
namespace {

using Clock = std::chrono::steady_clock;

/// The interval for checking signals, so that waiting for the other nodes can be stopped.
constexpr std::chrono::milliseconds kTurn{500};
/// As the ranks' own start-up says what is missing.
constexpr std::chrono::seconds kFirstWord{10}, kBetweenWords{60};
/// "RANKS NODES NODE" of the first node to arrive.
constexpr const char* kShapeKey = "cc-run/shape";

int signal_that_came(int signals) {
  signalfd_siginfo info{};
  while (::read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
  return 0;
}

std::string words(const std::string& ranks, const std::string& nodes) {
  return fmt::format("-n {} --nodes {}", ranks, nodes);
}

/// The cause that the failure of one turn names, without the turn's own time, tries and advice:
/// "no store at 10.0.0.1:29500 after 0.5 s (connection refused, 6 tries): is rank 0 running?"
/// becomes "no store at 10.0.0.1:29500 (connection refused)".
std::string cause_of(const std::string& text) {
  static const std::regex time(" after [0-9.]+ m?s(?= \\()"), tries(", [0-9]+ (try|tries)\\):.*");
  return std::regex_replace(std::regex_replace(text, time, ""), tries, ")");
}

Status compare(const LaunchOptions& options, Store& store) {
  const std::string ranks = std::to_string(options.ranks), nodes = std::to_string(options.nodes);
  const std::string shape = ranks + " " + nodes;
  if (!store.compare_set(kShapeKey, std::nullopt, fmt::format("{} {}", shape, options.node))) {
    const std::string first = store.get(kShapeKey);
    const std::size_t space = first.find(' '), last = first.rfind(' ');
    if (first.substr(0, last) != shape) {
      return fail(ErrorKind::mismatch,
                  "node {} was started with {}, node {} with {}: give all nodes the same",
                  options.node, words(ranks, nodes), first.substr(last + 1),
                  words(first.substr(0, space), first.substr(space + 1, last - space - 1)));
    }
  }
  if (store.compare_set(fmt::format("cc-run/node/{}", options.node), std::nullopt, "here"))
    return {};
  return fail(ErrorKind::mismatch,
              "--node {} has been started already at the store {}: give each host a number of its "
              "own",
              options.node, options.store);
}

}  // namespace

Result<int> agree_with_nodes(const LaunchOptions& options, const std::string& token, int signals) {
  const auto deadline = deadline_after(options.node_time);
  const auto begun = Clock::now();
  auto next_word = begun + kFirstWord;
  for (;;) {
    try {
      const auto store = connect_tcp_store(options.store, token, kTurn);
      if (const Status same = compare(options, *store); !same) return tl::unexpected(same.error());
      return 0;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timed_out) return fail(error.kind(), "{}", error.what());
      if (Clock::now() >= deadline) {
        return fail(ErrorKind::timed_out,
                    "node 0 did not serve the store within {:g} s: {}; is cc-run --node 0 running, "
                    "with the same --store?",
                    std::chrono::duration<double>(options.node_time).count(),
                    cause_of(error.what()));
      }
      if (Clock::now() >= next_word) {
        next_word += kBetweenWords;
        const auto waited = std::chrono::round<std::chrono::seconds>(Clock::now() - begun);
        fmt::print(stderr,
                   "cc-run: node {} has waited {} s for node 0 to serve the store: {}; is cc-run "
                   "--node 0 running, with the same --store?\n",
                   options.node, waited.count(), cause_of(error.what()));
      }
    }
    if (const int signal = signal_that_came(signals)) return signal;
  }
}

}  // namespace ccoll

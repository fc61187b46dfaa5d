// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/remarks.hpp"

#include <algorithm>
#include <atomic>
#include <map>

#include "core/text.hpp"
#include "engine/describe.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

/// A program whose every call has another size would fill the log.
constexpr std::size_t kMostChoicesLogged = 256;

enum class Relation { same_process, same_host, other_host };

Relation relation(const PeerAddress& mine, const PeerAddress& theirs) {
  if (mine.process == theirs.process) return Relation::same_process;
  return mine.host == theirs.host ? Relation::same_host : Relation::other_host;
}

std::string_view to_string(Relation relation) {
  switch (relation) {
    case Relation::same_process:
      return "threads of this process";
    case Relation::same_host:
      return "other processes of this host";
    case Relation::other_host:
      return "other hosts";
  }
  return "?";
}

/// "tcp to ranks 0, 2 (other processes of this host) and ranks 3-7 (other hosts)".
std::string transports_text(const Introduction& facts) {
  std::map<std::string_view, std::map<Relation, std::vector<std::uint32_t>>> peers;
  for (std::uint32_t peer = 0; peer < facts.table.size(); ++peer) {
    if (peer == facts.rank) continue;
    const Relation how = relation(facts.table[facts.rank], facts.table[peer]);
    peers[facts.transports[peer]][how].push_back(peer);
  }
  std::string text;
  for (const auto& [transport, relations] : peers) {
    text += fmt::format("{}{} to", text.empty() ? "" : "; ", transport);
    bool first = true;
    for (const auto& [how, ranks] : relations) {
      text += fmt::format("{} {} ({})", first ? "" : " and", list_ranks(ranks), to_string(how));
      first = false;
    }
  }
  return text;
}

/// By all communicators of a process.
struct LoggedChoices {
  std::atomic<std::size_t> count{0};
};

}  // namespace

std::vector<std::string> introduction(const Introduction& facts) {
  const PeerAddress& mine = facts.table[facts.rank];
  const auto local = std::ranges::count(facts.table, mine.host, &PeerAddress::host);
  std::string who = fmt::format("rank {} of {}: host {}, pid {}, {} rank{} and {} core{} here",
                                facts.rank, facts.table.size(), facts.host, mine.pid, local,
                                local == 1 ? "" : "s", mine.cores, mine.cores == 1 ? "" : "s");
  if (facts.table.size() == 1) return {who};
  who += fmt::format("; listens at {} ({}{}{})", endpoint_text(mine), facts.interface,
                     facts.interface.empty() ? "" : ", ", facts.why_there);
  return {who, fmt::format("rank {}: {}{}", facts.rank, transports_text(facts),
                           facts.transport_forced ? "; that transport was asked for"
                                                  : "; the best that reaches them")};
}

std::string choice_text(const Signature& signature, const Chosen& chosen) {
  return fmt::format("{}: {} with {} lane{}: {}", describe(signature),
                     ccoll::to_string(chosen.choice.algorithm), chosen.choice.lanes,
                     chosen.choice.lanes == 1 ? "" : "s", chosen.reason());
}

void log_choice(std::uint32_t rank, const Signature& signature, const Chosen& chosen) {
  auto& logged = Runtime::one<LoggedChoices>().count;
  auto level = LogLevel::debug;
  if (rank == 0 && log().tells(LogLevel::info) && logged < kMostChoicesLogged) {
    level = LogLevel::info;
    if (++logged == kMostChoicesLogged)
      log().info("further choices are logged by CCOLL_LOG=debug only");
  }
  if (log().tells(level)) log().at(level, "rank {}: {}", rank, choice_text(signature, chosen));
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "show/text/dumps_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <vector>

#include "bench/command/columns.hpp"
#include "comm/record/dump/dump.hpp"
#include "core/text.hpp"
#include "dumps/diagnosis.hpp"
#include "dumps/read.hpp"

namespace ccoll::show {
namespace {

constexpr std::uint64_t kCallsShown = 16;
/// If there are more ranks, they are counted instead of shown.
constexpr std::size_t kRanksShown = 8;

using Dumps = std::vector<dump::Dump>;

bool has_traces(const std::string& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == ".trace") return true;
  return false;
}

const dump::Call* call_of(const dump::Dump& dump, std::uint64_t number) {
  const auto found = std::ranges::find(dump.last_calls, number, &dump::Call::number);
  return found == dump.last_calls.end() ? nullptr : &*found;
}

/// The text of a rank's column for that call.
std::string state_of(const dump::Dump& dump, std::uint64_t number, const std::string& usual) {
  if (number >= dump.calls) return "-";
  const auto* const call = call_of(dump, number);
  if (call == nullptr) return "ended";
  return fmt::format("{}{}", to_string(call->state), call->text == usual ? "" : "!");
}

/// "ended x 6, - x 2"
std::string counted(const std::vector<std::string>& states) {
  std::map<std::string, int> counts;
  for (const auto& state : states) counts[state]++;
  std::vector<std::string> parts;
  for (const auto& [state, count] : counts) parts.push_back(fmt::format("{} x {}", state, count));
  return joined(parts);
}

/// Every call that some rank still remembers; these are the last ones.
std::string calls_text(const Dumps& group, std::size_t width) {
  using Align = bench::TextTable::Align;
  std::set<std::uint64_t> numbers;
  for (const auto& dump : group)
    for (const auto& call : dump.last_calls) numbers.insert(call.number);
  while (numbers.size() > kCallsShown) numbers.erase(numbers.begin());
  const bool are_counted = group.size() > kRanksShown;
  std::vector<bench::TextTable::Head> heads = {{"call", Align::left}};
  if (are_counted) heads.push_back({"ranks", Align::left});
  for (const auto& dump : group)
    if (!are_counted) heads.push_back({fmt::format("rank {}", dump.rank), Align::left});
  bench::TextTable table(std::move(heads));
  bool differs = false;
  for (const auto number : numbers) {
    const dump::Call* first = nullptr;
    for (const auto& dump : group)
      if (first == nullptr) first = call_of(dump, number);
    std::vector<std::string> states;
    for (const auto& dump : group) states.push_back(state_of(dump, number, first->text));
    differs |= std::ranges::any_of(states, [](const auto& s) { return s.ends_with('!'); });
    if (are_counted) states = {counted(states)};
    states.insert(states.begin(), dump::call_text(*first));
    table.add(std::move(states));
  }
  return table.text(width) + "-: not entered" +
         (differs ? "; !: another call than the first rank's\n" : "\n");
}

std::string stands_text(const dump::Dump& dump, std::size_t width) {
  std::string text;
  for (const auto& operation : dump.under_way) {
    std::vector<std::uint32_t> ranks;
    for (const auto& peer : operation.waits_for) ranks.push_back(peer.rank);
    text += bench::wrapped(
        fmt::format("rank {}: {}, {}{}{}", dump.rank, operation.text, operation.standing,
                    ranks.empty() ? "" : fmt::format("; it waits for {}", list_ranks(ranks)),
                    operation.device.empty() ? "" : "; on its GPU: " + operation.device),
        width);
  }
  return text;
}

std::string group_text(const Dumps& group, std::size_t width) {
  const auto& first = group.front();
  std::string text = bench::wrapped(
      fmt::format("{}: {} of {} ranks have left a dump (job {}, communicator {})", first.name,
                  group.size(), first.size, first.job, first.communicator),
      width);
  text += "\n" + calls_text(group, width) + "\n";
  std::string stands;
  std::size_t shown = 0;
  for (const auto& dump : group)
    if (shown < kRanksShown && !dump.under_way.empty()) {
      stands += stands_text(dump, width);
      shown++;
    }
  if (!stands.empty()) text += stands + "\n";
  for (const auto& line : dump::diagnose(group, {})) text += bench::wrapped(line, width);
  return text;
}

}  // namespace

Result<std::optional<std::string>> dumps_text(const std::string& directory, std::size_t width) {
  std::vector<std::string> remarks;
  const auto dumps = dump::read_directory(directory, remarks);
  if ((dumps.empty() && remarks.empty()) || has_traces(directory)) return std::nullopt;
  if (dumps.empty()) return fail(ErrorKind::corrupt, "{}", joined(remarks, "\n"));
  std::string text;
  for (auto at = dumps.begin(); at != dumps.end();) {
    const auto end = std::find_if(at, dumps.end(), [&](const auto& each) {
      return each.job != at->job || each.communicator != at->communicator;
    });
    if (!text.empty()) text += "\n";
    text += group_text(Dumps(at, end), width);
    at = end;
  }
  for (const auto& remark : remarks) text += bench::wrapped(remark, width);
  return text;
}

}  // namespace ccoll::show

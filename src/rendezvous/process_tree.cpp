// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/process_tree.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "system/read_file.hpp"

namespace ccoll {
namespace {

struct ProcessFacts {
  std::string name;
  char state = 0;
  int parent = 0;
  std::uint64_t flags = 0;
  std::string start;
};

/// Reads /proc/PID/stat: "pid (name) state ppid …". The name may hold anything, even parentheses;
/// the flags are field 9 and the start time is field 22.
std::optional<ProcessFacts> facts_of(int pid) {
  const auto text = kernel_text(fmt::format("/proc/{}/stat", pid)).value_or("");
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessFacts facts;
  facts.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  std::string field;
  constexpr int kStateField = 3;
  constexpr int kParentField = 4;
  constexpr int kFlagsField = 9;
  constexpr int kStartField = 22;
  for (int number = kStateField; number <= kStartField && rest >> field; ++number) {
    if (number == kStateField) facts.state = field[0];
    if (number == kFlagsField) facts.flags = std::strtoull(field.c_str(), nullptr, 10);
    if (number == kParentField) facts.parent = std::atoi(field.c_str());
    if (number == kStartField) facts.start = field;
  }
  if (facts.start.empty()) return std::nullopt;
  return facts;
}

}  // namespace

std::string ancestor_named(const std::string& name) {
  for (int pid = ::getppid(); pid > 0;) {
    const auto facts = facts_of(pid);
    if (!facts) return {};
    if (facts->name == name) return fmt::format("{}-{}", pid, facts->start);
    pid = facts->parent;
  }
  return {};
}

bool is_ending(int pid) {
  constexpr std::uint64_t kExiting = 4;  // PF_EXITING of the kernel
  const auto facts = facts_of(pid);
  return facts && (facts->state == 'Z' || facts->state == 'X' || (facts->flags & kExiting) != 0);
}

}  // namespace ccoll

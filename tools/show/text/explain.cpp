// SPDX-License-Identifier: Apache-2.0
#include "show/text/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "bench/command/columns.hpp"
#include "core/text.hpp"
#include "show/text/labels.hpp"
#include "show/text/numbers.hpp"

namespace ccoll::show {

namespace {

/// One defect shows in many places.
constexpr std::size_t kMostShown = 4;
constexpr std::string_view kIndent = "    ";

Board last_board(const Rounds& rounds) {
  Board board(rounds);
  while (board.advance()) {
  }
  return board;
}

struct Wrong {
  Rank rank;
  std::uint32_t block;
  std::uint32_t content;
};

std::vector<Wrong> wrong_results(const Rounds& rounds) {
  if (rounds.inputs.empty()) return {};  // nothing has run
  const Board board = last_board(rounds);
  std::vector<Wrong> wrong;
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    const Problem view = view_of(rounds.problem, rank);
    for (std::uint32_t block = 0; block < rounds.blocks; ++block) {
      if (!has_result(rounds.problem, rank, block)) continue;
      if (block_elems(view, rounds.blocks, block, Buffer::output) == 0) continue;
      const std::uint32_t content = board.content_at(rank, Place::output, block);
      if (!is_result(rounds, rank, block, content)) wrong.push_back({rank, block, content});
    }
  }
  // Explainable errors come first.
  std::ranges::stable_partition(wrong, [](const Wrong& one) { return one.content != kSpoilt; });
  return wrong;
}

/// ": rank 2's contribution is missing, rank 1's is in twice".
std::string shares_text(const Rounds& rounds, const Content& content) {
  std::vector<std::uint32_t> missing;
  std::string repeated;
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    const auto share = std::ranges::find(content.shares, rank, &Share::rank);
    if (share == content.shares.end()) {
      missing.push_back(rank);
    } else if (share->times > 1) {
      repeated += fmt::format("{}rank {}'s is in {} times", repeated.empty() ? "" : ", ", rank,
                              share->times);
    }
  }
  std::string text;
  if (!missing.empty())
    text = fmt::format("what {} {} to add is missing", list_ranks(missing),
                       missing.size() == 1 ? "has" : "have");
  if (!repeated.empty()) text += (text.empty() ? "" : ", ") + repeated;
  if (text.empty() && !content.finished) text = "it is complete, but no step finishes it";
  return text;
}

/// Whether every wrong result is complete, so that nothing but `finish` is missing.
bool lacks_finish(const Rounds& rounds) {
  if (!reduces(rounds.problem.kind)) return false;
  const std::vector<Wrong> wrong = wrong_results(rounds);
  return !wrong.empty() && std::ranges::all_of(wrong, [&](const Wrong& one) {
    if (one.content >= rounds.contents.size()) return false;
    const Content& content = rounds.contents[one.content];
    const auto is_once = [](const Share& share) { return share.times == 1; };
    return content.block == one.block && !content.finished &&
           content.shares.size() == rounds.problem.size &&
           std::ranges::all_of(content.shares, is_once);
  });
}

std::string why(const Picture& picture, const Wrong& wrong) {
  const Rounds& rounds = picture.rounds;
  if (wrong.content == kNothing) return "nothing was stored there";
  if (wrong.content == kSpoilt) return "it was made from something that was wrong before";
  const Content& content = rounds.contents[wrong.content];
  const std::string held = label_of(rounds, wrong.content);
  if (!reduces(rounds.problem.kind)) {
    return fmt::format("it is block {} of rank {}", block_name(content.block),
                       content.shares.front().rank);
  }
  if (content.block != wrong.block) {
    return fmt::format("it is what belongs to block {} ({})", block_name(content.block), held);
  }
  return shares_text(rounds, content);
}

/// The correct numbers.
Numbers expected_numbers(const Picture& picture, const Wrong& wrong) {
  const Rounds& rounds = picture.rounds;
  if (reduces(rounds.problem.kind)) {
    return reduced_numbers(rounds, picture.call.op, picture.call.type, wrong.block, 1);
  }
  for (std::uint32_t content = 0; content < rounds.contents.size(); ++content) {
    if (is_result(rounds, wrong.rank, wrong.block, content)) return picture.numbers[content];
  }
  return {};
}

std::string wrong_line(const Picture& picture, const Wrong& wrong) {
  std::string text = fmt::format("rank {}, block {}", wrong.rank, block_name(wrong.block));
  const Numbers expected = expected_numbers(picture, wrong);
  if (wrong.content < picture.numbers.size() && !expected.empty()) {
    const Numbers& held = picture.numbers[wrong.content];
    // A wrong result may have the right value by luck.
    if (!held.empty() && held[0] != expected[0]) {
      text += fmt::format(": its first element is {}, and should be {}", held[0], expected[0]);
    }
  }
  return text + "; " + why(picture, wrong);
}

/// " (line 7)" if the step comes from a file.
std::string line_text(const Picture& picture, const StepName& step) {
  for (const auto& [name, line] : picture.lines) {
    if (name == step) return fmt::format(" (line {})", line);
  }
  return {};
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Replaces block numbers, which the verifier and schedules use, by letters.
std::string lettered(const std::string& message) {
  constexpr std::string_view kWord = "block ";
  std::string text;
  for (std::size_t at = 0; at < message.size();) {
    const bool begins = std::string_view(message).substr(at).starts_with(kWord);
    std::size_t end = at + (begins ? kWord.size() : 1);
    text += message.substr(at, end - at);
    std::uint32_t block = 0;
    const auto [stop, error] =
        std::from_chars(message.data() + end, message.data() + message.size(), block);
    if (begins && error == std::errc()) {
      text += block_name(block);
      end = static_cast<std::size_t>(stop - message.data());
    }
    at = end;
  }
  return text;
}

/// A finding with the lines of the steps that it names.
std::string located(const Picture& picture, std::string message) {
  for (const auto& [name, line] : picture.lines) {
    const std::string step =
        fmt::format("rank {} lane {} step {}", name.rank, name.lane, name.step);
    for (std::size_t at = 0; (at = message.find(step, at)) != std::string::npos;) {
      at += step.size();
      const bool is_whole = at == message.size() || !is_digit(message[at]);
      if (is_whole) message.insert(at, fmt::format(" (line {})", line));
    }
  }
  return lettered(message);
}

std::string wait_line(const Picture& picture, const Wait& wait) {
  const std::string who =
      fmt::format("rank {} (lane {}, step {}){}", wait.step.rank, wait.step.lane, wait.step.step,
                  line_text(picture, wait.step));
  switch (wait.what) {
    case Wait::For::message:
      return fmt::format("{} waits for a message from rank {}", who, wait.peer);
    case Wait::For::room:
      return fmt::format("{} waits until rank {} takes a message", who, wait.peer);
    case Wait::For::step:
      return fmt::format("{} waits for step {} of its own lane {}", who, wait.after,
                         wait.after_lane);
    case Wait::For::nothing:
      break;
  }
  return fmt::format("rank {} (lane {}) is at its end, and sends no more", wait.step.rank,
                     wait.step.lane);
}

/// "rank 0 -> rank 3 -> rank 0": the cycle of waiting ranks.
std::string cycle_text(const Rounds& rounds) {
  std::string text;
  for (const Wait& wait : rounds.waits) text += fmt::format("rank {} -> ", wait.step.rank);
  return text + fmt::format("rank {}", rounds.waits.front().step.rank);
}

std::string deadlock_text(const Picture& picture, std::size_t width) {
  const Rounds& rounds = picture.rounds;
  std::string text = rounds.is_cycle
                         ? "Nobody in this cycle can ever go on; each waits for the next:\n"
                         : "It comes to a stop; each waits for the next:\n";
  if (rounds.is_cycle) text += bench::wrapped(cycle_text(rounds), width, kIndent);
  constexpr std::size_t kMostWaits = 16;
  for (std::size_t i = 0; i < rounds.waits.size(); ++i) {
    if (i == kMostWaits) {
      text += fmt::format("{}and so on, {} in all\n", kIndent, rounds.waits.size());
      break;
    }
    text += fmt::format("{}{}\n", kIndent, wait_line(picture, rounds.waits[i]));
  }
  return text;
}

/// For a schedule that terminates.
std::string unread_text(const Picture& picture) {
  std::string text;
  std::size_t count = 0;
  for (const Round& round : picture.rounds.rounds) {
    for (const Message& message : round.messages) {
      if (message.received || count++ >= kMostShown) continue;
      text += fmt::format("{}rank {} (lane {}, step {}){} sends to rank {}\n", kIndent,
                          message.from.rank, message.from.lane, message.from.step,
                          line_text(picture, message.from), message.to);
    }
  }
  if (count > kMostShown) text += fmt::format("{}and {} more\n", kIndent, count - kMostShown);
  return text.empty() ? text : "Messages that nobody receives:\n" + text;
}

std::string results_text(const Picture& picture, std::size_t width) {
  const std::vector<Wrong> wrong = wrong_results(picture.rounds);
  if (wrong.empty()) return {};
  std::string text = "Results that are wrong in the end:\n";
  for (std::size_t i = 0; i < wrong.size() && i < kMostShown; ++i) {
    text += bench::wrapped(wrong_line(picture, wrong[i]), width, kIndent);
  }
  if (wrong.size() > kMostShown) {
    text += fmt::format("{}and {} more\n", kIndent, wrong.size() - kMostShown);
  }
  return text;
}

/// A deadlock that is drawn needs no sentence.
std::string findings_text(const Picture& picture, std::size_t width) {
  std::vector<Finding> findings = picture.report.findings;
  if (!picture.rounds.waits.empty()) {
    std::erase_if(findings, [](const Finding& one) { return one.kind == FindingKind::deadlock; });
  }
  if (findings.empty()) return {};
  std::string text = "The verifier says:\n";
  for (std::size_t i = 0; i < findings.size() && i < kMostShown; ++i) {
    text += bench::wrapped(located(picture, findings[i].message), width, kIndent);
  }
  if (findings.size() > kMostShown) {
    text += fmt::format("{}and {} more\n", kIndent, findings.size() - kMostShown);
  }
  return text;
}

}  // namespace

std::string explanation(const Picture& picture, std::size_t width) {
  if (picture.report.ok()) return {};
  const Rounds& rounds = picture.rounds;
  std::string text = findings_text(picture, width);
  if (!rounds.waits.empty()) return text + deadlock_text(picture, width);
  text += unread_text(picture) + results_text(picture, width);
  if (lacks_finish(rounds)) {
    text += bench::wrapped(
        "Write finish in the step that adds the last contribution: avg divides there.", width);
  }
  if (hides_in_equal_inputs(rounds)) {
    text += bench::wrapped(
        "With equal elements on all ranks, all ones for example, every result would look right: "
        "such a test finds nothing here.",
        width);
  }
  return text;
}

bool hides_in_equal_inputs(const Rounds& rounds) {
  if (!reduces(rounds.problem.kind) || lacks_finish(rounds)) return false;
  const std::vector<Wrong> wrong = wrong_results(rounds);
  return !wrong.empty() && std::ranges::all_of(wrong, [&](const Wrong& one) {
    if (one.content >= rounds.contents.size()) return false;
    const Content& content = rounds.contents[one.content];
    std::uint64_t times = 0;
    for (const Share& share : content.shares) times += share.times;
    return times == rounds.problem.size;
  });
}

}  // namespace ccoll::show

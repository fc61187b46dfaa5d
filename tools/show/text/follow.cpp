// SPDX-License-Identifier: Apache-2.0
#include "show/text/follow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "bench/command/columns.hpp"
#include "core/text.hpp"
#include "schedule/text.hpp"
#include "show/text/labels.hpp"
#include "show/text/words.hpp"

namespace ccoll::show {

namespace {

/// "2", "1-3", "-": the rounds with a message that `matches`.
template <typename Matches>
std::string rounds_text(const Rounds& rounds, Matches&& matches) {
  std::set<std::size_t> numbers;
  for (std::size_t i = 0; i < rounds.rounds.size(); ++i) {
    if (std::ranges::any_of(rounds.rounds[i].messages, matches)) numbers.insert(i + 1);
  }
  std::string text;
  for (const std::size_t number : numbers) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", number);
  }
  return text.empty() ? "-" : text;
}

std::vector<std::string> step_row(const Picture& picture, const StepName& name, const Step& step) {
  const auto receives = [&](const Message& message) {
    return message.received && message.by == name;
  };
  const auto sends = [&](const Message& message) { return message.from == name; };
  Step plain = step;
  plain.lend = Lend::never;
  return {std::to_string(name.step), step_kind(step), rounds_text(picture.rounds, receives),
          rounds_text(picture.rounds, sends), to_string(plain, name.lane)};
}

/// "0+2 [20 22]".
std::string content_text(const Picture& picture, std::uint32_t content) {
  constexpr std::size_t kMostNumbers = 4;
  std::string text = label_of(picture.rounds, content);
  if (content >= picture.numbers.size()) return text;
  const Numbers& numbers = picture.numbers[content];
  if (numbers.empty() || numbers.size() > kMostNumbers) return text;
  return fmt::format("{} [{}]", text, joined(numbers, " "));
}

/// The receiver's result from a piece once the round is over, if there is one.
std::uint32_t made_of(const Board& after, const Message& message, const MessageBlock& piece) {
  for (const Place place : {Place::passing, Place::output, Place::scratch}) {
    const std::uint32_t content = after.content_at(message.to, place, piece.to_block);
    if (content != kNothing) return content;
  }
  return kNothing;
}

std::string hop_text(const Picture& picture, const Board& after, const Message& message,
                     const MessageBlock& piece, std::size_t width) {
  const std::string way = fmt::format("rank {} -> rank {}", message.from.rank, message.to);
  const std::string head = fmt::format("  round {:<5}{:<22}", after.round(), way);
  std::string text = content_text(picture, piece.content);
  const std::uint32_t made = made_of(after, message, piece);
  if (!message.received) {
    text += ", which nobody takes";
  } else if (!message.reduces) {
    text += ", kept";
  } else if (made == kNothing) {
    text += ", combined when more has come";
  } else {
    text += fmt::format(", combined: {}", content_text(picture, made));
  }
  return bench::wrapped_beside(head, text, width);
}

}  // namespace

std::string step_kind(const Step& step) {
  const bool combines = step.receives.size() + (step.local.empty() ? 0 : 1) > 1;
  std::vector<std::string_view> parts;
  if (!step.receives.empty()) parts.emplace_back("receive");
  if (combines) parts.emplace_back("reduce");
  if (!step.store.empty()) parts.emplace_back(step.receives.empty() ? "copy" : "store");
  if (!step.sends.empty()) parts.emplace_back("send");
  return joined(parts, "-");
}

std::string program_text(const Picture& picture, Rank rank, std::size_t width) {
  using Align = bench::TextTable::Align;
  const Program& program = picture.programs[rank];
  std::string text = bench::wrapped(
      fmt::format("{}: the program of rank {}", call_text(picture.call), rank), width);
  for (std::size_t number = 0; number < program.lanes.size(); ++number) {
    const auto lane = static_cast<std::uint16_t>(number);
    bench::TextTable table({{"step", Align::left},
                            {"what it does", Align::left},
                            {"receives", Align::left},
                            {"sends", Align::left},
                            {"in the schedule", Align::left}});
    const std::vector<Step>& steps = program.lanes[number].steps;
    for (std::uint32_t step = 0; step < steps.size(); ++step)
      table.add(step_row(picture, {rank, lane, step}, steps[step]));
    text += fmt::format("\nlane {}\n{}", lane, table.text(width));
  }
  std::string meaning = "Under receives and sends: the rounds in which it does.";
  if (program.lanes.size() > 1) meaning += " Lanes do not wait for each other.";
  return text + "\n" + bench::wrapped(meaning, width) + "The language: docs/schedule_format.md\n";
}

std::string block_text(const Picture& picture, std::uint32_t block, std::size_t width) {
  const bool is_matrix = picture.rounds.problem.kind == Kind::all_to_all;
  std::string text =
      bench::wrapped(fmt::format("{}: the way of {}", call_text(picture.call),
                                 is_matrix ? fmt::format("the blocks for rank {}", block)
                                           : "block " + block_name(block)),
                     width);
  text += "\n";
  Board board(picture.rounds);
  while (board.advance()) {
    for (const Message& message : picture.rounds.rounds[board.round() - 1].messages) {
      for (const MessageBlock& piece : message.pieces) {
        const bool is_known = piece.content < picture.rounds.contents.size();
        const std::uint32_t number =
            is_matrix && is_known ? picture.rounds.contents[piece.content].block : piece.block;
        if (number == block) text += hop_text(picture, board, message, piece, width);
      }
    }
  }
  return text;
}

}  // namespace ccoll::show

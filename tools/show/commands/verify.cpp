// SPDX-License-Identifier: Apache-2.0
#include "show/commands/verify.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/command/columns.hpp"
#include "bench/command/width.hpp"
#include "core/text.hpp"
#include "rounds/rounds.hpp"
#include "show/model/breaking.hpp"
#include "show/model/call.hpp"
#include "show/text/explain.hpp"
#include "show/text/labels.hpp"
#include "show/text/words.hpp"
#include "verify/verify.hpp"

namespace ccoll::show {

namespace {

/// Beyond this a proof takes minutes.
constexpr Rank kMostRanksProven = 128;

struct VerifyOptions {
  CallWords words;
  std::string ranks;
  std::string break_how;
  std::optional<std::size_t> width;
};

/// The range of ranks given by "4" or "1..16".
struct Sizes {
  Rank first = 1;
  Rank last = 16;
};

Result<Sizes> sizes_of(const std::string& text) {
  const auto number = [](std::string_view word) {
    Rank value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() ? value : 0;
  };
  const std::string_view all = text;
  const std::size_t dots = all.find("..");
  const Sizes sizes = {number(all.substr(0, dots)),
                       number(dots == std::string_view::npos ? all : all.substr(dots + 2))};
  if (sizes.first == 0 || sizes.last < sizes.first || sizes.last > kMostRanksProven) {
    return fail(ErrorKind::invalid_argument,
                "-n {}: expected a number of ranks from 1 to {}, or a range like 1..16", text,
                kMostRanksProven);
  }
  return sizes;
}

/// The extent of one algorithm's proof.
struct Proof {
  std::uint64_t schedules = 0;
  std::uint64_t contributions = 0;  ///< each is traced to its destination
  std::uint32_t slots = 0;          ///< the number that links need
  std::string wrong;                ///< the first error
  std::vector<std::string> orders;  ///< for the first schedule, as in Report
};

std::vector<Rank> roots_of(const bench::Operation& operation, Rank size) {
  if (!operation.rooted) return {0};
  std::set<Rank> roots = {0, 1 % size, size / 2, size - 1};
  for (Rank root = 0; size <= 16 && root < size; ++root) roots.insert(root);
  return {roots.begin(), roots.end()};
}

/// One host; for algorithms that know about hosts also two halves, and the last rank alone on one.
std::vector<std::vector<std::uint32_t>> layouts_of(const CatalogueEntry& entry, Rank size) {
  std::vector<std::vector<std::uint32_t>> layouts(1);
  if (!entry.by_host || size < 3) return layouts;
  for (const Rank on_last : {size / 2, Rank{1}}) {
    std::vector<std::uint32_t>& layout = layouts.emplace_back(size, 0);
    std::fill(layout.end() - on_last, layout.end(), 1);
  }
  return layouts;
}

/// Counts a block per rank that gets it, in each window: with all ranks' contributions or with
/// one's.
std::uint64_t contributions_in(const Problem& problem, std::uint32_t blocks, const Choice& choice) {
  std::uint64_t count = 0;
  for (Rank rank = 0; rank < problem.size; ++rank) {
    const Problem view = view_of(problem, rank);
    for (std::uint32_t block = 0; block < blocks; ++block) {
      if (!has_result(problem, rank, block)) continue;
      const std::uint64_t elems = block_elems(view, blocks, block, Buffer::output);
      const std::uint64_t windows = (elems + choice.slice_elems - 1) / choice.slice_elems;
      count += windows * (reduces(problem.kind) ? problem.size : 1);
    }
  }
  return count;
}

void prove_case(const VerifyCase& one, std::uint32_t blocks, Proof& proof) {
  const Report report = verify(one.problem, one.choice, [&](Rank rank) {
    return make_program(view_of(one.problem, rank), one.choice, rank);
  });
  ++proof.schedules;
  proof.contributions += contributions_in(one.problem, blocks, one.choice);
  proof.slots = std::max(proof.slots, report.slots_needed);
  if (proof.schedules == 1) proof.orders = report.orders;
  if (report.ok() || !proof.wrong.empty()) return;
  proof.wrong = fmt::format("{} ranks, root {}, {}: {}", one.problem.size, one.problem.root,
                            one.name, report.findings.front().message);
}

Proof prove(const CatalogueEntry& entry, const bench::Operation& operation, const Sizes& sizes) {
  Proof proof;
  for (Rank size = sizes.first; size <= sizes.last; ++size) {
    for (const Rank root : roots_of(operation, size)) {
      for (const auto& host_of : layouts_of(entry, size)) {
        Problem problem;
        problem.kind = entry.kind;
        problem.size = size;
        problem.root = root;
        problem.count = 1;
        problem.host_of = host_of;
        const std::uint32_t blocks = size == 1 ? 1 : entry.theory(problem).blocks;
        for (VerifyCase& one : verify_cases(entry.kind, entry.algorithm, size, root, blocks)) {
          if (!one.problem.block_counts.empty() && !entry.ragged) continue;
          one.problem.host_of = host_of;
          prove_case(one, blocks, proof);
        }
      }
    }
  }
  return proof;
}

std::string what_was_checked(std::size_t width) {
  const auto point = [&](std::string_view text) { return bench::wrapped(text, width, "  "); };
  std::string text = bench::wrapped(
      "Each schedule was executed symbolically: instead of numbers, its steps move and combine "
      "the names of contributions. Sizes are such that there is nothing to send, less than one "
      "element for each rank, several windows with an uneven end, and blocks of different sizes "
      "where the operation has them. Of each schedule it was checked that",
      width);
  text += point(
      "- every result is made of each rank's contribution exactly once, or is a copy of "
      "the one block that belongs there;");
  text += point(
      "- all ranks that have a result have combined it in the same order, so that they "
      "have the same bits;");
  text += point(
      "- nobody waits for ever, with as many slots in each link as the table says: "
      "programs name whom they receive from, so one order of events stands for all;");
  text += point("- every message that is sent is received, also when the call is made again;");
  text += point(
      "- no two steps use one place at the same time, one of them writing: neither where "
      "input and output are the same memory, nor where a message is read where it lies.");
  return text;
}

/// The order in which results are combined: a line for each block, or one for all.
std::string orders_text(const std::vector<std::string>& orders, std::size_t width) {
  if (orders.empty()) return {};
  std::string text =
      "\n" + bench::wrapped(
                 "A result combines the ranks' contributions in this order, and what "
                 "one step combines stands together. It decides the bits of floats.",
                 width);
  const bool all_alike = std::ranges::all_of(
      orders, [&](const std::string& order) { return order == orders.front(); });
  if (all_alike) return text + bench::wrapped("every block: " + orders.front(), width, "  ");
  for (std::size_t block = 0; block < orders.size(); ++block)
    text += bench::wrapped(
        fmt::format("block {}: {}", block_name(static_cast<std::uint32_t>(block)), orders[block]),
        width, "  ");
  return text;
}

/// The algorithm of --algo: for the given operation, or for any; empty: all.
Result<std::optional<Algorithm>> algorithm_of(const std::string& name,
                                              const std::optional<Call>& call) {
  if (name.empty()) return std::nullopt;
  if (call) return call->entry->algorithm;
  std::vector<std::string_view> names;
  for (const CatalogueEntry& entry : catalogue()) {
    if (folded(to_string(entry.algorithm)) == folded(name)) return entry.algorithm;
    if (std::ranges::find(names, to_string(entry.algorithm)) == names.end())
      names.push_back(to_string(entry.algorithm));
  }
  return fail(ErrorKind::invalid_argument, "{}", unknown_word("algorithm", name, names));
}

Result<Output> prove_all(const VerifyOptions& options, std::size_t width) {
  const auto sizes = sizes_of(options.ranks.empty() ? "1..16" : options.ranks);
  CCOLL_TRY(sizes);
  std::optional<Call> call;
  if (!options.words.operation.empty()) {
    CallWords words = options.words;
    words.ranks = sizes->last;
    auto asked = call_of(words);
    CCOLL_TRY(asked);
    call = std::move(*asked);
  }
  const auto algorithm = algorithm_of(options.words.algorithm, call);
  CCOLL_TRY(algorithm);
  using Align = bench::TextTable::Align;
  bench::TextTable table({{"operation", Align::left},
                          {"algorithm", Align::left},
                          {"schedules"},
                          {"contributions"},
                          {"slots"},
                          {"verdict", Align::left}});
  std::string wrong, orders;
  for (const bench::Operation& operation : bench::operations()) {
    if (!operation.kind || operation.ragged) continue;
    for (const CatalogueEntry& entry : catalogue()) {
      if (entry.kind != *operation.kind || (call && entry.kind != call->problem.kind)) continue;
      if (*algorithm && entry.algorithm != **algorithm) continue;
      const Proof proof = prove(entry, operation, *sizes);
      if (call && *algorithm && sizes->first == sizes->last)
        orders = orders_text(proof.orders, width);
      table.add({std::string(operation.name), std::string(to_string(entry.algorithm)),
                 grouped(proof.schedules), grouped(proof.contributions), grouped(proof.slots),
                 proof.wrong.empty() ? "proven" : "WRONG"});
      if (!proof.wrong.empty()) {
        wrong += bench::wrapped(
            fmt::format("{} by {}: {}", operation.name, to_string(entry.algorithm), proof.wrong),
            width);
      }
    }
  }
  std::string text = sizes->first == sizes->last
                         ? fmt::format("{} rank{}", sizes->first, sizes->first == 1 ? "" : "s")
                         : fmt::format("{} to {} ranks", sizes->first, sizes->last);
  text += "\n\n" + table.text(width) + "\n" + what_was_checked(width) + orders;
  if (!wrong.empty()) text += "\n" + wrong;
  return Output{std::move(text), wrong.empty() ? 0 : kWrong};
}

/// The tutorial's ring and ours, round by round.
std::string beside_ours(const Picture& wrong, const Call& call, std::size_t width) {
  const Picture ours = picture_of(call);
  return "\n" +
         bench::wrapped(
             fmt::format(
                 "Its ranks wait in turn, for only rank 0 sends first: a message has to wait "
                 "for up to {} others, in {} by {} for {}.",
                 wrong.rounds.rounds.back().depth - 1, to_string(call.problem.kind),
                 to_string(call.entry->algorithm), ours.rounds.rounds.back().depth - 1),
             width);
}

Result<Output> show_broken(const VerifyOptions& options, std::size_t width) {
  const auto sizes = sizes_of(options.ranks.empty() ? "4" : options.ranks);
  CCOLL_TRY(sizes);
  CallWords words = options.words;
  words.ranks = sizes->last;
  if (words.operation.empty()) words.operation = "all_reduce";
  const auto call = call_of(words);
  CCOLL_TRY(call);
  auto made = broken(*call, options.break_how);
  CCOLL_TRY(made);
  const Picture picture = picture_of(*call, std::move(*made));
  std::string text = bench::wrapped(
      fmt::format("{}, broken on purpose: {}.", call_text(*call), picture.broken), width);
  text += "\n" + verdict_text(picture) + "\n" + explanation(picture, width);
  if (options.break_how == "tutorial") text += beside_ours(picture, *call, width);
  text += "\n" +
          bench::wrapped(fmt::format("Round by round: cc-show steps {} --algo {} -n {} --break {}",
                                     call->operation->name, to_string(call->entry->algorithm),
                                     call->problem.size, options.break_how),
                         width);
  return Output{std::move(text), kWrong};
}

}  // namespace

Action add_verify(CLI::App& app) {
  const auto options = std::make_shared<VerifyOptions>();
  app.add_option("OP", options->words.operation, "the operation (default: all of them)");
  app.add_option("-a,--algo", options->words.algorithm, "its algorithm (default: all of them)");
  app.add_option("-n,--ranks", options->ranks,
                 "how many ranks: 4, or 1..16 for each of these (default: 1..16; with --break: 4)");
  add_break_option(app, options->break_how);
  bench::add_width_option(app, options->width);
  return [options]() -> Result<Output> {
    const std::size_t width = bench::columns_of(options->width);
    return options->break_how.empty() ? prove_all(*options, width) : show_broken(*options, width);
  };
}

}  // namespace ccoll::show

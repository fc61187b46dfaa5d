// SPDX-License-Identifier: Apache-2.0
#include "show/real/against.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/command/columns.hpp"
#include "rendezvous/identity.hpp"
#include "show/model/study.hpp"

namespace ccoll::show {

namespace {

/// How many elements differ.
std::size_t differences(const Executed& own, const Executed& other) {
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < own.outputs.size(); ++rank) {
    const Numbers& mine = own.outputs[rank];
    const Numbers& theirs = other.outputs[rank];
    for (std::size_t i = 0; i < mine.size(); ++i)
      count += i < theirs.size() && mine[i] == theirs[i] ? 0 : 1;
  }
  return count;
}

/// Whether the order of combining can affect a result.
bool is_rounded(const Call& call) {
  if (!reduces(call.problem.kind)) return false;
  return call.type == DataType::float16 || call.type == DataType::bfloat16 ||
         call.type == DataType::float32 || call.type == DataType::float64;
}

struct Contender {
  std::string name;
  double median_us = 0;
  std::string result;
};

std::string table(const Picture& picture, const std::vector<Contender>& contenders,
                  const Executed& own, const std::string& transport, std::size_t width) {
  const int cores = usable_cores();
  std::string text =
      "\n" +
      bench::wrapped(
          fmt::format("{} against the library's over {}, each by the same engine: medians of {} "
                      "calls, {} ranks on {} core{}",
                      to_string(picture.call.problem.kind), transport, own.calls,
                      own.outputs.size(), cores, cores == 1 ? "" : "s"),
          width);
  text += fmt::format("  {:<20}{:>12}{:>10}  {}\n", "schedule", "median", "of yours", "result");
  for (const Contender& one : contenders)
    text += fmt::format("  {:<20}{:>12}{:>9.2f}x  {}\n", one.name, time_text(one.median_us),
                        one.median_us / own.median_us, one.result);
  return text;
}

}  // namespace

Result<Against> against_built_ins(const Picture& picture, const Executed& own,
                                  const std::string& transport, std::size_t width) {
  Against against;
  std::vector<Contender> contenders;
  Call call = picture.call;
  for (const Algorithm algorithm : algorithms_for(call.problem.kind)) {
    call.entry = find_algorithm(call.problem.kind, algorithm);
    // Algorithms for several hosts do not apply on one.
    if (call.entry->by_host) continue;
    const auto executed = execute(picture_of(call), {.transport = transport, .timed = true});
    CCOLL_TRY(executed);
    const std::size_t others = differences(own, *executed);
    const bool is_the_same = others == 0 || is_rounded(call);
    against.all_the_same = against.all_the_same && is_the_same;
    contenders.push_back({std::string(to_string(algorithm)), executed->median_us,
                          others == 0   ? "the same"
                          : is_the_same ? fmt::format("{} elements rounded otherwise", others)
                                        : fmt::format("{} elements are NOT the same", others)});
  }
  std::ranges::sort(contenders, {}, &Contender::median_us);
  contenders.insert(contenders.begin(), {"yours", own.median_us, ""});
  against.text = table(picture, contenders, own, transport, width);
  return against;
}

}  // namespace ccoll::show

// SPDX-License-Identifier: Apache-2.0
/// The cost of plans alone: an all_reduce of 2 floats over links inside the process, without
/// communicators. All ranks' plans take turns in one thread, each until it waits.
///
///     plan-cost RANKS in-place|apart short|general CALLS
///
/// 1 or 2 ranks; by the short executor or the interpreter. bench/costs/plan_instructions counts.
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "engine/plan.hpp"
#include "transport/transport_set.hpp"

namespace {

using namespace ccoll;

constexpr std::uint64_t kCount = 2;

struct Arguments {
  Rank ranks = 1;
  bool in_place = false;
  bool is_short = true;
  std::uint64_t calls = 0;
};

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end;
}

std::optional<Arguments> read_arguments(const std::vector<std::string_view>& words) {
  Arguments read;
  if (words.size() != 4 || !read_number(words[0], read.ranks) || read.ranks < 1 || read.ranks > 2)
    return std::nullopt;
  read.in_place = words[1] == "in-place";
  if (!read.in_place && words[1] != "apart") return std::nullopt;
  read.is_short = words[2] == "short";
  if (!read.is_short && words[2] != "general") return std::nullopt;
  if (!read_number(words[3], read.calls)) return std::nullopt;
  return read;
}

/// A rank's links, plan and buffers.
class RankOfJob {
 public:
  RankOfJob(const Arguments& arguments, Rank rank) {
    TransportContext context;
    context.table.resize(arguments.ranks);
    context.rank = rank;
    std::vector<std::uint32_t> group(arguments.ranks);
    std::iota(group.begin(), group.end(), 0U);
    links_ =
        std::make_unique<LinkTable>(1, group, std::make_shared<TransportSet>(context, "inproc"),
                                    value_or_throw(Waiter::make()));
    PlanRequest request;
    request.problem.kind = Kind::all_reduce;
    request.problem.size = arguments.ranks;
    request.problem.count = kCount;
    request.choice.algorithm = Algorithm::recursive_doubling;
    request.choice.slice_elems = kCount;
    request.program = make_program(request.problem, request.choice, rank);
    request.type = DataType::float32;
    plan_ = value_or_throw(Plan::make(request, *links_));
    if (!arguments.is_short) plan_->interpret_only();
    run_.input.data = reinterpret_cast<std::byte*>(in_);
    run_.output.data = arguments.in_place ? run_.input.data : reinterpret_cast<std::byte*>(out_);
    run_.in_place = arguments.in_place;
  }

  void start(std::uint64_t sequence) {
    run_.sequence = sequence;
    plan_->start(run_);
  }
  /// Polls until the plan waits; returns whether it is done.
  bool advance() {
    while (!plan_->done()) {
      const auto polled = plan_->poll();
      if (polled == Polled::failed) throw std::runtime_error(plan_->take_failure().message);
      if (polled == Polled::waits) break;
    }
    return plan_->done();
  }

 private:
  std::unique_ptr<LinkTable> links_;
  std::unique_ptr<Plan> plan_;
  PlanRun run_;
  float in_[kCount] = {1, 2};
  float out_[kCount] = {};
};

void run(const Arguments& arguments) {
  std::vector<std::unique_ptr<RankOfJob>> ranks;
  for (Rank rank = 0; rank < arguments.ranks; rank++)
    ranks.push_back(std::make_unique<RankOfJob>(arguments, rank));
  for (std::uint64_t call = 1; call <= arguments.calls; call++) {
    for (auto& rank : ranks) rank->start(call);
    for (bool done = false; !done;) {
      done = true;
      for (auto& rank : ranks) done &= rank->advance();
    }
  }
}

}  // namespace

int main(int count, char** values) {
  const auto arguments = read_arguments({values + 1, values + count});
  if (!arguments) {
    fmt::print(stderr, "usage: plan-cost 1|2 in-place|apart short|general CALLS\n");
    return 2;
  }
  try {
    run(*arguments);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "plan-cost: {}\n", error.what());
    return 1;
  }
}

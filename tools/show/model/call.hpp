// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The call that a command line asks about: which operation, among how many ranks, by which
/// algorithm. Every command that takes these options takes them from here.

#include <cstdint>
#include <optional>
#include <string>

#include "algorithms/algorithms.hpp"
#include "bench/measure/operations.hpp"
#include "ccoll/types.hpp"
#include "core/result.hpp"

namespace CLI {
class App;
}

namespace ccoll::show {

/// As typed. What an application sets before it adds the options are their defaults.
struct CallWords {
  std::string operation;
  std::string algorithm;  ///< empty: the first that the operation has
  std::string hosts;      ///< "4,4": ranks on each host
  std::uint32_t ranks = 4;
  std::optional<std::uint64_t> count;  ///< none: one element in each rank's block
  std::uint32_t root = 0;
  std::string op = "sum";
  std::string type = "int32";
};

struct Call {
  const bench::Operation* operation = nullptr;
  Problem problem;
  const CatalogueEntry* entry = nullptr;  ///< of the algorithm; null where it is none of ours
  ReduceOp op = ReduceOp::sum;
  DataType type = DataType::int32;
};

/// The largest number of ranks for which a command looks at every rank's program.
inline constexpr std::uint32_t kMostRanksDrawn = 256;
/// The same where formulas answer.
inline constexpr std::uint32_t kMostRanks = 1 << 20;
inline constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;

/// OP, -n, --count, --root, --hosts.
void add_problem_options(CLI::App& app, CallWords& words, std::uint32_t most_ranks);
/// Those, --algo, --op and --dtype.
void add_call_options(CLI::App& app, CallWords& words, std::uint32_t most_ranks);

/// An operation that schedules run, as its friends spell it, too.
Result<const bench::Operation*> operation_named(const std::string& name);

/// Fails where a word is unknown or does not fit the others.
Result<Call> call_of(const CallWords& words);

/// "all_reduce by ring, 4 ranks, 8 elements".
std::string call_text(const Call& call);

}  // namespace ccoll::show

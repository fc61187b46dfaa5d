// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The command line of cc-bench, which follows nccl-tests' where possible.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/command/sizes.hpp"
#include "bench/measure/measure.hpp"
#include "bench/measure/operations.hpp"
#include "bench/report/verdict.hpp"
#include "core/result.hpp"

namespace ccoll::bench {

struct Options {
  enum class Command { print, measure, matrix, tune, info, explain };
  Command command = Command::measure;
  std::string text;  ///< print: what to say (help, version, the overview)

  std::vector<const Operation*> ops;
  std::optional<int> ranks;
  SizeRange sizes;
  Effort effort;
  std::vector<DataType> types = {DataType::float32};
  std::vector<ReduceOp> reduce_ops = {ReduceOp::sum};
  std::optional<int> root = 0;  ///< none: every rank in turn
  bool in_place = false;
  std::uint64_t max_memory = 0;     ///< bytes per host for buffers; 0: all that is free
  std::string memory = "ordinary";  ///< of the buffers; mixed: registered on odd ranks
  std::string device = "host";      ///< where the buffers are; cuda: calls are in streams
  int graph_calls = 0;              ///< cuda: calls per graph; 0: no graphs
  bool fresh = false;               ///< whether inputs are rewritten before every call
  bool check = true;
  int skew_ms = 0;       ///< how late the last rank is if waiting is measured; 0: it is not
  bool first = false;    ///< whether to time the first calls of each size, too
  bool overlap = false;  ///< whether to measure calls during which the caller sleeps
  std::vector<std::string> algorithms;  ///< in turn; empty: the model's choice, or CCOLL_ALGO
  std::string transport;                ///< empty: the best available, or CCOLL_TRANSPORT
  int lanes = 0;
  std::string csv;  ///< a file, "-" for standard output, or empty
  std::string json;
  std::string html;
  std::string baseline;  ///< an earlier run's JSON file, or empty
  Bounds bounds;
  std::string label = "ccoll";
  double timeout_s = 0;  ///< 0: the communicator's own limits

  std::optional<std::size_t> width;  ///< of the text; none: the terminal's

  std::string explain_op;
  std::uint64_t explain_bytes = 0;
  bool explain_measured = false;         ///< also run every algorithm
  std::uint64_t matrix_bytes = 1 << 20;  ///< message size for measuring bandwidth

  bool is_on_gpu() const { return device == "cuda"; }
  /// True if standard output carries the CSV or JSON form.
  bool is_table_off() const { return csv == "-" || json == "-"; }
};

/// Failures are usage errors, with a suggestion.
Result<Options> parse_command_line(int argc, const char* const* argv);

/// The roots to call `operation` with; a single meaningless one if it has no root.
std::vector<int> roots_of(const Options& options, const Operation& operation, int size);

/// Every algorithm's name, each once.
std::vector<std::string> all_algorithms();

/// The requested algorithms that `operation` has.
std::vector<std::string> algorithms_of(const Options& options, const Operation& operation);

/// Whether `size` ranks can run with these options.
Status check_for_size(const Options& options, int size);

}  // namespace ccoll::bench

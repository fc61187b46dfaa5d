// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The command line of cc-bench, after nccl-tests' where that has a word for it.

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
  std::uint64_t max_memory = 0;     ///< bytes of a host for buffers; 0: what there is
  std::string memory = "ordinary";  ///< of the buffers; registered; mixed: that on odd ranks
  std::string device = "host";      ///< whose memory the buffers are; cuda: calls are in streams
  int graph_calls = 0;              ///< cuda: so many calls are a graph; 0: none is
  bool fresh = false;               ///< whether inputs are written again before every call
  bool check = true;
  int skew_ms = 0;       ///< how late the last rank is where waiting is measured; 0: it is not
  bool overlap = false;  ///< whether calls beside a caller that sleeps are measured
  std::vector<std::string> algorithms;  ///< in turn; empty: the model's choice, or CCOLL_ALGO
  std::string transport;                ///< empty: the best there is, or CCOLL_TRANSPORT
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
  std::uint64_t matrix_bytes = 1 << 20;  ///< of the messages that bandwidth is measured with

  bool is_on_gpu() const { return device == "cuda"; }
  /// True where standard output belongs to the CSV or JSON form.
  bool is_table_off() const { return csv == "-" || json == "-"; }
};

/// Failures are usage errors, with what to do instead.
Result<Options> parse_command_line(int argc, const char* const* argv);

/// The roots to call `operation` with; one, of no meaning, where it has none.
std::vector<int> roots_of(const Options& options, const Operation& operation, int size);

/// Every algorithm's name, each once.
std::vector<std::string> all_algorithms();

/// Which of the algorithms that were asked for `operation` has.
std::vector<std::string> algorithms_of(const Options& options, const Operation& operation);

/// Whether the options can be carried out by `size` ranks.
Status check_for_size(const Options& options, int size);

}  // namespace ccoll::bench

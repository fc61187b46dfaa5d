// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Rank 0's output: the table and the page for people, CSV and JSON for programs, and a progress
/// line. Every row of the table and of the CSV form is written as soon as it is measured.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "bench/command/matrix.hpp"
#include "bench/command/options.hpp"
#include "bench/command/width.hpp"
#include "bench/measure/machine.hpp"
#include "bench/measure/rows.hpp"
#include "bench/report/row.hpp"
#include "bench/report/table.hpp"
#include "bench/report/verdict.hpp"

namespace ccoll::bench {

/// The facts that hold for all rows.
struct Session {
  int ranks = 1;
  std::string launcher;                   ///< the program that started the ranks
  std::string transport;                  ///< "tcp", "inproc and tcp", or "none" for one rank
  std::optional<double> timeout_s = 300;  ///< nullopt: no limit
  std::string command;
};

/// The progress line: `what`, and for a sweep longer than ten seconds its progress and remaining
/// time, if the other rows take as long as those before.
std::string progress_text(const std::string& what, std::size_t done, std::size_t all,
                          double elapsed_s);

/// Checks that the baseline can be read and the files that `options` names can be written. Checking
/// before the ranks start ends the program at once on an error.
Status check_outputs(const Options& options);

class Report final : public RowSink {
 public:
  /// Reads the baseline, opens the CSV file and writes the header. Throws Error{invalid_argument}
  /// if a file cannot be read or opened.
  Report(const Options& options, const Session& session);
  ~Report() override;
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// A heading of the table before an operation's rows.
  void begin_operation(const Operation& operation, const std::string& note) override;
  /// Shown on standard error while a row is measured, if that is a terminal.
  void progress(const std::string& what, std::size_t done, std::size_t all) override;
  void remark(const std::string& text) override;
  void add(Row row) override;
  /// Adds a matrix instead of rows.
  void add_matrix(const Matrix& matrix);
  /// Takes the result of gather_counters().
  void add_counters(nlohmann::json counters) { document_["counters"] = std::move(counters); }
  /// Writes the average and the verdict, which it returns; throws Error{exhausted} if output could
  /// not be written.
  bool finish();
  /// Replaces finish() if measuring has ended with an error: writes the requested files with the
  /// measurements so far, and reports it. Throws nothing.
  void fail(const std::string& why) noexcept;

 private:
  struct Close {
    void operator()(std::FILE* file) const;
  };
  using File = std::unique_ptr<std::FILE, Close>;

  static std::optional<Baseline> load_baseline(const std::string& path);
  static File open(const std::string& path);
  void write_header(const Machine& machine) const;
  void clear_progress();
  void write_documents();

  Options options_;
  Session session_;
  Verdict verdict_;
  File csv_;
  nlohmann::json document_;
  bool on_terminal_;
  const std::size_t width_ = columns_of(options_.width);  ///< of the text
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::size_t progress_width_ = 0;
  std::optional<Table> table_;  ///< of the current operation
};

}  // namespace ccoll::bench

// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"
#include "ccoll/version.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace ccoll::bench {

namespace {

/// "2026-01-31T12:00:00Z".
std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string describe_ranks(const Session& session, const Machine& machine) {
  std::string text = fmt::format("{} rank{}", session.ranks, session.ranks == 1 ? "" : "s");
  if (session.ranks == 1) return text + ", alone: its figures are memory copies";
  text += session.transport == "inproc"
              ? ", threads of one process"
              : fmt::format(" over {}, started by {}", session.transport, session.launcher);
  const bool is_local = session.launcher == "cc-bench" || session.transport == "inproc";
  if (is_local && static_cast<unsigned>(session.ranks) > machine.cores_usable) {
    text += fmt::format("; more ranks than the {} cores: they take turns", machine.cores_usable);
  }
  return text;
}

}  // namespace

Status check_outputs(const Options& options) {
  for (const std::string& path : {options.csv, options.json}) {
    if (path.empty() || path == "-") continue;
    std::FILE* const file = std::fopen(path.c_str(), "a");
    if (file == nullptr) {
      return fail(ErrorKind::invalid_argument, "cannot write {}: {}", path, std::strerror(errno));
    }
    std::fclose(file);
  }
  return {};
}

void Report::Close::operator()(std::FILE* file) const {
  if (file != stdout) std::fclose(file);
}

Report::File Report::open(const std::string& path) {
  if (path.empty()) return nullptr;
  if (path == "-") return File(stdout);
  File file(std::fopen(path.c_str(), "w"));
  if (!file) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  return file;
}

Report::Report(const Options& options, const Session& session)
    : options_(options),
      session_(session),
      csv_(open(options.csv)),
      json_(open(options.json)),
      on_terminal_(::isatty(STDERR_FILENO) == 1) {
  const Machine machine = inspect_machine();
  if (!options_.is_table_off()) write_header(machine);
  if (csv_) {
    fmt::print(csv_.get(), "{}\n", kCsvHeader);
    std::fflush(csv_.get());
  }
  document_ = {{"version", version()},
               {"label", options.label},
               {"command", session.command},
               {"time", utc_now()},
               {"host", machine.host},
               {"processor", machine.processor},
               {"cores_usable", machine.cores_usable},
               {"cores_online", machine.cores_online},
               {"memory_gib", machine.memory_gib},
               {"open_files", machine.open_files},
               {"ranks", session.ranks},
               {"launcher", session.launcher},
               {"transport", session.transport},
               {"timeout_s", session.timeout_s},
               {"checked", options.check},
               {"rows", nlohmann::json::array()}};
}

Report::~Report() { clear_progress(); }

void Report::write_header(const Machine& machine) const {
  fmt::print("# cc-bench {} on {}: {}, {} core{}, {:.1f} GiB of memory\n", version(), machine.host,
             machine.processor, machine.cores_usable, machine.cores_usable == 1 ? "" : "s",
             machine.memory_gib);
  fmt::print("# {}\n", describe_ranks(session_, machine));
  fmt::print("# limits: {} open files per process, {:g} s per call\n", machine.open_files,
             session_.timeout_s);
  fmt::print("# time: median over batches of a call's mean, slowest rank; GB/s: 10^9 bytes/s\n");
  fmt::print("# p50, p99: of single calls (of batches below {:g} us); ~: the batches differ much\n",
             kTimedSinglyUs);
  fmt::print("# {}\n", options_.check ? "every result is compared bit by bit with the exact one"
                                      : "results are not checked");
  std::fflush(stdout);
}

void Report::begin_operation(const Operation& operation, const std::string& note) {
  clear_progress();
  if (options_.is_table_off()) return;
  table_.emplace(operation, false);
  fmt::print("#\n# {}{}{}\n{}", operation.name, note.empty() ? "" : ": ", note, table_->heading());
  std::fflush(stdout);
}

void Report::progress(const std::string& what) {
  if (!on_terminal_) return;
  clear_progress();
  fmt::print(stderr, "{}", what);
  std::fflush(stderr);
  progress_width_ = what.size();
}

void Report::clear_progress() {
  if (progress_width_ == 0) return;
  fmt::print(stderr, "\r{:{}}\r", "", progress_width_);
  std::fflush(stderr);
  progress_width_ = 0;
}

void Report::add(const Row& row) {
  clear_progress();
  if (!options_.is_table_off()) {
    fmt::print("{}", table_->line(row));
    std::fflush(stdout);
  }
  if (csv_) {
    fmt::print(csv_.get(), "{}\n", csv_line(options_.label, row));
    std::fflush(csv_.get());
  }
  document_["rows"].push_back(row_json(row));
  rows_++;
  if (row.wrong.value_or(0) > 0) wrong_rows_++;
  if (row.bytes > 0) {
    rows_with_bytes_++;
    busbw_sum_ += row.busbw;
  }
}

void Report::finish() {
  clear_progress();
  const double average = rows_with_bytes_ > 0 ? busbw_sum_ / double(rows_with_bytes_) : 0;
  if (!options_.is_table_off()) {
    fmt::print("#\n# average bus bandwidth: {} GB/s\n", figure(average));
    if (wrong_rows_ > 0) {
      fmt::print("# FAILED: {} of {} rows have wrong elements\n", wrong_rows_, rows_);
    } else if (options_.check) {
      fmt::print("# checked: all {} rows are exact\n", rows_);
    }
  }
  if (json_) {
    document_["average_busbw_GBps"] = average;
    document_["wrong_rows"] = wrong_rows_;
    fmt::print(json_.get(), "{}\n", document_.dump(2));
  }
  for (std::FILE* file : {stdout, csv_.get(), json_.get()}) {
    if (file != nullptr && (std::fflush(file) != 0 || std::ferror(file) != 0)) {
      throw Error(ErrorKind::exhausted,
                  fmt::format("results could not be written: {}", std::strerror(errno)));
    }
  }
}

}  // namespace ccoll::bench

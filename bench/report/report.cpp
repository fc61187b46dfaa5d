// SPDX-License-Identifier: Apache-2.0
#include "bench/report/report.hpp"
#include "ccoll/version.hpp"

#include "bench/measure/gpu.hpp"
#include "bench/report/page.hpp"
#include "bench/report/whole_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

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

void require_written(std::FILE* file, const std::string& name) {
  if (std::fflush(file) == 0 && std::ferror(file) == 0) return;
  throw Error(ErrorKind::exhausted, fmt::format("cannot write {}: {}", name, std::strerror(errno)));
}

}  // namespace

Status check_outputs(const Options& options) {
  if (!options.baseline.empty()) {
    if (auto baseline = Baseline::load(options.baseline); !baseline) {
      return tl::unexpected(baseline.error());
    }
  }
  const std::array named = {std::pair("--csv", options.csv), std::pair("--json", options.json),
                            std::pair("--html", options.html)};
  for (const auto& [option, path] : named) {
    if (path.empty() || path == "-") continue;
    for (const auto& [other, its] : named) {
      if (its == path && other != option) {
        return fail(ErrorKind::invalid_argument, "{} and {} both name {}", option, other, path);
      }
    }
    CCOLL_TRY(check_writable(path));
  }
  return {};
}

void Report::Close::operator()(std::FILE* file) const {
  if (file != stdout) std::fclose(file);
}

std::optional<Baseline> Report::load_baseline(const std::string& path) {
  if (path.empty()) return std::nullopt;
  auto baseline = Baseline::load(path);
  if (!baseline) throw Error(ErrorKind::invalid_argument, baseline.error().message);
  return std::move(*baseline);
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
      verdict_(options.bounds, load_baseline(options.baseline)),  // --json may name the same file
      csv_(open(options.csv)),
      on_terminal_(::isatty(STDERR_FILENO) == 1) {
  const Machine machine = inspect_machine();
  if (!options_.is_table_off()) write_header(machine);
  if (csv_) {
    fmt::print(csv_.get(), "{}{}\n", kCsvHeader, options.is_on_gpu() ? kCsvDeviceHeader : "");
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
               {"timeout_s", session.timeout_s ? nlohmann::json(*session.timeout_s) : nullptr},
               {"checked", options.check},
               {"rows", nlohmann::json::array()}};
}

Report::~Report() { clear_progress(); }

void Report::write_header(const Machine& machine) const {
  fmt::print("# cc-bench {} on {}: {}, {} core{}, {:.1f} GiB of memory\n", version(), machine.host,
             machine.processor, machine.cores_usable, machine.cores_usable == 1 ? "" : "s",
             machine.memory_gib);
  fmt::print("# {}\n", describe_ranks(session_, machine));
  fmt::print("# limits: {} open files per process, {} per call\n", machine.open_files,
             session_.timeout_s ? fmt::format("{:g} s", *session_.timeout_s) : "no time limit");
  if (options_.command == Options::Command::matrix) return;
  fmt::print("# time: median over batches of a call's mean, slowest rank{}; GB/s: 10^9 bytes/s\n",
             options_.is_on_gpu() ? ", by events of its GPU" : "");
  fmt::print("# p50, p99: of single calls (of batches below {:g} us); ~: the batches differ much\n",
             kTimedSinglyUs);
  if (options_.skew_ms > 0)
    fmt::print("# wait cpu %: of a core, by a rank that waits {} ms for the last one to call\n",
               options_.skew_ms);
  if (options_.overlap)
    fmt::print(
        "# with sleep: a call during which its caller sleeps as long as it takes alone, "
        "over the longer\n");
  if (options_.is_on_gpu()) {
    fmt::print(
        "# buffers are memory of GPUs, {} in a stream of each rank's own, up to {} in a row\n",
        options_.graph_calls > 0 ? fmt::format("graphs of {} calls", options_.graph_calls)
                                 : "calls",
        kCallsInStream);
    fmt::print("# call cpu us: processor time until a call's thread has put it into the stream\n");
  }
  fmt::print("# {}\n", options_.check ? "every result is compared bit by bit with the exact one"
                                      : "results are not checked");
  std::fflush(stdout);
}

void Report::begin_operation(const Operation& operation, const std::string& note) {
  clear_progress();
  if (options_.is_table_off()) return;
  table_.emplace(operation, Extras{.baseline = verdict_.has_baseline(),
                                   .device = options_.is_on_gpu(),
                                   .skew = options_.skew_ms > 0,
                                   .overlap = options_.overlap});
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

void Report::add(Row row) {
  clear_progress();
  verdict_.add(row);
  if (!options_.is_table_off()) {
    fmt::print("{}", table_->line(row));
    std::fflush(stdout);
  }
  if (csv_) {
    fmt::print(csv_.get(), "{}\n", csv_line(options_.label, row));
    std::fflush(csv_.get());
  }
  document_["rows"].push_back(row_json(row));
}

void Report::add_matrix(const Matrix& matrix) {
  if (!options_.is_table_off()) fmt::print("{}", matrix_text(matrix));
  document_["matrix"] = matrix_json(matrix);
}

bool Report::finish() {
  clear_progress();
  const std::vector<std::string> lines = verdict_.lines();
  if (options_.command == Options::Command::matrix) {
    // Its verdict is in its text.
  } else if (!options_.is_table_off()) {
    fmt::print("#\n");
    for (const std::string& line : lines) fmt::print("# {}\n", line);
  } else if (!verdict_.is_good()) {
    for (const std::string& line : lines) fmt::print(stderr, "cc-bench: {}\n", line);
  }
  document_["average_busbw_GBps"] = verdict_.average_busbw();
  document_["wrong_rows"] = verdict_.wrong_rows();
  document_["verdict"] = lines;
  document_["good"] = verdict_.is_good();
  if (options_.json == "-") {
    fmt::print("{}\n", document_.dump(2));
  } else if (!options_.json.empty()) {
    value_or_throw(write_whole(options_.json, document_.dump(2) + "\n"));
  }
  if (!options_.html.empty()) value_or_throw(write_whole(options_.html, page(document_)));
  require_written(stdout, "standard output");
  if (csv_) require_written(csv_.get(), options_.csv);
  return verdict_.is_good();
}

}  // namespace ccoll::bench

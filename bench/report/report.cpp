// SPDX-License-Identifier: Apache-2.0
#include "bench/report/report.hpp"
#include "ccoll/version.hpp"

#include "bench/command/columns.hpp"
#include "bench/measure/gpu.hpp"
#include "bench/report/page.hpp"
#include "bench/report/whole_file.hpp"
#include "core/text.hpp"

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

std::string progress_text(const std::string& what, std::size_t done, std::size_t all,
                          double elapsed_s) {
  constexpr double kLongS = 10;
  if (elapsed_s < kLongS || done == 0) return what;
  const double left_s = elapsed_s / static_cast<double>(done) * static_cast<double>(all - done);
  const std::string left =
      left_s < 100 ? fmt::format("{:.0f} s", left_s) : fmt::format("{:.0f} min", left_s / 60);
  return fmt::format("{} row {} of {}, about {} more", what, done + 1, all, left);
}

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
  const auto say = [this](const std::string& text) {
    fmt::print("{}", wrapped(text, width_, "# "));
  };
  say(fmt::format("cc-bench {} on {}: {}, {} core{}, {:.1f} GiB of memory", version(), machine.host,
                  machine.processor, machine.cores_usable, machine.cores_usable == 1 ? "" : "s",
                  machine.memory_gib));
  say(describe_ranks(session_, machine));
  say(fmt::format(
      "limits: {} open files per process, {} per call", machine.open_files,
      session_.timeout_s ? fmt::format("{:g} s", *session_.timeout_s) : "no time limit"));
  if (options_.command == Options::Command::matrix) return;
  say(fmt::format("time: median over batches of a call's mean, slowest rank{}; GB/s: 10^9 bytes/s",
                  options_.is_on_gpu() ? ", by events of its GPU" : ""));
  say(fmt::format(
      "p50, p99: of single calls (of batches below {:g} us); ~: the batches differ much",
      kTimedSinglyUs));
  if (options_.skew_ms > 0)
    say(fmt::format("wait cpu %: of a core, by a rank that waits {} ms for the last one to call",
                    options_.skew_ms));
  if (options_.first)
    say("first, 2-20: the first call of that size, and the mean of those up to the twentieth");
  if (options_.overlap)
    say("with sleep: a call during which its caller sleeps as long as it takes alone, over the "
        "longer");
  if (options_.is_on_gpu()) {
    say(fmt::format(
        "buffers are memory of GPUs, {} in a stream of each rank's own, up to {} in a "
        "row",
        options_.graph_calls > 0 ? fmt::format("graphs of {} calls", options_.graph_calls)
                                 : "calls",
        kCallsInStream));
    say("call cpu us: processor time until a call's thread has put it into the stream");
  }
  say(options_.check ? "every result is compared bit by bit with the exact one"
                     : "results are not checked");
  std::fflush(stdout);
}

void Report::begin_operation(const Operation& operation, const std::string& note) {
  clear_progress();
  if (options_.is_table_off()) return;
  const Extras extras{.baseline = verdict_.has_baseline(),
                      .device = options_.is_on_gpu(),
                      .skew = options_.skew_ms > 0,
                      .overlap = options_.overlap,
                      .first = options_.first,
                      .types = options_.types.size() > 1,
                      .reductions = options_.reduce_ops.size() > 1,
                      .roots = !options_.root.has_value(),
                      .width = width_,
                      .largest = options_.sizes.end};
  table_.emplace(operation, extras);
  std::vector<std::string> alike;
  if (operation.has_data && !extras.types) alike.emplace_back(to_string(options_.types.front()));
  if (operation.reduces && !extras.reductions)
    alike.emplace_back(to_string(options_.reduce_ops.front()));
  if (operation.rooted && !extras.roots) alike.push_back(fmt::format("root {}", *options_.root));
  if (!note.empty()) alike.push_back(note);
  fmt::print(
      "#\n{}{}",
      wrapped(fmt::format("{}{}{}", operation.name, alike.empty() ? "" : ": ", joined(alike)),
              width_, "# "),
      table_->heading());
  std::fflush(stdout);
}

void Report::progress(const std::string& what, std::size_t done, std::size_t all) {
  if (!on_terminal_) return;
  clear_progress();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  const std::string text = progress_text(what, done, all, elapsed.count());
  fmt::print(stderr, "{}", text);
  std::fflush(stderr);
  progress_width_ = text.size();
}

void Report::remark(const std::string& text) {
  clear_progress();
  document_["remarks"].push_back(text);
  if (options_.is_table_off()) return;
  fmt::print("{}", wrapped(text, width_, "# "));
  std::fflush(stdout);
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
    // Its text includes its verdict.
  } else if (!options_.is_table_off()) {
    fmt::print("#\n");
    for (const std::string& line : lines) fmt::print("{}", wrapped(line, width_, "# "));
  } else if (!verdict_.is_good()) {
    for (const std::string& line : lines) fmt::print(stderr, "cc-bench: {}\n", line);
  }
  document_["verdict"] = lines;
  document_["good"] = verdict_.is_good();
  write_documents();
  require_written(stdout, "standard output");
  if (csv_) require_written(csv_.get(), options_.csv);
  return verdict_.is_good();
}

void Report::fail(const std::string& why) noexcept try {
  clear_progress();
  std::vector<std::string> lines = verdict_.lines();
  lines.push_back("FAILED: " + why);
  document_["verdict"] = lines;
  document_["failure"] = why;
  document_["good"] = false;
  write_documents();
  for (const std::string& path : {options_.json, options_.html}) {
    if (path.empty() || path == "-") continue;
    fmt::print(stderr, "cc-bench: {} has what was measured before\n", path);
  }
} catch (const std::exception& error) {
  // If the cause is a file that cannot be written, it is already reported.
  if (why != error.what()) std::fprintf(stderr, "cc-bench: %s\n", error.what());
}

void Report::write_documents() {
  document_["average_busbw_GBps"] = verdict_.average_busbw();
  document_["wrong_rows"] = verdict_.wrong_rows();
  if (options_.json == "-") {
    fmt::print("{}\n", document_.dump(2));
  } else if (!options_.json.empty()) {
    value_or_throw(write_whole(options_.json, document_.dump(2) + "\n"));
  }
  if (!options_.html.empty()) value_or_throw(write_whole(options_.html, page(document_)));
}

}  // namespace ccoll::bench

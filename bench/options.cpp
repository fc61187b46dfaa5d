// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "algorithms/algorithms.hpp"
#include "names.hpp"

namespace ccoll::bench {

namespace {

/// What the parser writes into before anything is checked.
struct Raw {
  std::string ops;
  std::string begin;
  std::string end;
  std::string step;
  std::string types = "float32";
  std::string reduce_ops = "sum";
  int ranks = 0;
  std::string explain_bytes;
};

/// Beyond any use, but far from where durations and counts overflow.
constexpr double kMostSeconds = 1e6;
constexpr std::uint64_t kMostCalls = 1'000'000'000;
/// More than a launcher will start here: `explain` answers for clusters too.
constexpr int kMostRanksExplained = 1 << 20;

/// CLI11's own range of floating-point numbers prints all digits of the largest one.
std::string check_seconds(const std::string& text) {
  double seconds = 0;
  const bool good =
      CLI::detail::lexical_cast(text, seconds) && seconds > 0 && seconds <= kMostSeconds;
  return good
             ? ""
             : fmt::format("{} is not a time in seconds above 0, up to {:.0f}", text, kMostSeconds);
}

std::string overview() {
  std::string text =
      "cc-bench measures collective operations and checks their results bit by bit.\n\n"
      "Type this first:\n"
      "  cc-bench all_reduce -n 4        four ranks on this machine add up their buffers\n\n"
      "Operations (several: a,b or all):\n";
  for (const Operation& row : operations()) {
    text += fmt::format("  {:<16}{}\n", row.name, row.meaning);
  }
  text +=
      "\nThen:\n"
      "  cc-bench all -n 3 -b 0 -e 1M    every operation, from nothing to 1 MiB\n"
      "  cc-bench all_reduce -n 4 --csv results.csv\n"
      "  cc-bench explain all_reduce 64K -n 8    which algorithm is chosen, and why\n"
      "  cc-bench info                   what this machine and build can do\n"
      "  mpirun -n 4 cc-bench all_reduce    inside Slurm, MPI and torchrun it joins their ranks\n"
      "  cc-bench --help                 all options\n";
  return text;
}

void add_sizes(CLI::App& app, Raw& raw, Options& options) {
  app.add_option("-n,--ranks", raw.ranks,
                 "ranks to start here (nccl-tests' -n is --iters); default: one per core, 2 to 8")
      ->check(CLI::Range(1, kMostRanksExplained));
  app.add_option("-b,--minbytes", raw.begin, "smallest size; 0 is followed by one element [8]");
  app.add_option("-e,--maxbytes", raw.end, "largest size, with K, M, G or T [32M]");
  auto* factor = app.add_option("-f,--stepfactor", options.sizes.factor, "each size times this [4]")
                     ->check(CLI::Range(2, 1 << 20));
  app.add_option("-i,--stepbytes", raw.step, "or each size this much more")->excludes(factor);
  app.add_option("--iters", options.effort.iters,
                 "timed calls per size; default: as many as a steady figure needs")
      ->check(CLI::Range(std::uint64_t{1}, kMostCalls));
  app.add_option("-w,--warmup", options.effort.warmup, "calls before the timed ones [3]")
      ->check(CLI::Range(std::uint64_t{0}, kMostCalls));
}

void add_call(CLI::App& app, Raw& raw, Options& options) {
  app.add_option("-d,--dtype", raw.types,
                 "uint8 int32 int64 float16 bfloat16 float32 float64; a,b; all [float32]");
  app.add_option("-o,--op", raw.reduce_ops, "sum product min max avg; a,b; all [sum]");
  app.add_option("-r,--root", options.root, "root of broadcast, reduce, gather, scatter [0]")
      ->check(CLI::Range(0, kMostRanksExplained));
  app.add_flag("--in-place", options.in_place, "input and output are the same memory");
  app.add_flag("--check,!--no-check", options.check, "check every result bit by bit [on]");
  app.add_option("--algo", options.algorithm, "ring, double_tree, …; default: by cost");
  app.add_option("--transport", options.transport,
                 "tcp (processes) or inproc (threads of one process)");
  app.add_option("--lanes", options.lanes, "most copies of an algorithm's lanes")
      ->check(CLI::Range(1, 64));
  app.add_option("--timeout", options.timeout_s, "seconds that a call may take [300]")
      ->check(check_seconds);
}

void add_output(CLI::App& app, Options& options) {
  app.add_option("--csv", options.csv, "also write rows to this file; - writes them instead");
  app.add_option("--json", options.json, "the same as JSON, with everything measured");
  app.add_option("--label", options.label, "first column of the CSV form [ccoll]");
  app.footer(
      "In the CSV and JSON forms usec is the median over batches of a batch's mean time per call;\n"
      "min_us, p50_us, p99_us and max_us are of single calls, or of batches' means where a call\n"
      "takes under 10 us. Of every figure the slowest rank counts: a single call that another "
      "rank\n"
      "holds up each time makes min_us more than usec, the mean in which such waits cancel out.\n\n"
      "`cc-bench` alone lists the operations and some first commands.");
}

Result<Options> finish(const Raw& raw, Options options) {
  if (raw.ranks > 0) options.ranks = raw.ranks;
  const auto read_size = [](const std::string& text, std::uint64_t& size) -> Status {
    if (text.empty()) return {};
    auto parsed = parse_size(text);
    if (!parsed) return tl::unexpected(parsed.error());
    size = *parsed;
    return {};
  };
  CCOLL_TRY(read_size(raw.begin, options.sizes.begin));
  if (raw.end.empty()) options.sizes.end = std::max(options.sizes.end, options.sizes.begin);
  CCOLL_TRY(read_size(raw.end, options.sizes.end));
  CCOLL_TRY(read_size(raw.step, options.sizes.step));
  CCOLL_TRY(read_size(raw.explain_bytes, options.explain_bytes));
  if (raw.begin.empty()) options.sizes.begin = std::min(options.sizes.begin, options.sizes.end);
  if (options.sizes.begin > options.sizes.end) {
    return fail(ErrorKind::invalid_argument, "-b {} is more than -e {}", raw.begin, raw.end);
  }
  auto types = parse_types(raw.types);
  if (!types) return tl::unexpected(types.error());
  options.types = *types;
  auto reduce_ops = parse_reduce_ops(raw.reduce_ops);
  if (!reduce_ops) return tl::unexpected(reduce_ops.error());
  options.reduce_ops = *reduce_ops;
  if (options.command == Options::Command::measure) {
    auto ops = parse_operations(raw.ops);
    if (!ops) return tl::unexpected(ops.error());
    options.ops = *ops;
  }
  if (options.csv == "-" && options.json == "-") {
    return fail(ErrorKind::invalid_argument,
                "--csv - and --json - both want standard output: give one of them a file");
  }
  constexpr std::array<std::string_view, 2> kTransports = {"tcp", "inproc"};
  if (!options.transport.empty() &&
      !std::count(kTransports.begin(), kTransports.end(), options.transport)) {
    return fail(ErrorKind::invalid_argument, "{}",
                unknown_word("transport", options.transport, kTransports));
  }
  return options;
}

/// "--itres" is not expected: the option that is nearest to it.
std::string unexpected(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::vector<std::string> extras = app.remaining(true);
  const std::string word = extras.empty() ? "" : extras.front();
  const std::string near = word.starts_with("--") ? suggestion(word, views) : "";
  return fmt::format("'{}' is not expected{}", word,
                     near.empty() ? "" : fmt::format(": did you mean {}?", near));
}

Status check_algorithm(const Options& options) {
  if (options.algorithm.empty()) return {};
  const auto algorithm = parse_algorithm(options.algorithm);
  if (!algorithm) {
    std::vector<std::string_view> names;
    for (const CatalogueEntry& entry : catalogue()) {
      const std::string_view name = to_string(entry.algorithm);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return fail(ErrorKind::invalid_argument, "{}",
                unknown_word("algorithm", options.algorithm, names));
  }
  for (const Operation* op : options.ops) {
    if (op->kind && find_algorithm(*op->kind, *algorithm)) return {};
  }
  if (options.ops.empty()) return {};
  const Operation& op = *options.ops.front();
  std::vector<std::string_view> names;
  if (op.kind) {
    for (const Algorithm each : algorithms_for(*op.kind)) names.push_back(to_string(each));
  }
  return fail(ErrorKind::invalid_argument, "{} has no algorithm '{}'; it has: {}", op.name,
              options.algorithm, names.empty() ? "none to choose" : joined(names));
}

}  // namespace

Result<Options> parse_command_line(int argc, const char* const* argv) {
  Options options;
  if (argc <= 1) {
    options.command = Options::Command::print;
    options.text = overview();
    return options;
  }
  Raw raw;
  CLI::App app("Measures collective operations and checks their results.", "cc-bench");
  app.set_version_flag("--version", "cc-bench " CCOLL_VERSION);
  app.add_option("OP", raw.ops, "operations: all_reduce, broadcast, …; a,b; all");
  add_sizes(app, raw, options);
  add_call(app, raw, options);
  add_output(app, options);
  auto* info = app.add_subcommand("info", "what this machine and build can do, what not, and why");
  auto* explain = app.add_subcommand("explain", "which algorithm a call gets, and why");
  explain->add_option("OP", options.explain_op, "the operation")->required();
  explain->add_option("BYTES", raw.explain_bytes, "its size, as in the table (64K)")->required();
  for (auto* command : {info, explain}) command->fallthrough();
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    options.text = explain->parsed() ? explain->help() : app.help();
  } catch (const CLI::CallForVersion&) {
    options.text = "cc-bench " CCOLL_VERSION "\n";
  } catch (const CLI::ExtrasError&) {
    return fail(ErrorKind::invalid_argument, "{}", unexpected(app));
  } catch (const CLI::ParseError& error) {
    return fail(ErrorKind::invalid_argument, "{}", error.what());
  }
  if (!options.text.empty()) {
    options.command = Options::Command::print;
    return options;
  }
  if (info->parsed()) options.command = Options::Command::info;
  if (explain->parsed()) options.command = Options::Command::explain;
  if (options.command == Options::Command::measure && raw.ops.empty()) {
    return fail(ErrorKind::invalid_argument, "no operation given: try cc-bench all_reduce -n 4");
  }
  return finish(raw, std::move(options));
}

Status check_for_size(const Options& options, int size) {
  if (options.root >= size) {
    return fail(ErrorKind::invalid_argument, "--root {} does not exist among {} ranks: 0 to {}",
                options.root, size, size - 1);
  }
  CCOLL_TRY(check_algorithm(options));
  for (const Operation* op : options.ops) {
    if (!op->has_data) return {};
    for (const DataType type : options.types) {
      if (!size_list(options.sizes, size_unit(*op, type, size)).empty()) return {};
    }
  }
  if (options.ops.empty()) return {};
  const Operation& op = *options.ops.front();
  return fail(
      ErrorKind::invalid_argument,
      "no size from {} to {} bytes fits: {} of {} over {} ranks takes multiples of {} bytes",
      options.sizes.begin, options.sizes.end, op.name, to_string(options.types.front()), size,
      size_unit(op, options.types.front(), size));
}

}  // namespace ccoll::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/command/options.hpp"
#include "ccoll/version.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "algorithms/algorithms.hpp"
#include "bench/command/columns.hpp"
#include "bench/command/help.hpp"
#include "bench/command/names.hpp"
#include "bench/command/subcommands.hpp"
#include "bench/command/width.hpp"
#include "core/text.hpp"
#include "system/variables.hpp"

namespace ccoll::bench {

namespace {

/// The parser's output before any check.
struct Raw {
  std::string ops;
  std::string begin;
  std::string end;
  std::string step;
  std::string max_memory;
  std::string types = "float32";
  std::string reduce_ops = "sum";
  std::string root = "0";
  std::string algorithms;
  int ranks = 0;
  std::string explain_bytes;
  std::string graph = "0";
};

/// Larger than useful, but far from where durations and counts overflow.
constexpr double kMostSeconds = 1e6;
constexpr std::uint64_t kMostCalls = 1'000'000'000;
/// More than a launcher starts here: `explain` also serves clusters.
constexpr int kMostRanksExplained = 1 << 20;

constexpr int kMostGraphCalls = 10'000;

constexpr std::uint64_t kMostMatrixBytes = std::uint64_t{1} << 30;

/// CLI11's own range check prints all digits of the largest floating-point number.
std::string check_seconds(const std::string& text) {
  double seconds = 0;
  const bool good =
      CLI::detail::lexical_cast(text, seconds) && seconds > 0 && seconds <= kMostSeconds;
  return good
             ? ""
             : fmt::format("{} is not a time in seconds above 0, up to {:.0f}", text, kMostSeconds);
}

/// The upper limit comes later: `explain` takes more ranks than a launcher starts.
std::string check_ranks(const std::string& text) {
  int ranks = 0;
  const bool good = CLI::detail::lexical_cast(text, ranks) && ranks >= 1;
  return good ? "" : fmt::format("{} is not a number of ranks, 1 or more", text);
}

std::string check_not_negative(const std::string& text) {
  double value = 0;
  const bool good = CLI::detail::lexical_cast(text, value) && value >= 0 && value <= 1e9;
  return good ? "" : fmt::format("{} is not a number of 0 or more", text);
}

void add_sizes(CLI::App& app, Raw& raw, Options& options) {
  app.add_option("-n,--ranks", raw.ranks,
                 "ranks to start here (nccl-tests' -n is --iters); default: one per core, 2 to 8")
      ->check(check_ranks);
  app.add_option("-b,--minbytes", raw.begin, "smallest size; 0 is followed by one element [8]");
  app.add_option("-e,--maxbytes", raw.end,
                 "largest size, with K, M, G or T, always measured [32M]");
  auto* factor =
      app.add_option("-f,--stepfactor", options.sizes.factor,
                     "each size is the one before times this [powers of 4: 1K, 4K, 16K, …]")
          ->check(CLI::Range(2, 1 << 20));
  app.add_option("-i,--stepbytes", raw.step, "or the one before plus this many bytes")
      ->excludes(factor);
  app.add_option("--max-memory", raw.max_memory,
                 "memory of a host that all its ranks' buffers may take; -e is lowered to fit "
                 "[90 % of what the host has left]");
  app.add_option("--iters", options.effort.iters,
                 "timed calls per size; default: as many as a steady figure needs")
      ->check(CLI::Range(std::uint64_t{1}, kMostCalls));
  app.add_option("-w,--warmup", options.effort.warmup, "calls before the timed ones [3]")
      ->check(CLI::Range(std::uint64_t{0}, kMostCalls));
}

template <typename T, std::size_t N>
std::string listed(const std::array<T, N>& values) {
  std::vector<std::string_view> names;
  for (const T value : values) names.push_back(to_string(value));
  return joined(names);
}

void add_call(CLI::App& app, Raw& raw, Options& options) {
  app.add_option("-d,--dtype", raw.types,
                 fmt::format("{}; a,b; all [float32]", listed(kDataTypes)));
  app.add_option("-o,--op", raw.reduce_ops,
                 fmt::format("{}, where the type has it; a,b; all [sum]", listed(kReduceOps)));
  app.add_option("-r,--root", raw.root,
                 "root of broadcast, reduce, gather, scatter; all: each in turn [0]");
  app.add_flag("--in-place", options.in_place, "input and output are the same memory");
  app.add_option("--memory", options.memory,
                 "kind of the buffers: ordinary, registered (ccoll::allocate), or mixed: "
                 "registered on odd ranks only [ordinary]");
  app.add_option(
      "--device", options.device,
      "where the buffers are: host, or cuda: on the GPUs of each host, which its ranks take in "
      "turn; calls then run in a CUDA stream of each rank and are timed until it is done [host]");
  app.add_flag("--graph{10}", raw.graph,
               "with --device cuda: capture this many calls (10, or --graph=N) as a graph, and "
               "time its launches; each call has pinned memory of its own; 0: no graph [0]")
      ->check(CLI::Range(0, kMostGraphCalls));
  app.add_flag("--fresh", options.fresh,
               "every rank writes its input again before every timed call, so that it is in that "
               "rank's caches, like data that a program has just computed");
  app.add_flag("--check,!--no-check", options.check, "check every result bit by bit [on]");
  app.add_option(
         "--skew", options.skew_ms,
         "also measure the processor time of a rank that waits this many ms for the last one")
      ->check(CLI::Range(1, 60'000));
  app.add_flag(
      "--first", options.first,
      "also time the first call of each size, and the mean of the second to the twentieth");
  app.add_flag("--overlap", options.overlap,
               "also measure the time of a call whose caller sleeps meanwhile");
  app.add_option("--algo", raw.algorithms,
                 "ring, double_tree, …; a,b; all: each in turn; default: by cost");
  app.add_option("--transport", options.transport,
                 "shm (processes of one host), tcp, verbs (processes) or inproc (threads of one "
                 "process); default: by reach");
  app.add_option("--lanes", options.lanes,
                 "upper bound on parallel lanes per algorithm; default: by cost")
      ->check(CLI::Range(1, kMaxLanes));
  app.add_option("--timeout", options.timeout_s,
                 "seconds that a call may take [CCOLL_TIMEOUT, 300]")
      ->check(check_seconds);
}

void add_output(CLI::App& app, Options& options) {
  add_width_option(app, options.width);
  app.add_option("--csv", options.csv, "also write rows to this file; - writes them instead")
      ->check(path_problem);
  app.add_option("--json", options.json, "the same as JSON, with everything measured")
      ->check(path_problem);
  app.add_option("--html", options.html, "the same as a page with charts, for a browser")
      ->check(path_problem);
  app.add_option("--baseline", options.baseline,
                 "compare with this file, which --json wrote; exit 1 where a row is slower")
      ->check(path_problem);
  app.add_option("--tolerance", options.bounds.slower_pct,
                 "percent that a row may take longer than in the baseline [10]")
      ->check(check_not_negative);
  app.add_option("--min-busbw", options.bounds.min_busbw,
                 "exit 1 where the average bus bandwidth is below this, in GB/s")
      ->check(check_not_negative);
  app.add_option("--label", options.label, "first column of the CSV form [ccoll]");
  app.footer(help_footer());
}

Status check_word(std::string_view what, std::string_view word,
                  std::span<const std::string_view> words) {
  if (std::ranges::find(words, word) != words.end()) return {};
  return fail(ErrorKind::invalid_argument, "{}", unknown_word(what, word, words));
}

Result<std::optional<int>> parse_root(const std::string& text) {
  if (text == "all") return std::nullopt;
  int root = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), root);
  if (error != std::errc() || end != text.data() + text.size() || root < 0) {
    return fail(ErrorKind::invalid_argument, "--root {} is neither a rank (0, 1, …) nor all", text);
  }
  return root;
}

Result<std::vector<std::string>> parse_algorithms(const std::string& list) {
  const std::vector<std::string> all = all_algorithms();
  const std::vector<std::string_view> names(all.begin(), all.end());
  std::vector<std::string> chosen;
  for (const std::string& word : split_list(list)) {
    if (word == "all") return all;
    if (!parse_algorithm(word)) {
      return fail(ErrorKind::invalid_argument, "{}", unknown_word("algorithm", word, names));
    }
    if (std::find(chosen.begin(), chosen.end(), word) == chosen.end()) chosen.push_back(word);
  }
  return chosen;
}

Status check_matrix(const Options& options) {
  if (options.matrix_bytes == 0 || options.matrix_bytes > kMostMatrixBytes) {
    return fail(ErrorKind::invalid_argument, "-e {}: messages of a matrix have 1 byte to {}",
                options.matrix_bytes, short_size(kMostMatrixBytes));
  }
  return {};
}

/// Checks the options of calls in streams on GPU buffers, which exclude host-only ones.
Status check_device(const Options& options) {
  if (!options.is_on_gpu()) {
    if (options.graph_calls == 0) return {};
    return fail(ErrorKind::invalid_argument,
                "--graph is for calls in streams: give --device cuda, too");
  }
  if (options.memory != "ordinary" || options.fresh) {
    return fail(ErrorKind::invalid_argument,
                "--memory and --fresh are for buffers of the host: leave them out, or --device {}",
                options.device);
  }
  if (options.overlap) {
    return fail(ErrorKind::invalid_argument,
                "--overlap is for calls without a stream: those of --device {} go on beside their "
                "callers in any case",
                options.device);
  }
  return {};
}

Result<Options> finish(const Raw& raw, Options options) {
  if (raw.ranks > 0) options.ranks = raw.ranks;
  if (options.command == Options::Command::explain && raw.ranks > kMostRanksExplained)
    return fail(ErrorKind::invalid_argument, "explain -n {}: expected at most {} ranks", raw.ranks,
                kMostRanksExplained);
  CLI::detail::lexical_cast(raw.graph, options.graph_calls);  // its range has been checked
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
  CCOLL_TRY(read_size(raw.max_memory, options.max_memory));
  if (!raw.max_memory.empty() && options.max_memory == 0)
    return fail(ErrorKind::invalid_argument, "--max-memory {}: expected at least 1 byte",
                raw.max_memory);
  if (!raw.step.empty() && options.sizes.step == 0) {
    return fail(ErrorKind::invalid_argument, "-i {}: expected at least 1 byte more for each size",
                raw.step);
  }
  CCOLL_TRY(read_size(raw.explain_bytes, options.explain_bytes));
  if (!raw.end.empty()) options.matrix_bytes = options.sizes.end;
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
  auto root = parse_root(raw.root);
  if (!root) return tl::unexpected(root.error());
  options.root = *root;
  auto algorithms = parse_algorithms(raw.algorithms);
  if (!algorithms) return tl::unexpected(algorithms.error());
  options.algorithms = *algorithms;
  if (options.command == Options::Command::measure) {
    auto ops = parse_operations(raw.ops);
    if (!ops) return tl::unexpected(ops.error());
    options.ops = *ops;
  }
  if (options.csv == "-" && options.json == "-") {
    return fail(ErrorKind::invalid_argument,
                "--csv - and --json - both write to standard output: give one of them a file");
  }
  if (options.command == Options::Command::matrix) CCOLL_TRY(check_matrix(options));
  if (options.html == "-") {
    return fail(ErrorKind::invalid_argument, "--html needs the name of a file");
  }
  if (!options.transport.empty())
    CCOLL_TRY(check_word("transport", options.transport, values_of("CCOLL_TRANSPORT").words));
  constexpr std::array<std::string_view, 3> kMemories = {"ordinary", "registered", "mixed"};
  CCOLL_TRY(check_word("memory", options.memory, kMemories));
  constexpr std::array<std::string_view, 2> kDevices = {"host", "cuda"};
  CCOLL_TRY(check_word("device", options.device, kDevices));
  CCOLL_TRY(check_device(options));
  return options;
}

/// The text for an unexpected option like "--itres": names the nearest one, or the equivalent of
/// nccl-tests' option.
std::string unexpected(const CLI::App& app, const std::string& ops) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::vector<std::string> extras = app.remaining(true);
  const std::string word = extras.empty() ? "" : extras.front();
  const std::string start = fmt::format("'{}' is not expected", word);
  if (const std::string_view instead = instead_of_nccl_option(word); !instead.empty()) {
    return fmt::format("{}; in place of nccl-tests' {} give {}", start, word.substr(0, 2), instead);
  }
  if (find_operation(word) != nullptr) {
    return fmt::format("{}: several operations are given as {},{}", start, ops, word);
  }
  const std::string near = word.starts_with("--") ? suggestion(word, views) : "";
  return near.empty() ? start : fmt::format("{}: did you mean {}?", start, near);
}

/// The help of the selected subcommand, or the general help.
std::string help_of(const CLI::App& app) {
  std::string text = app.help();
  for (const Subcommand& each : subcommands()) {
    if (app.got_subcommand(std::string(each.name))) text = help(app, each);
  }
  return wrapped_lines(text, output_columns());
}

/// A flag takes no value: a word behind it would be the operations.
Status check_graph(int argc, const char* const* argv) {
  for (int i = 1; i + 1 < argc; i++) {
    const std::string_view next = argv[i + 1];
    if (std::string_view(argv[i]) != "--graph" || next.empty()) continue;
    if (next.find_first_not_of("0123456789") == next.npos)
      return fail(ErrorKind::invalid_argument, "--graph {}: give --graph={}", next, next);
  }
  return {};
}

/// At least one of the operations must have one of the algorithms.
Status check_algorithms(const Options& options) {
  if (options.algorithms.empty() || options.ops.empty()) return {};
  for (const Operation* op : options.ops) {
    if (!algorithms_of(options, *op).empty()) return {};
  }
  const Operation& op = *options.ops.front();
  std::vector<std::string_view> names;
  for (const Algorithm each : algorithms_of(op)) names.push_back(to_string(each));
  return fail(ErrorKind::invalid_argument, "{} has no algorithm '{}'; it has: {}", op.name,
              joined(options.algorithms, "', '"), names.empty() ? "none to choose" : joined(names));
}

/// Nonexistent pairs of type and reduction are skipped; at least one pair must exist.
Status check_reductions(const Options& options) {
  for (const ReduceOp op : options.reduce_ops) {
    for (const DataType type : options.types) {
      if (is_defined(op, type)) return {};
    }
  }
  const auto reduces = [](const Operation* op) { return op->reduces; };
  if (std::none_of(options.ops.begin(), options.ops.end(), reduces)) return {};
  return fail(ErrorKind::invalid_argument, "--op {} is not defined on --dtype {}",
              to_string(options.reduce_ops.front()), to_string(options.types.front()));
}

/// Sizes are rounded down, but never below the requested minimum.
Status check_not_shorter(const Options& options, int size) {
  for (const Operation* op : options.ops) {
    if (!op->has_data) continue;
    for (const DataType type : options.types) {
      const std::uint64_t unit = size_unit(*op, type, size);
      const auto sizes = size_list(options.sizes, unit);
      if (sizes.empty() || sizes.back() >= options.sizes.begin) continue;
      return fail(ErrorKind::invalid_argument,
                  "-b {}: {} of {} over {} ranks takes multiples of {} bytes: give {} or {}",
                  options.sizes.begin, op->name, to_string(type), size, unit, sizes.back(),
                  sizes.back() + unit);
    }
  }
  return {};
}

}  // namespace

Result<Options> parse_command_line(int argc, const char* const* argv) {
  Options options;
  if (argc <= 1) {
    options.command = Options::Command::print;
    options.text = wrapped_lines(overview(), output_columns());
    return options;
  }
  CCOLL_TRY(check_graph(argc, argv));
  Raw raw;
  CLI::App app("Measures collective operations and checks their results.", "cc-bench");
  app.set_version_flag("--version", fmt::format("cc-bench {}", version()));
  app.add_option("OP", raw.ops, "operations: all_reduce, broadcast, …; a,b; all");
  add_sizes(app, raw, options);
  add_call(app, raw, options);
  add_output(app, options);
  for (const Subcommand& each : subcommands()) {
    app.add_subcommand(std::string(each.name), description(each))->fallthrough();
  }
  auto* explain = app.get_subcommand("explain");
  explain->add_option("OP", options.explain_op, "the operation")->required();
  explain->add_option("BYTES", raw.explain_bytes, "its size, as in the table (64K)")->required();
  explain->add_flag("--measure", options.explain_measured,
                    "run every algorithm, too, and show what it takes beside what was predicted");
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    options.text = help_of(app);
  } catch (const CLI::CallForVersion&) {
    options.text = fmt::format("cc-bench {}\n", version());
  } catch (const CLI::ExtrasError&) {
    return fail(ErrorKind::invalid_argument, "{}", unexpected(app, raw.ops));
  } catch (const CLI::ParseError& error) {
    return fail(ErrorKind::invalid_argument, "{}", error.what());
  }
  if (!options.text.empty()) {
    options.command = Options::Command::print;
    return options;
  }
  for (const Subcommand& each : subcommands()) {
    if (!app.got_subcommand(std::string(each.name))) continue;
    options.command = each.command;
    CCOLL_TRY(check_taken(app, each, options.explain_measured));
  }
  options.sizes.aligned = app.get_option("--stepfactor")->count() == 0 && raw.step.empty();
  const bool measures = options.command == Options::Command::measure;
  if (measures && split_list(raw.ops).empty()) {
    return fail(ErrorKind::invalid_argument, "no operation given: try cc-bench all_reduce -n 4");
  }
  if (!measures && !raw.ops.empty()) {
    return fail(ErrorKind::invalid_argument,
                "'{}' is not expected beside info, matrix, tune or explain", raw.ops);
  }
  return finish(raw, std::move(options));
}

std::vector<std::string> all_algorithms() {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : catalogue()) {
    const std::string_view name = to_string(entry.algorithm);
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  }
  return names;
}

std::vector<int> roots_of(const Options& options, const Operation& operation, int size) {
  if (!operation.rooted) return {0};
  if (options.root) return {*options.root};
  std::vector<int> roots(static_cast<std::size_t>(size));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

std::vector<std::string> algorithms_of(const Options& options, const Operation& operation) {
  const auto there_are = algorithms_of(operation);
  std::vector<std::string> names;
  for (const std::string& name : options.algorithms) {
    if (std::ranges::find(there_are, *parse_algorithm(name)) != there_are.end())
      names.push_back(name);
  }
  return names;
}

Status check_for_size(const Options& options, int size) {
  if (options.root && *options.root >= size) {
    return fail(ErrorKind::invalid_argument, "--root {} does not exist among {} ranks: 0 to {}",
                *options.root, size, size - 1);
  }
  const bool is_tune = options.command == Options::Command::tune;
  if ((options.command == Options::Command::matrix || is_tune) && size < 2) {
    return fail(ErrorKind::invalid_argument,
                "one rank alone has no link to measure: cc-bench {} -n 2",
                is_tune ? "tune" : "matrix");
  }
  if (options.skew_ms > 0 && size < 2) {
    return fail(ErrorKind::invalid_argument,
                "--skew {}: one rank alone waits for nobody: give -n 2 or more", options.skew_ms);
  }
  CCOLL_TRY(check_algorithms(options));
  CCOLL_TRY(check_reductions(options));
  CCOLL_TRY(check_not_shorter(options, size));
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

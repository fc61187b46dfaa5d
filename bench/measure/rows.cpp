// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/rows.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>

#include "algorithms/algorithms.hpp"
#include "bench/command/names.hpp"
#include "bench/measure/links.hpp"
#include "bench/measure/memory.hpp"
#include "bench/measure/trial.hpp"

namespace ccoll::bench {

namespace {

/// "2.5 GiB": approximately.
std::string memory_text(std::uint64_t bytes) {
  constexpr double kMebi = 1 << 20;
  const double mebi = static_cast<double>(bytes) / kMebi;
  if (mebi < 1) return fmt::format("{} bytes", bytes);
  return mebi < 1024 ? fmt::format("{:.0f} MiB", mebi) : fmt::format("{:.1f} GiB", mebi / 1024);
}

/// Everything about a row except its size.
struct Setting {
  const Operation& operation;
  DataType type;
  std::optional<ReduceOp> op;
  int root;
  std::string algorithm;  ///< forced; empty: the model's choice

  CallOptions call_options() const {
    CallOptions call;
    call.algorithm = algorithm;
    return call;
  }
};

class Walk {
 public:
  Walk(Communicator& communicator, const Options& options, RowSink* sink, Gpu* gpu,
       const MemoryLimit& memory)
      : communicator_(communicator), options_(options), sink_(sink), gpu_(gpu), memory_(memory) {
    for (const Operation* operation : options.ops) {
      for (const Setting& setting : settings(*operation))
        all_ += operation->has_data ? sizes_of(setting).size() : 1;
    }
  }

  bool operation(const Operation& operation) {
    if (sink_) sink_->begin_operation(operation, note(operation));
    bool good = true;
    for (const Setting& setting : settings(operation)) {
      good = (operation.has_data ? sizes(setting) : row(setting, nullptr, 0)) && good;
    }
    return good;
  }

 private:
  /// The requested algorithms that these ranks can run: some need several hosts.
  std::vector<std::string> algorithms(const Operation& operation) const {
    std::vector<std::string> names = algorithms_of(options_, operation);
    std::erase_if(names, [&](const std::string& name) {
      return communicator_.algorithm_for(operation.name, 1, options_.types.front(),
                                         {.algorithm = name}) != name;
    });
    return names;
  }

  /// Algorithms vary slowest, so that each one's sizes are adjacent.
  std::vector<Setting> settings(const Operation& operation) const {
    std::vector<std::string> algorithms = this->algorithms(operation);
    if (algorithms.empty() || communicator_.size() == 1) algorithms = {""};
    std::vector<DataType> types = options_.types;
    if (!operation.has_data) types = {DataType::uint8};
    std::vector<std::optional<ReduceOp>> ops(options_.reduce_ops.begin(),
                                             options_.reduce_ops.end());
    if (!operation.reduces) ops = {std::nullopt};
    std::vector<Setting> all;
    for (const std::string& algorithm : algorithms) {
      for (const DataType type : types) {
        for (const std::optional<ReduceOp> op : ops) {
          if (op && !is_defined(*op, type)) continue;
          for (const int root : roots_of(options_, operation, communicator_.size())) {
            all.push_back({operation, type, op, root, algorithm});
          }
        }
      }
    }
    return all;
  }

  std::string note(const Operation& operation) const {
    std::string text;
    if (options_.in_place && operation.has_data) {
      text = operation.has_in_place ? "in place" : "cannot be in place";
    }
    if (!options_.algorithms.empty() && algorithms(operation).empty()) {
      text += fmt::format("{}has no algorithm {} for these ranks", text.empty() ? "" : ", ",
                          joined(options_.algorithms, " or "));
    }
    return text;
  }

  /// The sizes that fit into the host's memory.
  SizeRange range_of(const Setting& setting) const {
    // GPU buffers take no host memory.
    if (gpu_ != nullptr) return options_.sizes;
    return within_memory(options_.sizes, buffers_of(setting), memory_.bytes);
  }

  Buffers buffers_of(const Setting& setting) const {
    return {setting.operation, setting.type, communicator_.size(), memory_.ranks_here,
            options_.in_place};
  }

  std::vector<std::uint64_t> sizes_of(const Setting& setting) const {
    const SizeRange range = range_of(setting);
    const std::uint64_t unit = size_unit(setting.operation, setting.type, communicator_.size());
    if (range.end < std::max(range.begin, unit) && range.end < options_.sizes.end) return {};
    return size_list(range, unit);
  }

  /// Reports omitted sizes, once for each operation.
  void remark_on_memory(const Setting& setting) {
    const SizeRange range = range_of(setting);
    if (range.end == options_.sizes.end || remarked_ == &setting.operation) return;
    remarked_ = &setting.operation;
    const std::uint64_t least = std::max(options_.sizes.begin, std::uint64_t{1});
    if (sizes_of(setting).empty())
      throw Error(
          ErrorKind::exhausted,
          fmt::format("{} of {} bytes takes {} for the buffers of the {} ranks of a host, "
                      "{} {}: give a smaller -b and -e, or fewer ranks",
                      setting.operation.name, short_size(least),
                      memory_text(bytes_on_host(buffers_of(setting), least)), memory_.ranks_here,
                      is_asked() ? "and --max-memory allows" : "which has",
                      memory_text(memory_.bytes)));
    if (!sink_) return;
    sink_->remark(fmt::format(
        "-e is lowered from {} to {}: there is {} of memory for the buffers "
        "of {} rank{} of a host ({})",
        short_size(options_.sizes.end), short_size(range.end), memory_text(memory_.bytes),
        memory_.ranks_here, memory_.ranks_here == 1 ? "" : "s",
        is_asked() ? "--max-memory" : "90 % of what it has left, without --max-memory"));
  }

  /// Whether the limit is the user's, not the host's.
  bool is_asked() const { return options_.max_memory > 0 && memory_.bytes == options_.max_memory; }

  bool sizes(const Setting& setting) {
    remark_on_memory(setting);
    Patterns patterns({setting.type, setting.op, communicator_.size()});
    bool good = true;
    for (const std::uint64_t bytes : sizes_of(setting)) {
      good = row(setting, &patterns, bytes) && good;
    }
    return good;
  }

  bool row(const Setting& setting, Patterns* patterns, std::uint64_t bytes) {
    const Operation& operation = setting.operation;
    const int size = communicator_.size();
    if (sink_) {
      sink_->progress(fmt::format("{} {} {} …", operation.name, short_size(bytes),
                                  operation.has_data ? to_string(setting.type) : ""),
                      done_++, all_);
    }
    Row row;
    row.bytes = bytes;
    row.count = operation.has_data ? count_of(operation, setting.type, size, bytes) : 0;
    row.in_place = options_.in_place && operation.has_in_place && operation.has_data;
    row.fresh = options_.fresh && operation.has_data;
    row.memory = operation.has_data ? options_.memory : "none";
    if (gpu_ != nullptr) {
      row.device = options_.device;
      row.graph_calls = options_.graph_calls;
      if (operation.has_data) row.memory = options_.device;
      // Creating and freeing CUDA objects may wait for all streams of the process. From here until
      // all are ready for their calls, no rank has anything in a stream.
      communicator_.barrier();
      gpu_->free_unused();
    }
    if (operation.has_data) {
      time_data(setting, *patterns, row);
    } else {
      const auto options = options_of_calls(setting);
      const auto put = as_graph([&] { communicator_.barrier(options); }, options_.graph_calls);
      if (gpu_ != nullptr) communicator_.barrier();
      time_calls(operation, row, put, {});
      time_putting(operation, row, put);
      row.wrong = 0;
    }
    describe(setting, row);
    if (sink_) sink_->add(row);
    return row.wrong.value_or(0) == 0;
  }

  void time_data(const Setting& setting, Patterns& patterns, Row& row) {
    const Operation& operation = setting.operation;
    const Shape shape{communicator_.size(), communicator_.rank(), setting.root, row.count};
    const bool registered =
        options_.memory == "registered" || (options_.memory == "mixed" && shape.rank % 2 == 1);
    Trial trial(operation, shape, row.in_place, registered, patterns, gpu_);
    Arguments arguments;
    arguments.input = trial.input();
    arguments.output = trial.output();
    arguments.count = row.count;
    arguments.type = setting.type;
    arguments.op = setting.op.value_or(ReduceOp::sum);
    arguments.root = setting.root;
    arguments.options = options_of_calls(setting);
    const auto begin = [&] { operation.call(communicator_, arguments); };
    const auto put = as_graph(begin, options_.graph_calls);
    const auto call_once = waited_for(options_.graph_calls > 1 ? as_graph(begin, 1) : put);
    if (gpu_ != nullptr) communicator_.barrier();
    std::uint64_t wrong = 0;
    const auto check_one = [&] {
      trial.arm();
      call_once();
      wrong += trial.count_wrong_elems();
    };
    trial.arm();
    const auto between = row.fresh ? std::function<void()>([&] { trial.renew(); }) : nullptr;
    if (options_.first) {
      time_first(operation, row, put, between);
      // Only an input that is unchanged makes the same result each time.
      if (options_.check && !row.in_place) wrong += trial.count_wrong_elems();
    }
    if (options_.check) check_one();
    if (options_.memory != "ordinary") let_peers_map_it(call_once);
    time_calls(operation, row, put, between);
    time_putting(operation, row, put);
    if (!options_.check) return;
    // The timed calls are checked, too, if their input is unchanged. All ranks decide alike, though
    // a rooted operation is in place only at its root.
    if (row.in_place) {
      check_one();
    } else {
      wrong += trial.count_wrong_elems();
    }
    row.wrong = sum_over_ranks(wrong);
  }

  /// The options of `setting`, with the rank's stream if it has one.
  CallOptions options_of_calls(const Setting& setting) const {
    CallOptions options = setting.call_options();
    if (gpu_ != nullptr) options.stream = gpu_->stream();
    return options;
  }

  void time_putting(const Operation& operation, Row& row, const std::function<void()>& put) {
    if (gpu_ == nullptr) return;
    row.put_cpu_us = measure_putting(communicator_, put, [this] { gpu_->wait(); }) /
                     (operation.trips * std::max(1, options_.graph_calls));
  }

  /// A single call, or a graph of `graph_calls` of them if not 0.
  std::function<void()> as_graph(const std::function<void()>& begin, int graph_calls) const {
    if (gpu_ == nullptr || graph_calls == 0) return begin;
    return gpu_->capture([&] {
      for (int i = 0; i < graph_calls; i++) begin();
    });
  }

  /// Adds the wait for the stream, if there is one.
  std::function<void()> waited_for(const std::function<void()>& put) const {
    if (gpu_ == nullptr) return put;
    return [put, gpu = gpu_] {
      put();
      gpu->wait();
    };
  }

  /// Peers' service threads map it beside the calls, which keep all cores busy.
  static void let_peers_map_it(const std::function<void()>& call) {
    call();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  void time_first(const Operation& operation, Row& row, const std::function<void()>& put,
                  const std::function<void()>& between) {
    row.firsts = gpu_ == nullptr
                     ? measure_first(communicator_, put, between)
                     : measure_first(communicator_, [&](std::uint64_t calls, bool singly) {
                         return gpu_->time(calls, singly, put);
                       });
    row.firsts->divide_by(operation.trips * std::max(1, options_.graph_calls));
  }

  void time_calls(const Operation& operation, Row& row, const std::function<void()>& put,
                  const std::function<void()>& between) {
    const auto call = waited_for(put);
    if (gpu_ == nullptr) {
      row.timing = measure(communicator_, options_.effort, call, between);
    } else {
      row.timing = measure(communicator_, options_.effort, [&](std::uint64_t calls, bool singly) {
        return gpu_->time(calls, singly, put);
      });
    }
    row.timing.divide_by(operation.trips * std::max(1, options_.graph_calls));
    if (options_.skew_ms > 0) {
      const RankIs rank = transport() == "inproc" ? RankIs::thread : RankIs::process;
      row.wait_cpu_pct =
          measure_waiting(communicator_, std::chrono::milliseconds(options_.skew_ms), rank, call);
    }
    // Trips cannot overlap, because each follows from the one before it.
    if (options_.overlap && operation.trips == 1)
      row.overlap_ratio = measure_overlap(communicator_, row.timing.usec, call);
  }

  std::uint64_t sum_over_ranks(std::uint64_t value) {
    auto sum = static_cast<std::int64_t>(value);
    communicator_.all_reduce(std::span(&sum, 1));
    return static_cast<std::uint64_t>(sum);
  }

  /// The transports from this rank to the others.
  std::string transport() const {
    const auto names = transports_from(communicator_);
    return names.size() > 1 ? "mixed" : names.empty() ? "" : *names.begin();
  }

  void describe(const Setting& setting, Row& row) const {
    const Operation& operation = setting.operation;
    row.op = operation.name;
    row.ranks = communicator_.size();
    row.type = operation.has_data ? to_string(setting.type) : "none";
    if (setting.op) row.reduce_op = to_string(*setting.op);
    if (operation.rooted) row.root = setting.root;
    row.forced = setting.algorithm;
    row.algorithm =
        row.ranks == 1 || !operation.kind
            ? "none"
            : communicator_.algorithm_for(operation.name, operation.has_data ? row.count : 1,
                                          setting.type, setting.call_options());
    row.transport = row.ranks == 1 ? "none" : transport();
    row.algbw = row.timing.usec > 0 ? double(row.bytes) / row.timing.usec / 1e3 : 0;
    row.busbw = row.algbw * operation.bus_factor(row.ranks);
  }

  Communicator& communicator_;
  const Options& options_;
  RowSink* sink_;
  Gpu* const gpu_;
  const MemoryLimit memory_;
  const Operation* remarked_ = nullptr;  ///< the operation whose memory has been reported
  std::size_t done_ = 0;                 ///< rows
  std::size_t all_ = 0;
};

}  // namespace

KeptRows::KeptRows() : on_terminal_(isatty(STDERR_FILENO) == 1) {}

KeptRows::~KeptRows() {
  if (on_terminal_) fmt::print(stderr, "\r{:60}\r", "");
}

void KeptRows::begin_operation(const Operation& operation, const std::string&) {
  operation_ = &operation;
}

void KeptRows::progress(const std::string& what, std::size_t, std::size_t) {
  if (on_terminal_) fmt::print(stderr, "\r{:<60}", what);
}

void KeptRows::remark(const std::string& text) { fmt::print(stderr, "# {}\n", text); }

void KeptRows::add(Row row) {
  const auto [place, is_new] = places_.try_emplace(row_key(row), rows_.size());
  if (is_new) return rows_.push_back({operation_, std::move(row)});
  double& shortest = rows_[place->second].row.timing.p50_us;
  shortest = std::min(shortest, row.timing.p50_us);
}

std::vector<Measured> measured_of(const std::vector<KeptRows::One>& rows, const CostTable& costs,
                                  int lanes) {
  Forced forced;
  if (lanes > 0) forced.max_lanes = static_cast<std::uint16_t>(lanes);
  std::vector<Measured> measured;
  for (const auto& [operation, row] : rows) {
    forced.algorithm = parse_algorithm(row.algorithm);
    if (!forced.algorithm || row.timing.p50_us <= 0) continue;
    const DataType type = operation->has_data ? parse_types(row.type)->front() : DataType::uint8;
    Measured one;
    one.problem = problem_of(*operation, type, row.ranks, std::max(0, row.root), row.bytes);
    one.elem_bytes = size_of(type);
    one.choice = choose(one.problem, one.elem_bytes, costs, forced).choice;
    if (one.choice.algorithm != *forced.algorithm) continue;
    one.ns = row.timing.p50_us * 1e3;
    measured.push_back(std::move(one));
  }
  return measured;
}

MemoryLimit agree_on_memory(Communicator& communicator, int ranks_here, std::uint64_t asked) {
  // The rest is for the library and for other programs.
  const auto left = available_memory();
  const std::uint64_t most = static_cast<std::uint64_t>(INT64_MAX);
  const std::uint64_t mine = asked > 0 ? asked : left ? *left / 10 * 9 : most;
  std::array<std::int64_t, 2> least = {static_cast<std::int64_t>(std::min(mine, most)),
                                       -std::int64_t{ranks_here}};
  communicator.all_reduce(std::span(least), ReduceOp::min);
  return {static_cast<std::uint64_t>(least[0]), static_cast<int>(-least[1])};
}

bool measure_rows(Communicator& communicator, const Options& options, RowSink* sink, Gpu* gpu,
                  const MemoryLimit& memory) {
  Walk walk(communicator, options, sink, gpu, memory);
  bool good = true;
  for (const Operation* operation : options.ops) good = walk.operation(*operation) && good;
  return good;
}

}  // namespace ccoll::bench

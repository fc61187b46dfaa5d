// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <span>

#include "algorithms/algorithms.hpp"
#include "trial.hpp"

namespace ccoll::bench {

namespace {

/// Everything of a row but its size.
struct Setting {
  const Operation& operation;
  DataType type;
  std::optional<ReduceOp> op;
};

class Walk {
 public:
  Walk(Communicator& communicator, const Options& options, Report* report)
      : communicator_(communicator), options_(options), report_(report) {}

  bool operation(const Operation& operation) {
    if (report_) report_->begin_operation(std::string(operation.name), note(operation));
    if (!operation.has_data) return row({operation, DataType::uint8, std::nullopt}, nullptr, 0);
    bool good = true;
    for (const DataType type : options_.types) {
      if (!operation.reduces) {
        good = sizes({operation, type, std::nullopt}) && good;
        continue;
      }
      for (const ReduceOp op : options_.reduce_ops) good = sizes({operation, type, op}) && good;
    }
    return good;
  }

 private:
  std::string note(const Operation& operation) const {
    std::string text;
    if (options_.in_place) text = operation.has_in_place ? "in place" : "cannot be in place";
    if (!operation.has_data) text.clear();
    if (!options_.algorithm.empty() &&
        (!operation.kind ||
         !find_algorithm(*operation.kind, *parse_algorithm(options_.algorithm)))) {
      text += fmt::format("{}has no algorithm {}", text.empty() ? "" : ", ", options_.algorithm);
    }
    return text;
  }

  bool sizes(const Setting& setting) {
    Patterns patterns({setting.type, setting.op, communicator_.size()});
    const std::uint64_t unit = size_unit(setting.operation, setting.type, communicator_.size());
    bool good = true;
    for (const std::uint64_t bytes : size_list(options_.sizes, unit)) {
      good = row(setting, &patterns, bytes) && good;
    }
    return good;
  }

  bool row(const Setting& setting, Patterns* patterns, std::uint64_t bytes) {
    const Operation& operation = setting.operation;
    const int size = communicator_.size();
    if (report_) {
      report_->progress(fmt::format("{} {} {} …", operation.name, short_size(bytes),
                                    operation.has_data ? to_string(setting.type) : ""));
    }
    Row row;
    row.bytes = bytes;
    row.count = operation.has_data ? count_of(operation, setting.type, size, bytes) : 0;
    row.in_place = options_.in_place && operation.has_in_place && operation.has_data;
    if (operation.has_data) {
      time_data(setting, *patterns, row);
    } else {
      const CallOptions call_options = this->call_options(operation);
      row.timing =
          measure(communicator_, options_.effort, [&] { communicator_.barrier(call_options); });
      row.wrong = 0;
    }
    describe(setting, row);
    if (report_) report_->add(row);
    return row.wrong.value_or(0) == 0;
  }

  void time_data(const Setting& setting, Patterns& patterns, Row& row) {
    const Operation& operation = setting.operation;
    const Shape shape{communicator_.size(), communicator_.rank(), options_.root, row.count};
    Trial trial(operation, shape, row.in_place, patterns);
    Arguments arguments;
    arguments.input = trial.input();
    arguments.output = trial.output();
    arguments.count = row.count;
    arguments.type = setting.type;
    arguments.op = setting.op.value_or(ReduceOp::sum);
    arguments.root = options_.root;
    arguments.options = call_options(operation);
    const auto call = [&] { operation.call(communicator_, arguments); };

    std::uint64_t wrong = 0;
    const auto check_one = [&] {
      trial.arm();
      call();
      wrong += trial.count_wrong_elems();
    };
    trial.arm();
    if (options_.check) check_one();
    row.timing = measure(communicator_, options_.effort, call);
    if (!options_.check) return;
    // The timed calls are checked too where their input is still what it was. All ranks decide
    // alike, though a rooted operation is in place at its root only.
    if (row.in_place) {
      check_one();
    } else {
      wrong += trial.count_wrong_elems();
    }
    row.wrong = sum_over_ranks(wrong);
  }

  std::uint64_t sum_over_ranks(std::uint64_t value) {
    auto sum = static_cast<std::int64_t>(value);
    communicator_.all_reduce(std::span(&sum, 1));
    return static_cast<std::uint64_t>(sum);
  }

  CallOptions call_options(const Operation& operation) const {
    CallOptions call;
    const auto algorithm = parse_algorithm(options_.algorithm);
    if (algorithm && operation.kind && find_algorithm(*operation.kind, *algorithm)) {
      call.algorithm = options_.algorithm;
    }
    return call;
  }

  void describe(const Setting& setting, Row& row) const {
    const Operation& operation = setting.operation;
    row.op = operation.name;
    row.ranks = communicator_.size();
    row.type = operation.has_data ? to_string(setting.type) : "none";
    if (setting.op) row.reduce_op = to_string(*setting.op);
    if (operation.rooted) row.root = options_.root;
    row.algorithm =
        row.ranks == 1 || !operation.kind
            ? "none"
            : communicator_.algorithm_for(operation.name, operation.has_data ? row.count : 1,
                                          setting.type, call_options(operation));
    row.transport =
        row.ranks == 1
            ? "none"
            : communicator_.transport_to((communicator_.rank() + 1) % communicator_.size());
    row.algbw = row.timing.usec > 0 ? double(row.bytes) / row.timing.usec / 1e3 : 0;
    row.busbw = row.algbw * operation.bus_factor(row.ranks);
  }

  Communicator& communicator_;
  const Options& options_;
  Report* report_;
};

}  // namespace

bool measure_rows(Communicator& communicator, const Options& options, Report* report) {
  Walk walk(communicator, options, report);
  bool good = true;
  for (const Operation* operation : options.ops) good = walk.operation(*operation) && good;
  return good;
}

}  // namespace ccoll::bench

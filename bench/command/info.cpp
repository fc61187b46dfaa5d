// SPDX-License-Identifier: Apache-2.0
#include "bench/command/info.hpp"
#include "ccoll/version.hpp"

#include <openssl/crypto.h>
#include <spdlog/version.h>

#include <CLI/Version.hpp>
#include <asio/version.hpp>
#include <nlohmann/json.hpp>

#include "algorithms/algorithms.hpp"
#include "bench/command/copies.hpp"
#include "bench/command/names.hpp"
#include "bench/measure/machine.hpp"
#include "comm/groups/costs.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "kernels/combine.hpp"
#include "kernels/device/launch.hpp"
#include "rendezvous/identity.hpp"
#include "system/variables.hpp"
#include "transport/transport.hpp"

namespace ccoll::bench {

namespace {

std::string line(std::string_view what, const std::string& text) {
  return fmt::format("  {:<12} {}\n", what, text);
}

std::string machine_text() {
  const Machine machine = inspect_machine();
  std::string text = fmt::format("This machine: {}\n", machine.host);
  text += line("processor", machine.processor);
  text +=
      line("cores", machine.cores_usable == machine.cores_online
                        ? fmt::format("{}, all usable", machine.cores_online)
                        : fmt::format("{} usable of {} (affinity mask or control group's quota)",
                                      machine.cores_usable, machine.cores_online));
  text += line("memory", fmt::format("{:.1f} GiB", machine.memory_gib));
  text += line("SIMD", simd_target());
  text += line("open files", fmt::format("{} per process, {} at most", machine.open_files,
                                         machine.open_files_hard));
  std::string_view what = "addresses";
  for (const std::string& address : list_addresses()) {
    text += line(what, address);
    what = "";
  }
  return text;
}

std::string verbs_text() {
  std::string text;
  for (const std::string& each : describe_fabrics())
    text += line(text.empty() ? "verbs" : "", each);
  return text;
}

std::string transport_text() {
  return "Transports\n" +
         line("shm", fmt::format("yes: ranks that are processes of one host; slots of {} MiB per "
                                 "rank (CCOLL_SLOT_MEMORY)",
                                 CommunicatorOptions::from_environment().shm.slot_bytes >> 20)) +
         line("", "read where it lies: " + describe_single_copy()) +
         line("", "huge pages for that: " + describe_huge_pages()) +
         line("tcp", "yes: ranks that are processes, on one host or many") +
         line("inproc", "yes: ranks that are threads of one process") +
         line("GPU kernels", device::describe_cuda()) + verbs_text();
}

/// How libnccl.so.2 takes each of NCCL's variables that is set.
std::string nccl_text() {
  std::string text;
  for (const auto& each : nccl::translated(variables_that_begin_with("NCCL_")).seen)
    text += fmt::format("  {}={}: {}{}{}\n", each.name, each.value, nccl::to_string(each.fate),
                        each.remark.empty() ? "" : ", ", each.remark);
  if (text.empty()) text = "  none is set\n";
  return "NCCL's variables, as libnccl.so.2 takes them\n" + text;
}

std::string operation_text() {
  std::string text = "Algorithms\n";
  for (const Operation& row : operations()) {
    if (!row.kind) {
      text += fmt::format("  {:<17} one message each way\n", row.name);
      continue;
    }
    std::string names;
    for (const Algorithm algorithm : algorithms_of(row)) {
      names += names.empty() ? "" : " ";
      names += to_string(algorithm);
    }
    text += fmt::format("  {:<17} {}\n", row.name, names);
  }
  return text;
}

std::string build_text() {
#if defined(__clang__)
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  std::string text = fmt::format("This build: ccoll {}\n", version());
  text += line("compiler", compiler);
  text +=
      line("made with",
           fmt::format("Asio {}.{}.{}, spdlog {}.{}.{}, fmt {}.{}.{}, Highway {}",
                       ASIO_VERSION / 100000, ASIO_VERSION / 100 % 1000, ASIO_VERSION % 100,
                       SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH, FMT_VERSION / 10000,
                       FMT_VERSION / 100 % 100, FMT_VERSION % 100, CCOLL_HIGHWAY_VERSION));
  text += line("", fmt::format("CLI11 {}, nlohmann-json {}.{}.{}, {}", CLI11_VERSION,
                               NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                               NLOHMANN_JSON_VERSION_PATCH, OpenSSL_version(OPENSSL_VERSION)));
  return text;
}

}  // namespace

std::string info_text() {
  return build_text() + "\n" + machine_text() + "\n" + transport_text() + "\n" + nccl_text() +
         "\n" + operation_text();
}

Options to_explain(const Options& options) {
  Options one = options;
  one.ops = parse_operations(options.explain_op).value_or(std::vector<const Operation*>{});
  std::erase_if(one.ops, [](const Operation* op) { return !op->kind; });
  one.types = {options.types.front()};
  one.reduce_ops = {options.reduce_ops.front()};
  one.algorithms = all_algorithms();
  one.sizes = {.begin = options.explain_bytes, .end = options.explain_bytes};
  one.check = false;
  if (one.effort.iters == 0) one.effort.iters = kBatches * 30;
  return one;
}

Result<std::string> explain_text(const Options& options) {
  const int size = options.ranks.value_or(std::max<int>(2, usable_cores()));
  auto transport = options.transport;
  if (transport.empty()) transport = CommunicatorOptions::from_environment().transport;
  return explain_text(
      options, size,
      {transport.empty() ? "shm" : transport, true, static_cast<double>(usable_cores()) / size},
      {});
}

Result<std::string> explain_text(const Options& options, int size, const LinkKind& kind,
                                 const std::vector<KeptRows::One>& rows) {
  auto ops = parse_operations(options.explain_op, Beside::nothing);
  if (!ops) return tl::unexpected(ops.error());
  if (options.algorithms.size() > 1) {
    return fail(
        ErrorKind::invalid_argument,
        "explain: --algo names {} algorithms: expected one, to see it forced, or none: every "
        "algorithm is shown",
        options.algorithms.size());
  }
  if (options.types.size() > 1 || options.reduce_ops.size() > 1 || !options.root) {
    return fail(ErrorKind::invalid_argument,
                "explain: {} --dtype, {} --op, --root {}: expected one of each, because it answers "
                "for one call",
                options.types.size(), options.reduce_ops.size(),
                options.root ? std::to_string(*options.root) : "all");
  }
  const Tuning tuning = load_tuning();
  const bool copies_count = kind.transport == "shm" && kind.one_host && kind.cores_per_rank >= 1;
  std::string text;
  for (const Operation* op : *ops) {
    if (!op->kind) {
      text += fmt::format("{}: one message each way, no algorithm to choose\n", op->name);
      if (copies_count) text += copies_text(*op, options.explain_bytes);
      continue;
    }
    Options one = options;
    one.ops = {op};
    one.sizes = {};
    CCOLL_TRY(check_for_size(one, size));
    const DataType type = options.types.front();
    const std::uint64_t unit = size_unit(*op, type, size);
    if (op->has_data && options.explain_bytes > 0 && options.explain_bytes < unit) {
      return fail(
          ErrorKind::invalid_argument,
          "{} bytes are less than the smallest call: {} of {} over {} ranks takes multiples "
          "of {} bytes",
          options.explain_bytes, op->name, to_string(type), size, unit);
    }
    const Problem problem =
        problem_of(*op, type, size, options.root.value_or(0), options.explain_bytes);
    Forced forced;
    // The same settings as a communicator of those ranks.
    auto settings = CommunicatorOptions::from_environment();
    if (!options.algorithms.empty()) settings.algorithm = options.algorithms.front();
    if (options.lanes > 0) settings.max_lanes = options.lanes;
    if (!settings.algorithm.empty()) forced.algorithm = parse_algorithm(settings.algorithm);
    if (settings.max_lanes > 0) forced.max_lanes = static_cast<std::uint16_t>(settings.max_lanes);
    const auto costs = costs_over(kind.transport, kind.cores_per_rank, kind.one_host, tuning);
    text += explain(problem, op->has_data ? type : DataType::uint8, costs, forced,
                    measured_of(rows, costs, settings.max_lanes));
    if (copies_count) text += copies_text(*op, options.explain_bytes);
  }
  return text;
}

}  // namespace ccoll::bench

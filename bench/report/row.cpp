// SPDX-License-Identifier: Apache-2.0
#include "bench/report/row.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/command/sizes.hpp"

namespace ccoll::bench {

namespace {

std::string if_any(fmt::format_string<const double&> form, const std::optional<double>& value) {
  return value ? fmt::format(form, *value) : "";
}

}  // namespace

std::string csv_line(const std::string& label, const Row& row) {
  const Timing& t = row.timing;
  return fmt::format(
             "{},{},{},{},{:.2f},{:.3f},{:.3f},{},{},{},{},{},{},{},{},{:.2f},{:.2f},{:.2f},{:.2f},"
             "{},"
             "{:.1f},{},{},{},{},{}",
             label, row.op, row.ranks, row.bytes, t.usec, row.algbw, row.busbw,
             row.wrong ? fmt::format("{}", *row.wrong) : "", row.type, row.reduce_op, row.root,
             row.in_place ? 1 : 0, row.algorithm, row.transport, t.iters, t.min_us, t.p50_us,
             t.p99_us, t.max_us, row.count, t.spread * 100, if_any("{:.2f}", row.baseline_usec),
             if_any("{:.1f}", row.wait_cpu_pct), if_any("{:.2f}", row.overlap_ratio), row.memory,
             row.firsts ? fmt::format("{:.2f},{:.2f}", row.firsts->first_us, row.firsts->early_us)
                        : ",") +
         (row.device.empty()
              ? ""
              : fmt::format(",{},{},{:.2f}", row.device, row.graph_calls, row.put_cpu_us));
}

nlohmann::json row_json(const Row& row) {
  const Timing& t = row.timing;
  nlohmann::json json = {
      {"op", row.op},
      {"ranks", row.ranks},
      {"bytes", row.bytes},
      {"count", row.count},
      {"dtype", row.type},
      {"redop", row.reduce_op},
      {"root", row.root},
      {"in_place", row.in_place},
      {"fresh", row.fresh},
      {"memory", row.memory},
      {"forced_algo", row.forced},
      {"algo", row.algorithm},
      {"transport", row.transport},
      {"iters", t.iters},
      {"usec", t.usec},
      {"min_us", t.min_us},
      {"p50_us", t.p50_us},
      {"p99_us", t.p99_us},
      {"max_us", t.max_us},
      {"spread_pct", t.spread * 100},
      {"algbw_GBps", row.algbw},
      {"busbw_GBps", row.busbw},
      {"batch_us", t.batch_us},
  };
  json["wrong"] = row.wrong ? nlohmann::json(*row.wrong) : nlohmann::json();
  if (!row.device.empty()) {
    json["device"] = row.device;
    json["graph_calls"] = row.graph_calls;
    json["put_cpu_us"] = row.put_cpu_us;
  }
  if (row.baseline_usec) json["baseline_usec"] = *row.baseline_usec;
  if (row.wait_cpu_pct) json["wait_cpu_pct"] = *row.wait_cpu_pct;
  if (row.overlap_ratio) json["overlap_ratio"] = *row.overlap_ratio;
  if (row.firsts) {
    json["first_us"] = row.firsts->first_us;
    json["early_us"] = row.firsts->early_us;
  }
  return json;
}

std::string row_key(const Row& row) {
  std::string key = row.op;
  if (row.type != "none") key += fmt::format(" {} {}", short_size(row.bytes), row.type);
  if (row.reduce_op != "none") key += fmt::format(" {}", row.reduce_op);
  if (row.root >= 0) key += fmt::format(" root {}", row.root);
  if (row.in_place) key += " in place";
  if (row.fresh) key += " fresh";
  if (!row.forced.empty()) key += fmt::format(" by {}", row.forced);
  return key + fmt::format(", {} rank{}", row.ranks, row.ranks == 1 ? "" : "s");
}

std::string figure(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  if (value >= 10) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

}  // namespace ccoll::bench

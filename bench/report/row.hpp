// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One measured row, and its forms for programs: a CSV line and a JSON object. Does not depend on
/// how rows are measured or shown.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "bench/measure/measure.hpp"

namespace ccoll::bench {

struct Row {
  std::string op;
  int ranks = 1;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  ///< in elements, as the call takes it
  std::string type;
  std::string reduce_op = "none";
  int root = -1;  ///< -1: the operation has none
  bool in_place = false;
  bool fresh = false;     ///< with --fresh, and inputs to rewrite
  std::string memory;     ///< of the buffers, according to --memory, or that of `device`
  std::string device;     ///< --device: "cuda"; empty: the host
  int graph_calls = 0;    ///< --graph: calls per graph; 0: none
  double put_cpu_us = 0;  ///< for calls in streams: measure_putting()
  std::string forced;     ///< the algorithm of --algo; empty: left to the cost model
  std::string algorithm;  ///< the one that ran
  std::string transport;
  Timing timing;
  std::optional<FirstCalls> firsts;  ///< with --first, and data
  double algbw = 0;  ///< GB/s, GB = 10^9 bytes
  double busbw = 0;
  std::optional<std::uint64_t> wrong;   ///< empty: unchecked
  std::optional<double> baseline_usec;  ///< this row's time in the file of --baseline
  std::optional<double> wait_cpu_pct;   ///< with --skew: measure_waiting()
  std::optional<double> overlap_ratio;  ///< with --overlap: measure_overlap()
};

inline constexpr const char* kCsvHeader =
    "label,op,ranks,bytes,usec,algbw_GBps,busbw_GBps,wrong,dtype,redop,root,in_place,algo,"
    "transport,iters,min_us,p50_us,p99_us,max_us,count,spread_pct,baseline_usec,wait_cpu_pct,"
    "overlap_ratio,memory,first_us,early_us";

/// Further columns if buffers are a device's.
inline constexpr const char* kCsvDeviceHeader = ",device,graph_calls,put_cpu_us";

std::string csv_line(const std::string& label, const Row& row);
nlohmann::json row_json(const Row& row);

/// Identifies a row across runs: "all_reduce 64K float32 sum, 4 ranks". It excludes transport and
/// memory, because some baselines serve to compare two of them.
std::string row_key(const Row& row);

/// Four significant digits, down to thousandths: 0.003, 12.34, 1235.
std::string figure(double value);

}  // namespace ccoll::bench

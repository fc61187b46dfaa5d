// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-bench matrix`: latency and bandwidth of every pair of ranks, one pair at a time, and the
/// links that stand out.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ccoll/communicator.hpp"

namespace ccoll::bench {

/// A link is slow if it is this many times worse than the median of its kind.
inline constexpr double kSlowFactor = 1.5;

/// A figure for each ordered pair of ranks; the diagonal has no meaning.
struct PairTable {
  int size = 0;
  std::vector<double> values = {};

  explicit PairTable(int ranks) : size(ranks), values(std::size_t(ranks) * std::size_t(ranks)) {}
  double& at(int from, int to) {
    return values[std::size_t(from) * std::size_t(size) + std::size_t(to)];
  }
  double at(int from, int to) const {
    return values[std::size_t(from) * std::size_t(size) + std::size_t(to)];
  }
};

struct SlowLink {
  int from;
  int to;
  double value;
  double typical;  ///< median over links of the same kind
};

struct Matrix {
  explicit Matrix(int size) : hosts(std::size_t(size)), latency_us(size), bandwidth(size) {}

  std::vector<std::int64_t> hosts;  ///< equal for ranks of one host
  std::uint64_t bytes = 0;          ///< per message for the bandwidth
  PairTable latency_us;             ///< half the round trip of 8 bytes: the same both ways
  PairTable bandwidth;              ///< GB/s from one to the other
};

/// The outliers of `table` among the links inside hosts, or among those between hosts. Kinds of
/// fewer than three links have no meaningful median.
std::vector<SlowLink> find_slow(const PairTable& table, const std::vector<std::int64_t>& hosts,
                                bool more_is_better);

/// Collective: every rank gets the same. Outliers are measured twice more and their best counts, so
/// that a moment's disturbance does not pass for a bad cable.
Matrix measure_matrix(Communicator& communicator, std::uint64_t bytes);

/// Two tables, slow cells marked with '!' and named below.
std::string matrix_text(const Matrix& matrix);
nlohmann::json matrix_json(const Matrix& matrix);

}  // namespace ccoll::bench

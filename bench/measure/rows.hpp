// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's walk through all requested rows.

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "bench/command/options.hpp"
#include "bench/measure/gpu.hpp"
#include "bench/report/row.hpp"
#include "ccoll/communicator.hpp"

namespace ccoll::bench {

/// Receives the rows on rank 0 as they are measured.
class RowSink {
 public:
  virtual ~RowSink() = default;
  /// Called before an operation's rows.
  virtual void begin_operation(const Operation& operation, const std::string& note) = 0;
  /// `what` is being measured; `done` of `all` rows are complete.
  virtual void progress(const std::string& what, std::size_t done, std::size_t all) = 0;
  /// `text` reports a measurement that differs from the request.
  virtual void remark(const std::string& text) = 0;
  virtual void add(Row row) = 0;
};

/// Keeps the measurements, and shows progress if standard error is a terminal. If a row is measured
/// again, the shortest p50 counts.
class KeptRows final : public RowSink {
 public:
  KeptRows();
  ~KeptRows() override;
  KeptRows(const KeptRows&) = delete;
  KeptRows& operator=(const KeptRows&) = delete;
  void begin_operation(const Operation& operation, const std::string& note) override;
  void progress(const std::string& what, std::size_t done, std::size_t all) override;
  void remark(const std::string& text) override;
  void add(Row row) override;

  struct One {
    const Operation* operation;
    Row row;
  };
  const std::vector<One>& all() const { return rows_; }

 private:
  const bool on_terminal_;
  const Operation* operation_ = nullptr;
  std::vector<One> rows_;
  std::unordered_map<std::string, std::size_t> places_;  ///< in rows_, by row_key()
};

/// The rows as the cost model sees them. The calls were planned with `costs` and at most `lanes`
/// (0: any number).
std::vector<Measured> measured_of(const std::vector<KeptRows::One>& rows, const CostTable& costs,
                                  int lanes);

/// How much memory rows may use on each host, the same on every rank.
struct MemoryLimit {
  std::uint64_t bytes = UINT64_MAX;
  int ranks_here = 1;  ///< the most ranks on a host
};

/// Collective. `ranks_here` share this rank's host; `asked`, if not 0, replaces the host's free
/// memory.
MemoryLimit agree_on_memory(Communicator& communicator, int ranks_here, std::uint64_t asked);

/// Collective. `sink` is null except on rank 0; `gpu` holds this rank's buffers, on every rank or
/// on none. Returns false on all ranks if any rank found a wrong element. Throws ccoll::Error if a
/// call fails.
bool measure_rows(Communicator& communicator, const Options& options, RowSink* sink,
                  Gpu* gpu = nullptr, const MemoryLimit& memory = {});

}  // namespace ccoll::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which ranks have come to a start-up, as one of them knows it: the rows of its subtree, then
/// those of all ranks, and the peers that it has yet to meet. Rows go up the tree once a subtree is
/// complete, and come back as a table. Knows nothing of connections.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/wire.hpp"

namespace ccoll::control {

class Roster {
 public:
  /// `rank0_text` counts if this is rank 0.
  Roster(std::uint32_t rank, std::uint32_t size, const Row& own, std::string rank0_text);

  /// A rank that has not come has the nonce 0.
  const Row& operator[](std::uint32_t rank) const { return rows_[rank]; }
  const std::vector<Row>& rows() const { return rows_; }
  const std::string& rank0_text() const { return rank0_text_; }
  /// The row of a rank that has called, or was called.
  void set(std::uint32_t rank, const Row& row) { rows_[rank] = row; }
  /// Whether the process is one of the known ranks.
  bool has_process(std::uint64_t process) const;

  /// There is a connection to the peer.
  void met(std::uint32_t peer) { unmet_.erase(peer); }
  const std::set<std::uint32_t>& unmet() const { return unmet_; }
  /// The children whose subtree is not complete.
  const std::set<std::uint32_t>& unreported() const { return unreported_; }

  /// The rows of a child's subtree have come.
  Status take_rows(std::uint32_t child, std::string_view body);
  /// Whether this rank's subtree is complete, and nobody has heard of it.
  bool is_report_due() const { return unreported_.empty() && !reported_ && !complete_; }
  /// The rows of this rank's subtree, for its parent.
  std::vector<Row> report();
  /// The table has come from the parent.
  Status take_table(std::uint32_t parent, std::string_view body);
  /// Rank 0's own rows are the table once its subtree is complete.
  void complete() { complete_ = true; }
  bool is_complete() const { return complete_; }

 private:
  const std::uint32_t rank_;
  const std::uint32_t size_;
  std::vector<Row> rows_;  ///< by rank; kept to call ranks further away
  std::string rank0_text_;
  std::set<std::uint32_t> unreported_;
  std::set<std::uint32_t> unmet_;
  bool reported_ = false;
  bool complete_ = false;
};

}  // namespace ccoll::control

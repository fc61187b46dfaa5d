// SPDX-License-Identifier: Apache-2.0
#include "control/state/roster.hpp"

#include <algorithm>
#include <utility>

#include "control/control.hpp"
#include "control/tree.hpp"

namespace ccoll::control {

Roster::Roster(std::uint32_t rank, std::uint32_t size, const Row& own, std::string rank0_text)
    : rank_(rank), size_(size), rows_(size), rank0_text_(std::move(rank0_text)) {
  CCOLL_CHECK(rank0_text_.size() <= kMaxRank0Text, "the text of rank 0 has {} bytes",
              rank0_text_.size());
  CCOLL_CHECK(rank_ < size_, "rank {}, size {}", rank_, size_);
  rows_[rank_] = own;
  for (const std::uint32_t child : children_of(rank_, size_)) unreported_.insert(child);
  unmet_ = unreported_;
  if (rank_ != 0) unmet_.insert(parent_of(rank_));
  if (size_ > 1) unmet_.insert({successor_of(rank_, size_), predecessor_of(rank_, size_)});
}

bool Roster::has_process(std::uint64_t process) const {
  return std::ranges::any_of(rows_, [&](const Row& row) { return row.address.process == process; });
}

Status Roster::take_rows(std::uint32_t child, std::string_view body) {
  if (!unreported_.contains(child)) return fail(ErrorKind::corrupt, "rows that were not asked for");
  const std::vector<std::uint32_t> ranks = subtree_of(child, size_);
  const auto rows = decode_rows(body, ranks.size());
  if (!rows) return fail(ErrorKind::corrupt, "malformed rows of its subtree");
  for (std::size_t i = 0; i < ranks.size(); ++i) rows_[ranks[i]] = (*rows)[i];
  unreported_.erase(child);
  return {};
}

std::vector<Row> Roster::report() {
  std::vector<Row> rows;
  for (const std::uint32_t rank : subtree_of(rank_, size_)) rows.push_back(rows_[rank]);
  reported_ = true;
  return rows;
}

Status Roster::take_table(std::uint32_t parent, std::string_view body) {
  if (rank_ == 0 || parent != parent_of(rank_) || !reported_ || complete_)
    return fail(ErrorKind::corrupt, "a table that was not asked for");
  auto table = decode_table(body, size_);
  if (!table || table->rows[rank_] != rows_[rank_])
    return fail(ErrorKind::corrupt, "a malformed table");
  rows_ = std::move(table->rows);
  rank0_text_ = std::move(table->rank0_text);
  complete_ = true;
  return {};
}

}  // namespace ccoll::control

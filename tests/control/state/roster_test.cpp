// SPDX-License-Identifier: Apache-2.0
#include "control/state/roster.hpp"

#include <catch2/catch.hpp>

namespace ccoll::control {
namespace {

Row row_of(std::uint32_t rank) {
  Row row;
  row.address.process = 100 + rank;
  row.nonce = 1 + rank;
  return row;
}

std::string rows_of(const std::vector<std::uint32_t>& ranks) {
  std::vector<Row> rows;
  for (const std::uint32_t rank : ranks) rows.push_back(row_of(rank));
  const std::string frame = encode_rows(rows);
  return std::string(parse(frame.substr(4))->body);
}

TEST_CASE("roster: a rank reports once, when the subtrees of its children are complete", "[unit]") {
  Roster roster(1, 6, row_of(1), "");
  CHECK(roster.unreported() == std::set<std::uint32_t>{3, 4});
  CHECK(roster.unmet() == std::set<std::uint32_t>{0, 2, 3, 4});
  CHECK_FALSE(roster.is_report_due());
  CHECK_FALSE(roster.take_rows(2, rows_of({2, 5})));
  CHECK_FALSE(roster.take_rows(3, rows_of({3, 4})));
  CHECK(roster.take_rows(3, rows_of({3})));
  CHECK_FALSE(roster.take_rows(3, rows_of({3})));
  CHECK_FALSE(roster.is_report_due());
  CHECK(roster.take_rows(4, rows_of({4})));
  REQUIRE(roster.is_report_due());
  CHECK(roster.report() == std::vector<Row>{row_of(1), row_of(3), row_of(4)});
  CHECK_FALSE(roster.is_report_due());
  CHECK(roster.has_process(104));
  CHECK_FALSE(roster.has_process(105));
}

TEST_CASE("roster: a table counts only from the parent, after the report, with this rank's row",
          "[unit]") {
  const auto table_of = [](const Row& second) {
    const std::string frame = encode_table({row_of(0), second, row_of(2)}, "text");
    return std::string(parse(frame.substr(4))->body);
  };
  Roster roster(1, 3, row_of(1), "");
  CHECK_FALSE(roster.take_table(0, table_of(row_of(1))));
  roster.report();
  CHECK_FALSE(roster.take_table(2, table_of(row_of(1))));
  CHECK_FALSE(roster.take_table(0, table_of(row_of(7))));
  CHECK_FALSE(roster.is_complete());
  CHECK(roster.take_table(0, table_of(row_of(1))));
  CHECK(roster.is_complete());
  CHECK(roster.rank0_text() == "text");
  CHECK(roster[2] == row_of(2));
  CHECK_FALSE(roster.take_table(0, table_of(row_of(1))));
}

TEST_CASE("roster: a rank that is alone has everyone", "[unit]") {
  Roster roster(0, 1, row_of(0), "text");
  CHECK(roster.is_report_due());
  roster.complete();
  CHECK(roster.unmet().empty());
  CHECK_FALSE(roster.is_report_due());
}

}  // namespace
}  // namespace ccoll::control

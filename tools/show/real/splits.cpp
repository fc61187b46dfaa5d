// SPDX-License-Identifier: Apache-2.0
#include "show/real/splits.hpp"

#include <fmt/format.h>

#include <charconv>
#include <numeric>

#include "bench/command/names.hpp"
#include "core/text.hpp"

namespace ccoll::show {

namespace {

/// For one block, so that no sum overflows; far more than can be shown.
constexpr std::uint64_t kMostInBlock = std::uint64_t{1} << 40;

std::uint64_t sum(const std::vector<std::uint64_t>& row) {
  return std::accumulate(row.begin(), row.end(), std::uint64_t{0});
}

/// One list of sizes, like "1,2,0".
Result<std::vector<std::uint64_t>> row_of(const std::string& all, std::string_view text, int size) {
  std::vector<std::uint64_t> row;
  for (const std::string& word : bench::split_list(text)) {
    std::uint64_t elems = 0;
    const char* const end = word.data() + word.size();
    const auto [stopped, error] = std::from_chars(word.data(), end, elems);
    if (error != std::errc() || stopped != end || elems > kMostInBlock)
      return fail(ErrorKind::invalid_argument,
                  "--splits {}: '{}' is not a number of elements (0 to {})", all, word,
                  kMostInBlock);
    row.push_back(elems);
  }
  if (row.size() != static_cast<std::size_t>(size))
    return fail(ErrorKind::invalid_argument,
                "--splits {}: {} numbers in '{}', expected one for each of {} ranks", all,
                row.size(), text, size);
  return row;
}

/// Consecutive blocks; null if a rank has no such buffer.
template <typename AnyBlock, typename Byte>
std::vector<AnyBlock> cut(Byte* data, const std::vector<std::uint64_t>& row, DataType type) {
  std::vector<AnyBlock> blocks;
  for (const std::uint64_t elems : row) {
    blocks.emplace_back(data, elems, type);
    if (data != nullptr) data += elems * size_of(type);
  }
  return blocks;
}

}  // namespace

Result<Splits> Splits::of(const bench::Operation& operation, const std::string& text, int size) {
  Splits splits(operation);
  if (text.empty()) {
    splits.rows_.emplace_back(static_cast<std::size_t>(size));
    std::iota(splits.rows_.front().begin(), splits.rows_.front().end(), 1);
    return splits;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    auto row = row_of(text, std::string_view(text).substr(begin, end - begin), size);
    CCOLL_TRY(row);
    splits.rows_.push_back(std::move(*row));
    begin = end + 1;
  }
  const std::size_t rows = splits.rows_.size();
  if (rows == 1) return splits;
  if (*operation.kind != Kind::all_to_all)
    return fail(ErrorKind::invalid_argument,
                "--splits {}: {} lists, expected one; only all_to_all_v has one for each sender",
                text, rows);
  if (rows != static_cast<std::size_t>(size))
    return fail(ErrorKind::invalid_argument,
                "--splits {}: {} lists, expected one, or one for each of {} ranks", text, rows,
                size);
  return splits;
}

const Splits::Row& Splits::sent_by(int rank) const {
  return rows_[rows_.size() == 1 ? 0 : static_cast<std::size_t>(rank)];
}

Splits::Row Splits::received_by(int rank) const {
  Row row;
  for (int from = 0; from < static_cast<int>(rows_.front().size()); ++from)
    row.push_back(sent_by(from)[static_cast<std::size_t>(rank)]);
  return row;
}

std::uint64_t Splits::input_elems(int rank, int root) const {
  const Row& row = sent_by(rank);
  switch (*operation_->kind) {
    case Kind::all_gather:
    case Kind::gather:
      return row[static_cast<std::size_t>(rank)];
    case Kind::scatter:
      return rank == root ? sum(row) : 0;
    default:
      return sum(row);
  }
}

std::uint64_t Splits::output_elems(int rank, int root) const {
  switch (*operation_->kind) {
    case Kind::all_gather:
      return sum(rows_.front());
    case Kind::gather:
      return rank == root ? sum(rows_.front()) : 0;
    case Kind::all_to_all:
      return sum(received_by(rank));
    default:
      return rows_.front()[static_cast<std::size_t>(rank)];
  }
}

std::uint64_t Splits::mean() const { return sum(rows_.front()) / rows_.front().size(); }

std::string Splits::text() const {
  std::string text;
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += fmt::format("{}{}", i > 0 ? "," : text.empty() ? "" : "/", row[i]);
  }
  return text;
}

void Splits::call(Communicator& c, const bench::Arguments& a) const {
  const auto* const in = static_cast<const std::byte*>(a.input);
  auto* const out = static_cast<std::byte*>(a.output);
  const Row& row = sent_by(c.rank());
  const std::uint64_t own = row[static_cast<std::size_t>(c.rank())];
  switch (*operation_->kind) {
    case Kind::all_gather:
      return c.all_gather_v({in, own, a.type}, cut<Block>(out, row, a.type), a.options);
    case Kind::gather:
      return c.gather_v({in, own, a.type}, cut<Block>(out, row, a.type), a.root, a.options);
    case Kind::reduce_scatter:
      return c.reduce_scatter_v(cut<ConstBlock>(in, row, a.type), {out, own, a.type}, a.op,
                                a.options);
    case Kind::scatter:
      return c.scatter_v(cut<ConstBlock>(in, row, a.type), {out, own, a.type}, a.root, a.options);
    default:
      return c.all_to_all_v(cut<ConstBlock>(in, row, a.type),
                            cut<Block>(out, received_by(c.rank()), a.type), a.options);
  }
}

}  // namespace ccoll::show

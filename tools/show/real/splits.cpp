// SPDX-License-Identifier: Apache-2.0
#include "show/real/splits.hpp"

#include <fmt/format.h>

#include <algorithm>
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

/// Consecutive blocks, or with `rows` columns of one matrix; null if a rank has no such buffer.
template <typename AnyBlock, typename Byte>
std::vector<AnyBlock> cut(Byte* data, const std::vector<std::uint64_t>& row, DataType type,
                          std::optional<std::uint64_t> rows) {
  const std::uint64_t stride = sum(row);
  std::vector<AnyBlock> blocks;
  for (const std::uint64_t elems : row) {
    if (rows)
      blocks.emplace_back(data, *rows * elems, type, elems, stride);
    else
      blocks.emplace_back(data, elems, type);
    if (data != nullptr) data += elems * size_of(type);
  }
  return blocks;
}

}  // namespace

Result<Splits> Splits::of(const bench::Operation& operation, const std::string& text, int size,
                          std::optional<std::uint64_t> rows) {
  Splits splits(operation, rows);
  if (text.empty()) {
    splits.lists_.emplace_back(static_cast<std::size_t>(size));
    std::iota(splits.lists_.front().begin(), splits.lists_.front().end(), 1);
    return splits;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    auto row = row_of(text, std::string_view(text).substr(begin, end - begin), size);
    CCOLL_TRY(row);
    splits.lists_.push_back(std::move(*row));
    begin = end + 1;
  }
  const std::size_t lists = splits.lists_.size();
  if (lists == 1) return splits;
  if (*operation.kind != Kind::all_to_all)
    return fail(ErrorKind::invalid_argument,
                "--splits {}: {} lists, expected one; only all_to_all_v has one for each sender",
                text, lists);
  if (lists != static_cast<std::size_t>(size))
    return fail(ErrorKind::invalid_argument,
                "--splits {}: {} lists, expected one, or one for each of {} ranks", text, lists,
                size);
  return splits;
}

const Splits::Row& Splits::sent_by(int rank) const {
  return lists_[lists_.size() == 1 ? 0 : static_cast<std::size_t>(rank)];
}

Splits::Row Splits::received_by(int rank) const {
  Row row;
  for (int from = 0; from < static_cast<int>(lists_.front().size()); ++from)
    row.push_back(sent_by(from)[static_cast<std::size_t>(rank)]);
  return row;
}

std::uint64_t Splits::input_elems(int rank, int root) const {
  const Row& row = sent_by(rank);
  switch (*operation_->kind) {
    case Kind::all_gather:
    case Kind::gather:
      return unit() * row[static_cast<std::size_t>(rank)];
    case Kind::scatter:
      return rank == root ? unit() * sum(row) : 0;
    default:
      return unit() * sum(row);
  }
}

std::uint64_t Splits::output_elems(int rank, int root) const {
  switch (*operation_->kind) {
    case Kind::all_gather:
      return unit() * sum(lists_.front());
    case Kind::gather:
      return rank == root ? unit() * sum(lists_.front()) : 0;
    case Kind::all_to_all:
      return unit() * sum(received_by(rank));
    default:
      return unit() * lists_.front()[static_cast<std::size_t>(rank)];
  }
}

std::uint64_t Splits::mean() const { return unit() * sum(lists_.front()) / lists_.front().size(); }

std::string Splits::text() const {
  std::string text;
  for (const Row& row : lists_) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += fmt::format("{}{}", i > 0 ? "," : text.empty() ? "" : "/", row[i]);
  }
  return text;
}

std::optional<std::uint64_t> Splits::same_for_all() const {
  const std::uint64_t first = lists_.front().front();
  const auto is_first = [&](std::uint64_t each) { return each == first; };
  for (const Row& row : lists_)
    if (!std::ranges::all_of(row, is_first)) return {};
  return first;
}

void Splits::call(Communicator& c, const bench::Arguments& a) const {
  const auto* const in = static_cast<const std::byte*>(a.input);
  auto* const out = static_cast<std::byte*>(a.output);
  const Row& row = sent_by(c.rank());
  const std::uint64_t own = unit() * row[static_cast<std::size_t>(c.rank())];
  const auto outputs = [&](const Row& sizes) { return cut<Block>(out, sizes, a.type, rows_); };
  const auto inputs = [&] { return cut<ConstBlock>(in, row, a.type, rows_); };
  switch (*operation_->kind) {
    case Kind::all_gather:
      return c.all_gather_v({in, own, a.type}, outputs(row), a.options);
    case Kind::gather:
      return c.gather_v({in, own, a.type}, outputs(row), a.root, a.options);
    case Kind::reduce_scatter:
      return c.reduce_scatter_v(inputs(), {out, own, a.type}, a.op, a.options);
    case Kind::scatter:
      return c.scatter_v(inputs(), {out, own, a.type}, a.root, a.options);
    default:
      return c.all_to_all_v(inputs(), outputs(received_by(c.rank())), a.options);
  }
}

}  // namespace ccoll::show

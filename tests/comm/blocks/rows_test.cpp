// SPDX-License-Identifier: Apache-2.0
// Blocks whose rows have gaps between them: columns of a matrix.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "comm/on_transports.hpp"
#include "support/effort.hpp"

using namespace ccoll;
using testing::expect;

namespace {

using Value = std::int32_t;
constexpr Value kGap = -1;

/// Elements in rows of a random length with random gaps between them, or without.
class Rows {
 public:
  Rows(std::vector<Value> values, std::mt19937_64& random) : count_(values.size()) {
    if (count_ > 0 && random() % 4 != 0) {
      std::vector<std::size_t> lengths;
      for (std::size_t each = 1; each <= count_; each++)
        if (count_ % each == 0) lengths.push_back(each);
      row_ = lengths[random() % lengths.size()];
      stride_ = row_ + random() % 5;
    }
    memory_.assign(row_ == 0 ? count_ : count_ / row_ * stride_, kGap);
    for (std::size_t i = 0; i < count_; i++) memory_[place(i)] = values[i];
  }

  Block block() { return {memory_.data(), count_, DataType::int32, row_, stride_}; }
  bool holds(const std::vector<Value>& values) const {
    auto wanted = std::vector<Value>(memory_.size(), kGap);
    for (std::size_t i = 0; i < count_; i++) wanted[place(i)] = values[i];
    return memory_ == wanted;
  }

 private:
  std::size_t place(std::size_t i) const { return row_ == 0 ? i : i / row_ * stride_ + i % row_; }

  std::size_t count_;
  std::size_t row_ = 0, stride_ = 0;
  std::vector<Value> memory_;
};

std::vector<Value> numbers(std::size_t count, Value first) {
  std::vector<Value> values(count);
  for (auto& value : values) value = first++;
  return values;
}

/// Some elements, or so many that they travel in several slices.
std::size_t some(std::mt19937_64& random) {
  return random() % 8 == 0 ? 40'000 + random() % 50'000 : random() % 200;
}

/// The value that rank `from` has for rank `to` in these tests.
Value first_of(int from, int to) { return (from * 16 + to) * 100'000; }

std::vector<Value> joined(int size, const std::function<std::vector<Value>(int)>& part) {
  std::vector<Value> all;
  for (int r = 0; r < size; r++) {
    const auto values = part(r);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<Value> summed(int size, std::size_t count, int to) {
  std::vector<Value> sum(count, 0);
  for (int from = 0; from < size; from++)
    for (std::size_t i = 0; i < count; i++) sum[i] += first_of(from, to) + static_cast<Value>(i);
  return sum;
}

}  // namespace

TEST_CASE("rows: every collective takes them on either side", "[comm][property]") {
  const int size = GENERATE(1, 2, 3, 4);
  const auto seed = Catch::rngSeed();
  CAPTURE(size, seed);
  testing::on_all_transports(size, [&](Communicator& world) {
    const int me = world.rank();
    std::mt19937_64 shared(seed);  // the same on all ranks
    std::mt19937_64 own(seed + static_cast<unsigned>(me) + 1);
    for (int round = 0; round < testing::by_effort(4, 20, 60); round++) {
      const auto count = some(shared);
      const int root = static_cast<int>(shared() % static_cast<unsigned>(size));
      const auto part = [&](int from, int to) { return numbers(count, first_of(from, to)); };
      const auto from_me = joined(size, [&](int to) { return part(me, to); });
      const auto to_me = joined(size, [&](int from) { return part(from, me); });
      const auto empty = [&](std::size_t elems) { return std::vector<Value>(elems, 0); };
      const auto all = count * static_cast<std::size_t>(size);

      Rows mine(part(me, 0), own), out(empty(count), own), whole(empty(all), own);
      world.all_reduce(mine.block(), out.block());
      expect(out.holds(summed(size, count, 0)), "all_reduce");
      Rows in_place(part(me, 0), own);
      world.all_reduce(in_place.block());
      expect(in_place.holds(summed(size, count, 0)), "all_reduce in place");
      Rows reduced(empty(count), own);
      world.reduce(mine.block(), reduced.block(), ReduceOp::sum, root);
      expect(reduced.holds(me == root ? summed(size, count, 0) : empty(count)), "reduce");
      Rows sent(part(root, 0), own);
      if (me != root) sent = Rows(empty(count), own);
      world.broadcast(sent.block(), root);
      expect(sent.holds(part(root, 0)), "broadcast");
      world.all_gather(mine.block(), whole.block());
      expect(whole.holds(joined(size, [&](int from) { return part(from, 0); })), "all_gather");
      Rows parts(from_me, own), scattered(empty(count), own);
      world.reduce_scatter(parts.block(), scattered.block());
      expect(scattered.holds(summed(size, count, me)), "reduce_scatter");
      Rows exchanged(empty(all), own);
      world.all_to_all(parts.block(), exchanged.block());
      expect(exchanged.holds(to_me), "all_to_all");
      Rows collected(empty(all), own);
      world.gather(mine.block(), collected.block(), root);
      expect(collected.holds(me == root ? joined(size, [&](int from) { return part(from, 0); })
                                        : empty(all)),
             "gather");
      Rows given(empty(count), own);
      world.scatter(parts.block(), given.block(), root);
      expect(given.holds(part(root, me)), "scatter");

      Rows first(part(me, 0), own), second(part(me, 1), own);
      world.all_reduce(std::vector{BufferPair(first.block()), BufferPair(second.block())});
      expect(first.holds(summed(size, count, 0)) && second.holds(summed(size, count, 1)),
             "all_reduce of several buffers");
    }
  });
}

TEST_CASE("rows: so do messages", "[comm][property]") {
  const int size = GENERATE(2, 3);
  const auto seed = Catch::rngSeed();
  CAPTURE(size, seed);
  testing::on_all_transports(size, [&](Communicator& world) {
    const int me = world.rank(), next = (me + 1) % size, last = (me + size - 1) % size;
    std::mt19937_64 shared(seed);
    std::mt19937_64 own(seed + static_cast<unsigned>(me) + 1);
    for (int round = 0; round < testing::by_effort(8, 40, 120); round++) {
      const auto count = some(shared);
      const bool is_late = own() % 2 == 0;
      Rows out(numbers(count, first_of(me, next)), own), in(std::vector<Value>(count, 0), own);
      auto sent = world.send_async(out.block(), next, 3);
      if (is_late) world.barrier();
      const auto got = world.recv(in.block(), last, 3);
      if (!is_late) world.barrier();
      sent.wait();
      expect(got.count == count, "the number of elements");
      expect(in.holds(numbers(count, first_of(last, me))), "recv");
      expect(out.holds(numbers(count, first_of(me, next))), "send leaves its memory as it was");
    }
  });
}

TEST_CASE("rows: every type and reduction, in place and asynchronous", "[comm]") {
  testing::on_all_transports(3, [](Communicator& world) {
    const int me = world.rank(), size = world.size();
    const auto sums = [&]<typename T>(T, std::size_t rows) {
      std::vector<T> matrix(rows * 3, T(me + 1));
      const auto column = columns(matrix, rows, {1, 2});
      auto begun = world.all_reduce_async(column[0]);
      begun.wait();
      world.all_reduce(column[1], ReduceOp::max);
      for (std::size_t at = 0; at < matrix.size(); at++)
        expect(matrix[at] == T(at % 3 == 0 ? 6 : 3), "a sum and a maximum in place");
    };
    for (const std::size_t rows : {5UL, 20'000UL}) {
      sums(std::int8_t{}, rows);
      sums(std::uint16_t{}, rows);
      sums(float{}, rows);
      sums(double{}, rows);
    }
    // 0.5, 1 and 1.5 as float16.
    std::vector<std::uint16_t> halves(3 * 7'000, me == 0 ? 0x3800 : me == 1 ? 0x3c00 : 0x3e00);
    world.all_reduce(Block(halves.data(), 2 * 7'000, DataType::float16, 2, 3), ReduceOp::avg);
    for (std::size_t at = 0; at < halves.size(); at++)
      expect(at % 3 == 2 || halves[at] == 0x3c00, "an average of float16");
    std::vector<float> factors(4 * 5'000, 1);
    const Block middle(&factors[1], 2 * 5'000, DataType::float32, 2, 4);
    world.all_reduce(middle, Reduction::premultiplied_sum(2.0));
    const auto add = [](const void* in, void* inout, std::size_t count, DataType) {
      const auto* const from = static_cast<const float*>(in);
      auto* const to = static_cast<float*>(inout);
      for (std::size_t i = 0; i < count; i++) to[i] += from[i];
    };
    world.all_reduce(middle, Reduction::custom(add, {.name = "add"}));
    for (std::size_t at = 0; at < factors.size(); at++)
      expect(factors[at] == (at % 4 == 1 || at % 4 == 2 ? 18.0F : 1.0F), "other reductions");

    // A rank's own rows are where they belong in the whole.
    const auto n = static_cast<std::size_t>(size);
    std::vector<Value> whole(2 * 30 * n, kGap);
    const auto part = [&](int rank, std::vector<Value>& of) {
      return Block(&of[60 * static_cast<std::size_t>(rank)], 30, DataType::int32, 1, 2);
    };
    const Block all(whole.data(), 30 * n, DataType::int32, 1, 2);
    for (std::size_t i = 0; i < 30; i++)
      whole[60 * static_cast<std::size_t>(me) + 2 * i] = 100 * me;
    world.all_gather(part(me, whole), all);
    for (std::size_t at = 0; at < whole.size(); at++)
      expect(whole[at] == (at % 2 == 1 ? kGap : 100 * static_cast<Value>(at / 60)), "all_gather");
    world.reduce_scatter(all, part(me, whole));
    for (std::size_t i = 0; i < 30; i++)
      expect(whole[60 * static_cast<std::size_t>(me) + 2 * i] == 100 * me * size, "reduce_scatter");
    // With rows and without by turns: what is kept of one call serves no other.
    for (int call = 0; call < 80; call++) {
      std::vector<Value> plain(30, me), gaps(60, me);
      world.broadcast(plain, 1);
      world.broadcast(Block(gaps.data(), 30, DataType::int32, 1, 2), 1);
      expect(std::ranges::count(plain, 1) == 30, "without rows");
      expect(std::ranges::count(gaps, 1) == (me == 1 ? 60 : 30), "with rows");
    }
  });
}

TEST_CASE("rows: columns of a matrix are gathered, reduced and exchanged where they lie",
          "[comm]") {
  testing::on_all_transports(4, [](Communicator& world) {
    const int me = world.rank();
    // 5×2 blocks of four ranks become a 5×8 matrix.
    std::vector<Value> block, matrix(40, kGap);
    for (int row = 0; row < 5; row++) block.insert(block.end(), {10 * me, 10 * me + 1});
    world.gather_v(block, columns(matrix, 5, {2, 2, 2, 2}), 0);
    for (std::size_t at = 0; me == 0 && at < matrix.size(); at++)
      expect(matrix[at] == static_cast<Value>(at % 8 / 2 * 10 + at % 2), "gather_v");
    std::vector<Value> all(40, kGap);
    world.all_gather_v(block, columns(all, 5, {2, 2, 2, 2}));
    for (std::size_t at = 0; at < all.size(); at++)
      expect(all[at] == static_cast<Value>(at % 8 / 2 * 10 + at % 2), "all_gather_v");

    // Column j of a 5×4 matrix is all 10r + j.
    std::vector<Value> mine, column(5, kGap), back(20, kGap);
    for (int at = 0; at < 20; at++) mine.push_back(10 * me + at % 4);
    world.reduce_scatter_v(const_columns(mine, 5, {1, 1, 1, 1}), column);
    expect(column == std::vector<Value>(5, 60 + 4 * me), "reduce_scatter_v");
    world.scatter_v(const_columns(mine, 5, {1, 1, 1, 1}), column, 2);
    expect(column == std::vector<Value>(5, 20 + me), "scatter_v");
    world.all_to_all_v(const_columns(mine, 5, {1, 1, 1, 1}), columns(back, 5, {1, 1, 1, 1}));
    for (std::size_t at = 0; at < back.size(); at++)
      expect(back[at] == static_cast<Value>(10 * (at % 4)) + me, "all_to_all_v");
    // In place: each rank's own column is where it belongs.
    world.all_to_all_v(const_columns(mine, 5, {1, 1, 1, 1}), columns(mine, 5, {1, 1, 1, 1}));
    expect(mine == back, "all_to_all_v in place");
    auto own_column = std::vector<Value>(20, kGap);
    const auto outputs = columns(own_column, 5, {1, 1, 1, 1});
    for (std::size_t row = 0; row < 5; row++)
      own_column[4 * row + static_cast<std::size_t>(me)] = me;
    world.all_gather_v(outputs[static_cast<std::size_t>(me)], outputs);
    for (std::size_t at = 0; at < own_column.size(); at++)
      expect(own_column[at] == static_cast<Value>(at % 4), "all_gather_v in place");
    const int next = (me + 1) % 4, last = (me + 3) % 4;
    world.send_recv(outputs[0], next, outputs[1], last);
  });
}

TEST_CASE("rows: what cannot be right is refused by its numbers", "[comm]") {
  testing::on_all_transports(2, [](Communicator& world) {
    std::vector<Value> matrix(40);
    const auto told = [](const std::function<void()>& call, const std::string& what) {
      std::string said = "no error";
      try {
        call();
      } catch (const Error& error) {
        said = error.what();
      }
      expect(said.find(what) != std::string::npos, said);
    };
    const auto rows = [&](std::size_t first, std::size_t length, std::size_t stride) {
      return Block(&matrix[first], 10, DataType::int32, length, stride);
    };
    told([&] { world.all_reduce(rows(0, 3, 8)); }, "10 elements are not whole rows of 3 elements");
    told([&] { world.send(rows(0, 2, 1), 1); }, "rows of 2 elements overlap, for its stride is 1");
    told([&] { world.send(rows(0, 0, 8), 1); }, "a stride of 8 and a row_length of 0");
    told([&] { world.all_reduce(rows(0, 0, 8)); }, "a stride of 8 and a row_length of 0");
    told(
        [&] {
          world.all_gather_v(matrix, std::vector{rows(0, 0, 8), rows(0, 2, 8)});
        },
        "a stride of 8 and a row_length of 0");
    told([&] { world.all_reduce(rows(0, 2, 8), rows(1, 2, 8)); }, "input and output overlap");
    told(
        [&] {
          world.all_gather_v(rows(4, 2, 8), std::vector{rows(0, 2, 8), rows(1, 2, 8)});
        },
        "parts of the output overlap each other");
    told([&] { world.send_recv(rows(0, 2, 8), 0, rows(1, 2, 8), 0); }, "overlaps the send buffer");
    told(
        [&] {
          columns(matrix, 7, {1, 1});
        },
        "40 elements do not divide into 7 rows of equal length");
    told(
        [&] {
          columns(matrix, 5, {2, 2});
        },
        "columns: the matrix has 8 columns, the counts are 4 together");
    told([&] { columns(matrix, 5, std::vector{9, -1}); }, "the count of rank 1 is -1");
    for (const std::size_t stride : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - 3, std::size_t{1} << 61,
                                     SIZE_MAX / 16, (std::size_t{1} << 54) + 1}) {
      told([&] { world.all_reduce(rows(0, 2, stride)); }, "more than memory can hold");
      told([&] { world.send(rows(0, 2, stride), 1); }, "more than memory can hold");
      told(
          [&] {
            world.all_gather_v(matrix, std::vector{rows(0, 2, stride), rows(2, 2, 8)});
          },
          "more than memory can hold");
    }
    world.all_reduce(rows(0, 2, 8), rows(2, 2, 8));
    const auto empty = columns(std::span<Value>(), 0, {2, 3});
    expect(empty.size() == 2 && empty[1].count == 0, "no rows");
    world.all_reduce(columns(matrix, 1, {20, 20})[1]);
  });
}

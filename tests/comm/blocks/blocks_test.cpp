// SPDX-License-Identifier: Apache-2.0
// Blocks of different sizes, several buffers in one call, and byte strings: every rank gets the
// operation's defined result, wherever the memory lies.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <numeric>
#include <random>

#include "algorithms/algorithms.hpp"
#include "comm/on_transports.hpp"
#include "support/effort.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::expect;
using testing::message_of;
using testing::on_all_transports;
using testing::options_for;
using testing::run_ranks;

namespace {

using Values = std::vector<std::int32_t>;
using Counts = std::vector<std::size_t>;

std::int32_t value(std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<std::int32_t>(from * 1'000'000 + to * 10'000 + i % 10'000);
}

Values values(std::size_t from, std::size_t to, std::size_t count) {
  Values made(count);
  for (std::size_t i = 0; i < count; i++) made[i] = value(from, to, i);
  return made;
}

/// One random v-operation, the same on all ranks, with every pair's block size.
struct Draw {
  Kind kind;
  std::size_t size;
  std::size_t root;
  std::vector<Counts> counts;  ///< [from][to]
  bool one_buffer;             ///< consecutive blocks in one buffer, else each in memory of its own
  bool in_place;
  std::string algorithm;

  Draw(Kind of, std::size_t ranks, std::mt19937_64& random) : kind(of), size(ranks) {
    root = random() % size;
    one_buffer = random() % 2 == 0;
    in_place = random() % 2 == 0;
    const auto largest = random() % 5 == 0 ? 50'000U : 9U;
    const auto some = [&] { return random() % 3 == 0 ? 0 : random() % largest; };
    counts.assign(size, Counts(size));
    for (std::size_t r = 0; r < size; r++) {
      const auto count = some();
      for (std::size_t other = 0; other < size; other++) {
        if (kind == Kind::all_to_all) counts[r][other] = some();
        if (kind == Kind::all_gather || kind == Kind::gather) counts[r][other] = count;
        if (kind == Kind::reduce_scatter || kind == Kind::scatter) counts[other][r] = count;
      }
    }
    std::vector<std::string> names = {""};
    for (const auto& entry : catalogue())
      if (entry.kind == kind && entry.ragged) names.emplace_back(to_string(entry.algorithm));
    algorithm = names[random() % names.size()];
  }

  Counts sent_by(std::size_t rank) const { return counts[rank]; }
  Counts sent_to(std::size_t rank) const {
    Counts column;
    for (const auto& row : counts) column.push_back(row[rank]);
    return column;
  }
};

/// Memory for blocks, in one buffer or each by itself, with a guard behind.
class Memory {
 public:
  Memory(Counts counts, bool together) : counts_(std::move(counts)), together_(together) {
    if (together_)
      parts_.emplace_back(std::accumulate(counts_.begin(), counts_.end(), std::size_t{1}), -1);
    else
      for (const auto count : counts_) parts_.emplace_back(count + 1, -1);
  }
  std::span<std::int32_t> block(std::size_t i) {
    if (!together_) return std::span(parts_[i]).first(counts_[i]);
    const auto end = counts_.begin() + static_cast<std::ptrdiff_t>(i);
    return std::span(parts_[0]).subspan(std::accumulate(counts_.begin(), end, std::size_t{0}),
                                        counts_[i]);
  }
  void fill(std::size_t i, const Values& with) { std::ranges::copy(with, block(i).begin()); }
  std::vector<Block> outputs() {
    if (together_) return blocks(std::span(parts_[0]).first(parts_[0].size() - 1), counts_);
    std::vector<Block> all;
    for (std::size_t i = 0; i < counts_.size(); i++) all.emplace_back(block(i));
    return all;
  }
  std::vector<ConstBlock> inputs() {
    if (together_) return const_blocks(std::span(parts_[0]).first(parts_[0].size() - 1), counts_);
    std::vector<ConstBlock> all;
    for (std::size_t i = 0; i < counts_.size(); i++) all.emplace_back(block(i));
    return all;
  }
  void expect_block(std::size_t i, const Values& wanted) {
    const auto got = block(i);
    expect(std::ranges::equal(got, wanted), fmt::format("block {} is wrong", i));
  }
  ~Memory() noexcept(false) {
    for (const auto& part : parts_)
      if (std::uncaught_exceptions() == 0) expect(part.back() == -1, "written past the end");
  }

 private:
  const Counts counts_;
  const bool together_;
  std::vector<Values> parts_;
};

/// One rank's part of a draw, made and checked.
class BlocksTrial {
 public:
  BlocksTrial(Communicator& communicator, const Draw& draw)
      : communicator_(communicator),
        draw_(draw),
        me_(static_cast<std::size_t>(communicator.rank())),
        root_(static_cast<int>(draw.root)) {
    options_.algorithm = draw.algorithm;
  }

  void run() {
    switch (draw_.kind) {
      case Kind::all_gather:
        return gathers([&](const ConstBlock& input, std::span<const Block> outputs) {
          communicator_.all_gather_v(input, outputs, options_);
        });
      case Kind::gather:
        return gathers([&](const ConstBlock& input, std::span<const Block> outputs) {
          communicator_.gather_v_async(input, outputs, root_, options_).wait();
        });
      case Kind::scatter:
        return scatters([&](std::span<const ConstBlock> inputs, const Block& output) {
          communicator_.scatter_v(inputs, output, root_, options_);
        });
      case Kind::reduce_scatter:
        return scatters([&](std::span<const ConstBlock> inputs, const Block& output) {
          communicator_.reduce_scatter_v_async(inputs, output, ReduceOp::sum, options_).wait();
        });
      default:
        return all_to_all();
    }
  }

 private:
  bool has_all() const {
    return draw_.kind == Kind::all_gather || draw_.kind == Kind::reduce_scatter ||
           me_ == draw_.root;
  }

  template <typename Call>
  void gathers(const Call& call) {
    const auto mine = values(me_, 0, draw_.counts[me_][me_]);
    Memory output(has_all() ? draw_.sent_to(me_) : Counts(), draw_.one_buffer && has_all());
    std::span<const std::int32_t> input = mine;
    if (draw_.in_place && has_all()) {
      output.fill(me_, mine);
      input = output.block(me_);
    }
    call(input, output.outputs());
    for (std::size_t from = 0; has_all() && from < draw_.size; from++)
      output.expect_block(from, values(from, 0, draw_.counts[from][me_]));
  }

  template <typename Call>
  void scatters(const Call& call) {
    const auto count = draw_.counts[me_][me_];
    Memory input(has_all() ? draw_.sent_by(me_) : Counts(), draw_.one_buffer && has_all());
    for (std::size_t to = 0; has_all() && to < draw_.size; to++)
      input.fill(to, values(me_, to, draw_.counts[me_][to]));
    Memory output({count}, false);
    const bool same = draw_.in_place && has_all();
    const auto result = same ? input.block(me_) : output.block(0);
    call(input.inputs(), result);
    auto wanted = values(draw_.root, me_, count);
    if (draw_.kind == Kind::reduce_scatter)
      for (std::size_t i = 0; i < count; i++) {
        wanted[i] = 0;
        for (std::size_t from = 0; from < draw_.size; from++) wanted[i] += value(from, me_, i);
      }
    expect(std::ranges::equal(result, wanted), "the result is wrong");
  }

  void all_to_all() {
    if (draw_.in_place) return all_to_all_in_one();
    Memory input(draw_.sent_by(me_), draw_.one_buffer), output(draw_.sent_to(me_), false);
    for (std::size_t to = 0; to < draw_.size; to++)
      input.fill(to, values(me_, to, draw_.counts[me_][to]));
    communicator_.all_to_all_v(input.inputs(), output.outputs(), options_);
    for (std::size_t from = 0; from < draw_.size; from++)
      output.expect_block(from, values(from, me_, draw_.counts[from][me_]));
  }

  /// The receive buffer begins slightly behind the send buffer, or at the same place.
  void all_to_all_in_one() {
    const auto sent = draw_.sent_by(me_), got = draw_.sent_to(me_);
    const auto sum = [](const Counts& counts) {
      return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    };
    const std::size_t shift = draw_.one_buffer ? 0 : std::min<std::size_t>(sum(sent), 3);
    Values memory(std::max(sum(sent), shift + sum(got)));
    auto next = memory.begin();
    for (std::size_t to = 0; to < draw_.size; to++)
      next = std::ranges::copy(values(me_, to, sent[to]), next).out;
    communicator_.all_to_all_v(const_blocks(std::span(memory).first(sum(sent)), sent),
                               blocks(std::span(memory).subspan(shift, sum(got)), got), options_);
    auto received = std::span(memory).subspan(shift);
    for (std::size_t from = 0; from < draw_.size; from++) {
      expect(std::ranges::equal(received.first(got[from]), values(from, me_, got[from])),
             fmt::format("block {} is wrong", from));
      received = received.subspan(got[from]);
    }
  }

  Communicator& communicator_;
  const Draw& draw_;
  const std::size_t me_;
  const int root_;
  CallOptions options_;
};

/// Sends one random set of buffers through the operations that take several.
void coalesced_trial(Communicator& communicator, std::mt19937_64& random) {
  const auto me = static_cast<std::size_t>(communicator.rank());
  const std::size_t buffers = random() % 5;
  const int root = static_cast<int>(random() % 3);
  std::vector<Values> in, out, whole_in, whole_out;
  std::vector<BufferPair> same, apart, gathered, scattered;
  Counts counts;
  for (std::size_t b = 0; b < buffers; b++) {
    counts.push_back(random() % 4 == 0 ? 30'000 : random() % 6);
    in.push_back(values(me, b, counts[b]));
    out.emplace_back(counts[b], -1);
    whole_in.push_back(values(me, b, 3 * counts[b]));
    whole_out.emplace_back(3 * counts[b], -1);
  }
  auto reduced = in;
  for (std::size_t b = 0; b < buffers; b++) {
    same.emplace_back(reduced[b]);
    apart.emplace_back(in[b], out[b]);
    gathered.emplace_back(in[b], whole_out[b]);
    scattered.emplace_back(whole_in[b], out[b]);
  }
  const auto sum = [](std::size_t b, std::size_t i) {
    return value(0, b, i) + value(1, b, i) + value(2, b, i);
  };
  communicator.all_reduce(same);
  communicator.all_gather_async(gathered).wait();
  communicator.broadcast(apart, root);
  for (std::size_t b = 0; b < buffers; b++) {
    expect(out[b] == values(static_cast<std::size_t>(root), b, counts[b]), "broadcast");
    for (std::size_t i = 0; i < counts[b]; i++) {
      expect(reduced[b][i] == sum(b, i), "all_reduce");
      for (std::size_t r = 0; r < 3; r++)
        expect(whole_out[b][r * counts[b] + i] == value(r, b, i), "all_gather");
    }
  }
  communicator.reduce_scatter(scattered, Reduction::premultiplied_sum(2));
  for (std::size_t b = 0; b < buffers; b++)
    for (std::size_t i = 0; i < counts[b]; i++)
      expect(out[b][i] == 2 * sum(b, me * counts[b] + i), "reduce_scatter");
  communicator.reduce(apart, ReduceOp::sum, root);
  for (std::size_t b = 0; b < buffers && communicator.rank() == root; b++)
    for (std::size_t i = 0; i < counts[b]; i++) expect(out[b][i] == sum(b, i), "reduce");
}

}  // namespace

TEST_CASE("blocks: v-operations of random sizes, in any memory, by every algorithm",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const int rounds = testing::reduced() ? 2 : 40;
  for (const auto& transport : testing::usable_transports()) {
    for (const std::size_t size : {1U, 2U, 3U, 5U}) {
      std::vector<Draw> draws;
      for (int round = 0; round < rounds; round++)
        for (const auto kind : {Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all,
                                Kind::gather, Kind::scatter})
          draws.emplace_back(kind, size, random);
      std::ranges::shuffle(draws, random);
      const auto errors = run_ranks(
          static_cast<int>(size), options_for(transport.name), [&](Communicator& communicator) {
            for (std::size_t i = 0; i < draws.size(); i++) {
              try {
                BlocksTrial(communicator, draws[i]).run();
              } catch (const std::exception& error) {
                throw std::runtime_error(
                    fmt::format("draw {}, {}_v by '{}', in place {}, one buffer {}: {}", i,
                                to_string(draws[i].kind), draws[i].algorithm, draws[i].in_place,
                                draws[i].one_buffer, error.what()));
              }
            }
          });
      CAPTURE(seed, transport.name, size);
      for (const auto& error : errors) CHECK(error == "");
    }
  }
}

TEST_CASE("blocks: several buffers in one call are as one call for each", "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  on_all_transports(3, [&](Communicator& communicator) {
    std::mt19937_64 random(seed);  // the same on every rank
    for (int round = 0; round < 20; round++) coalesced_trial(communicator, random);
  });
}

TEST_CASE("blocks: byte strings of any length arrive whole", "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  on_all_transports(4, [&](Communicator& communicator) {
    std::mt19937_64 random(seed);  // the same on every rank
    const auto me = static_cast<std::size_t>(communicator.rank());
    for (int round = 0; round < 10; round++) {
      std::vector<std::string> all;
      for (char r = 0; r < 4; r++)
        all.emplace_back(random() % 3 == 0 ? 0 : random() % 70'000, static_cast<char>('a' + r));
      const auto root = random() % 4;
      expect(communicator.all_gather_bytes(all[me]) == all, "all_gather_bytes");
      expect(communicator.broadcast_bytes(me == root ? all[me] : "not looked at",
                                          static_cast<int>(root)) == all[root],
             "broadcast_bytes");
      const auto gathered = communicator.gather_bytes(all[me], static_cast<int>(root));
      expect(gathered == (me == root ? all : std::vector<std::string>()), "gather_bytes");
    }
  });
}

TEST_CASE("blocks: different calls of byte strings are found, also of empty ones", "[comm]") {
  for (const bool empty : {true, false}) {
    for (const bool other_root : {true, false}) {
      CAPTURE(empty, other_root);
      const auto errors = run_ranks(2, {}, [&](Communicator& communicator) {
        const std::string mine = empty ? "" : "something";
        if (communicator.rank() == 0)
          communicator.broadcast_bytes(mine, 0);
        else if (other_root)
          communicator.broadcast_bytes(mine, 1);
        else
          communicator.all_gather_bytes(mine);
      });
      const std::string other = other_root ? "broadcast_bytes, root 1" : "all_gather_bytes";
      for (const auto& error : errors) {
        CHECK_THAT(error, Contains("different things: ") &&
                              Contains("broadcast_bytes, root 0 (call 0)") &&
                              Contains(other + " (call 0)"));
      }
    }
  }
}

TEST_CASE("blocks: more than 2^31 elements, in place", "[comm]") {
  std::size_t available = 0;  // KiB
  std::ifstream memory("/proc/meminfo");
  for (std::string key; memory >> key && key != "MemAvailable:";) memory.ignore(200, '\n');
  memory >> available;
  constexpr std::size_t kElems = (std::size_t{1} << 31) + 5;
  if (testing::reduced() || available < 3 * (kElems >> 10)) {
    WARN("not run: it needs 6 GiB of memory and no sanitizer");
    return;
  }
  const auto errors = run_ranks(2, options_for("inproc"), [](Communicator& communicator) {
    const auto own = static_cast<std::int8_t>(communicator.rank() + 1);
    std::vector<std::int8_t> data(kElems, own);
    data.back() = static_cast<std::int8_t>(own * 10);
    communicator.all_reduce(std::span(data), ReduceOp::sum, {.timeout = 60s});
    expect(data.back() == 30, "the last element");
    expect(std::all_of(data.begin(), data.end() - 1, [](std::int8_t sum) { return sum == 3; }),
           "an element");
  });
  for (const auto& error : errors) CHECK(error == "");
}

// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/operations.hpp"

#include <algorithm>
#include <array>

#include "algorithms/algorithms.hpp"
#include "bench/command/names.hpp"

namespace ccoll::bench {

namespace {

double whole(int) { return 1.0; }
double others_share(int size) { return double(size - 1) / size; }
double there_and_back(int size) { return 2.0 * (size - 1) / size; }
double nothing(int) { return 0.0; }

std::vector<Segment> one(int source, std::uint64_t first, std::uint64_t elems) {
  return {{source, first, elems}};
}

/// Block r of the result is `elems` elements of rank r's input, from `first` on.
std::vector<Segment> one_of_each(int size, std::uint64_t first, std::uint64_t elems) {
  std::vector<Segment> segments;
  for (int r = 0; r < size; r++) segments.push_back({r, first, elems});
  return segments;
}

Layout all_reduce_layout(const Shape& s) {
  return {s.count, s.count, one(Segment::kReduced, 0, s.count), true};
}

Layout reduce_layout(const Shape& s) {
  if (s.rank != s.root) return {s.count, s.count, {}};
  return all_reduce_layout(s);
}

Layout broadcast_layout(const Shape& s) {
  return {s.count, s.count, one(s.root, 0, s.count), true};
}

Layout all_gather_layout(const Shape& s) {
  const auto rank = static_cast<std::uint64_t>(s.rank);
  return {s.count,
          s.count * static_cast<std::uint64_t>(s.size),
          one_of_each(s.size, 0, s.count),
          true,
          rank * s.count,
          0};
}

Layout reduce_scatter_layout(const Shape& s) {
  const std::uint64_t mine = static_cast<std::uint64_t>(s.rank) * s.count;
  return {s.count * static_cast<std::uint64_t>(s.size),
          s.count,
          one(Segment::kReduced, mine, s.count),
          true,
          0,
          mine};
}

Layout all_to_all_layout(const Shape& s) {
  const std::uint64_t total = s.count * static_cast<std::uint64_t>(s.size);
  return {total, total, one_of_each(s.size, static_cast<std::uint64_t>(s.rank) * s.count, s.count)};
}

Layout gather_layout(const Shape& s) {
  if (s.rank != s.root) return {s.count, 0, {}};
  return all_gather_layout(s);
}

Layout scatter_layout(const Shape& s) {
  const std::uint64_t mine = static_cast<std::uint64_t>(s.rank) * s.count;
  Layout layout{0, s.count, one(s.root, mine, s.count)};
  if (s.rank == s.root) {
    layout.input_elems = s.count * static_cast<std::uint64_t>(s.size);
    layout.shares = true;
    layout.output_at = mine;
  }
  return layout;
}

/// The blocks of the v-operations: sizes grow from 0 at rank 0 to twice the mean at the last rank,
/// with a mean of `count`.
std::uint64_t ramp_first(const Shape& s, int rank) {
  if (s.size == 1) return rank == 0 ? 0 : s.count;
  const auto r = static_cast<std::uint64_t>(rank), n = static_cast<std::uint64_t>(s.size);
  return rank == 0 ? 0 : s.count * r * (r - 1) / (n - 1);
}
std::uint64_t ramp_elems(const Shape& s, int rank) {
  return ramp_first(s, rank + 1) - ramp_first(s, rank);
}
/// Sizes of all_to_all_v rotate: the step from rank `from` to rank `to`.
int ramp_step(const Shape& s, int from, int to) { return (to - from + s.size) % s.size; }

std::vector<Segment> ramp_of_each(const Shape& s) {
  std::vector<Segment> segments;
  for (int r = 0; r < s.size; r++) segments.push_back({r, 0, ramp_elems(s, r)});
  return segments;
}

Layout all_gather_v_layout(const Shape& s) {
  return {ramp_elems(s, s.rank), ramp_first(s, s.size),
          ramp_of_each(s),       true,
          ramp_first(s, s.rank), 0};
}

Layout reduce_scatter_v_layout(const Shape& s) {
  const auto mine = ramp_first(s, s.rank), elems = ramp_elems(s, s.rank);
  return {ramp_first(s, s.size), elems, one(Segment::kReduced, mine, elems), true, 0, mine};
}

Layout all_to_all_v_layout(const Shape& s) {
  Layout layout{ramp_first(s, s.size), ramp_first(s, s.size), {}};
  for (int from = 0; from < s.size; from++) {
    std::uint64_t before = 0;
    for (int to = 0; to < s.rank; to++) before += ramp_elems(s, ramp_step(s, from, to));
    layout.result.push_back({from, before, ramp_elems(s, ramp_step(s, from, s.rank))});
  }
  return layout;
}

Layout gather_v_layout(const Shape& s) {
  if (s.rank != s.root) return {ramp_elems(s, s.rank), 0, {}};
  return all_gather_v_layout(s);
}

Layout scatter_v_layout(const Shape& s) {
  const auto mine = ramp_first(s, s.rank), elems = ramp_elems(s, s.rank);
  if (s.rank != s.root) return {0, elems, one(s.root, mine, elems)};
  return {ramp_first(s, s.size), elems, one(s.root, mine, elems), true, 0, mine};
}

/// A v-operation's blocks, consecutive at `data`, with sizes from `size_of_block`.
template <typename AnyBlock, typename Data, typename Sizes>
std::vector<AnyBlock> cut(Data data, const Shape& s, DataType type, const Sizes& size_of_block) {
  std::vector<AnyBlock> all;
  for (int r = 0; r < s.size; r++) {
    const auto elems = size_of_block(r);
    all.emplace_back(data, elems, type);
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Data>>, const std::byte,
                                    std::byte>;
    data = static_cast<Byte*>(data) + elems * size_of(type);
  }
  return all;
}

/// A v-call's arguments: the blocks of the input and of the output, and the rank's own.
struct Ramp {
  Ramp(const Communicator& c, const Arguments& a)
      : shape{c.size(), c.rank(), a.root, a.count}, arguments(a) {}
  ConstBlock input() const { return {arguments.input, own(), arguments.type}; }
  Block output() const { return {arguments.output, own(), arguments.type}; }
  std::uint64_t own() const { return ramp_elems(shape, shape.rank); }
  std::vector<ConstBlock> inputs() const {
    return cut<ConstBlock>(arguments.input, shape, arguments.type,
                           [&](int r) { return ramp_elems(shape, r); });
  }
  std::vector<Block> outputs() const {
    return cut<Block>(arguments.output, shape, arguments.type,
                      [&](int r) { return ramp_elems(shape, r); });
  }
  const Shape shape;
  const Arguments& arguments;
};

void call_all_to_all_v(Communicator& c, const Arguments& a) {
  const Ramp ramp(c, a);
  const auto& s = ramp.shape;
  c.all_to_all_v(cut<ConstBlock>(a.input, s, a.type,
                                 [&](int to) { return ramp_elems(s, ramp_step(s, s.rank, to)); }),
                 cut<Block>(a.output, s, a.type,
                            [&](int from) { return ramp_elems(s, ramp_step(s, from, s.rank)); }),
                 a.options);
}

Layout send_recv_layout(const Shape& s) {
  return {s.count, s.count, one((s.rank + s.size - 1) % s.size, 0, s.count)};
}

/// The ends of a ping_pong: the first and last rank, on different hosts if there are two.
bool is_first(const Shape& s) { return s.rank == 0; }
bool is_last(const Shape& s) { return s.rank == s.size - 1; }

Layout ping_pong_layout(const Shape& s) {
  if (!is_first(s) && !is_last(s)) return {};
  return {is_first(s) ? s.count : 0, s.count, one(0, 0, s.count)};
}

void call_ping_pong(Communicator& c, const Arguments& a) {
  const int last = c.size() - 1;
  if (last == 0) {
    for (int trip = 0; trip < 2; trip++) {
      c.send_recv(ConstBlock(a.input, a.count, a.type), 0, Block(a.output, a.count, a.type), 0, 0,
                  a.options);
    }
  } else if (c.rank() == 0) {
    c.send(ConstBlock(a.input, a.count, a.type), last, 0, a.options);
    c.recv(Block(a.output, a.count, a.type), last, 0, a.options);
  } else if (c.rank() == last) {
    c.recv(Block(a.output, a.count, a.type), 0, 0, a.options);
    c.send(ConstBlock(a.output, a.count, a.type), 0, 0, a.options);
  }
}

Layout barrier_layout(const Shape&) { return {}; }

constexpr std::array<Operation, 16> kOperations = {{
    {"all_reduce", Kind::all_reduce, false, false, true, true, true, there_and_back,
     all_reduce_layout,
     [](Communicator& c, const Arguments& a) {
       c.all_reduce(ConstBlock(a.input, a.count, a.type), Block(a.output, a.count, a.type), a.op,
                    a.options);
     },
     "everyone gets the sum of all buffers"},
    {"all_gather", Kind::all_gather, true, false, false, true, true, others_share,
     all_gather_layout,
     [](Communicator& c, const Arguments& a) {
       c.all_gather(ConstBlock(a.input, a.count, a.type),
                    Block(a.output, c.size() * a.count, a.type), a.options);
     },
     "everyone gets every rank's block"},
    {"reduce_scatter", Kind::reduce_scatter, true, false, true, true, true, others_share,
     reduce_scatter_layout,
     [](Communicator& c, const Arguments& a) {
       c.reduce_scatter(ConstBlock(a.input, c.size() * a.count, a.type),
                        Block(a.output, a.count, a.type), a.op, a.options);
     },
     "each rank gets its block of the sum"},
    {"all_to_all", Kind::all_to_all, true, false, false, false, true, others_share,
     all_to_all_layout,
     [](Communicator& c, const Arguments& a) {
       c.all_to_all(ConstBlock(a.input, c.size() * a.count, a.type),
                    Block(a.output, c.size() * a.count, a.type), a.options);
     },
     "each rank sends another block to each rank"},
    {"broadcast", Kind::broadcast, false, true, false, true, true, whole, broadcast_layout,
     [](Communicator& c, const Arguments& a) {
       c.broadcast(ConstBlock(a.input, a.count, a.type), Block(a.output, a.count, a.type), a.root,
                   a.options);
     },
     "everyone gets the root's buffer"},
    {"reduce", Kind::reduce, false, true, true, true, true, whole, reduce_layout,
     [](Communicator& c, const Arguments& a) {
       c.reduce(ConstBlock(a.input, a.count, a.type), Block(a.output, a.count, a.type), a.op,
                a.root, a.options);
     },
     "the root gets the sum of all buffers"},
    {"gather", Kind::gather, true, true, false, true, true, others_share, gather_layout,
     [](Communicator& c, const Arguments& a) {
       c.gather(ConstBlock(a.input, a.count, a.type), Block(a.output, c.size() * a.count, a.type),
                a.root, a.options);
     },
     "the root gets every rank's block"},
    {"scatter", Kind::scatter, true, true, false, true, true, others_share, scatter_layout,
     [](Communicator& c, const Arguments& a) {
       c.scatter(ConstBlock(a.input, c.size() * a.count, a.type), Block(a.output, a.count, a.type),
                 a.root, a.options);
     },
     "each rank gets its block of the root's buffer"},
    {"all_gather_v", Kind::all_gather, true, false, false, true, true, others_share,
     all_gather_v_layout,
     [](Communicator& c, const Arguments& a) {
       const Ramp ramp(c, a);
       c.all_gather_v(ramp.input(), ramp.outputs(), a.options);
     },
     "all_gather of blocks from 0 to twice the mean", true},
    {"reduce_scatter_v", Kind::reduce_scatter, true, false, true, true, true, others_share,
     reduce_scatter_v_layout,
     [](Communicator& c, const Arguments& a) {
       const Ramp ramp(c, a);
       c.reduce_scatter_v(ramp.inputs(), ramp.output(), a.op, a.options);
     },
     "reduce_scatter of such blocks", true},
    {"all_to_all_v", Kind::all_to_all, true, false, false, false, true, others_share,
     all_to_all_v_layout, call_all_to_all_v, "all_to_all of such blocks", true},
    {"gather_v", Kind::gather, true, true, false, true, true, others_share, gather_v_layout,
     [](Communicator& c, const Arguments& a) {
       const Ramp ramp(c, a);
       c.gather_v(ramp.input(), ramp.outputs(), a.root, a.options);
     },
     "gather of such blocks", true},
    {"scatter_v", Kind::scatter, true, true, false, true, true, others_share, scatter_v_layout,
     [](Communicator& c, const Arguments& a) {
       const Ramp ramp(c, a);
       c.scatter_v(ramp.inputs(), ramp.output(), a.root, a.options);
     },
     "scatter of such blocks", true},
    {"send_recv", std::nullopt, false, false, false, false, true, whole, send_recv_layout,
     [](Communicator& c, const Arguments& a) {
       const int n = c.size();
       c.send_recv(ConstBlock(a.input, a.count, a.type), (c.rank() + 1) % n,
                   Block(a.output, a.count, a.type), (c.rank() + n - 1) % n, 0, a.options);
     },
     "a ring: to the next rank, from the one before"},
    {"ping_pong", std::nullopt, false, false, false, false, true, whole, ping_pong_layout,
     call_ping_pong, "half the way from the first rank to the last and back", false, 2},
    {"barrier", Kind::barrier, false, false, false, false, false, nothing, barrier_layout,
     [](Communicator& c, const Arguments& a) { c.barrier(a.options); },
     "returns when every rank has come"},
}};

/// Strips the affixes of MPI, NCCL and nccl-tests, and translates their word to ours.
std::string plain_name(std::string_view name) {
  std::string word = folded(name);
  for (const std::string_view prefix : {"mpi", "nccl"}) {
    if (word.starts_with(prefix)) word.erase(0, prefix.size());
  }
  if (word.ends_with("perf")) word.erase(word.size() - 4);
  if (word == "bcast") return "broadcast";
  if (word == "reducescatterblock") return "reducescatter";
  return word;
}

}  // namespace

std::span<const Operation> operations() { return kOperations; }

std::vector<Algorithm> algorithms_of(const Operation& operation) {
  if (!operation.kind) return {};
  return algorithms_for(*operation.kind, operation.ragged);
}

const Operation* find_operation(std::string_view name) {
  const std::string wanted = plain_name(name);
  const auto found = std::find_if(kOperations.begin(), kOperations.end(),
                                  [&](const Operation& row) { return folded(row.name) == wanted; });
  return found == kOperations.end() ? nullptr : &*found;
}

Result<std::vector<const Operation*>> parse_operations(std::string_view list, Beside beside) {
  std::vector<const Operation*> chosen;
  const auto add = [&](const Operation& row) {
    if (std::find(chosen.begin(), chosen.end(), &row) == chosen.end()) chosen.push_back(&row);
  };
  for (const std::string& word : split_list(list)) {
    if (word == "all") {
      for (const Operation& row : kOperations) add(row);
    } else if (const Operation* row = find_operation(word)) {
      add(*row);
    } else {
      std::vector<std::string_view> names;
      for (const Operation& each : kOperations) names.push_back(each.name);
      names.push_back("all");
      if (beside == Beside::commands)
        names.insert(names.end(), {"info", "matrix", "tune", "explain"});
      return fail(ErrorKind::invalid_argument, "{}", unknown_word("operation", word, names));
    }
  }
  return chosen;
}

std::uint64_t size_unit(const Operation& operation, DataType type, int size) {
  return size_of(type) * (operation.over_blocks ? static_cast<std::uint64_t>(size) : 1);
}

std::uint64_t count_of(const Operation& operation, DataType type, int size, std::uint64_t bytes) {
  return bytes / size_unit(operation, type, size);
}

Problem problem_of(const Operation& operation, DataType type, int size, int root,
                   std::uint64_t bytes) {
  Problem problem;
  problem.kind = *operation.kind;
  problem.size = static_cast<Rank>(size);
  problem.root = operation.rooted ? static_cast<Rank>(root) : 0;
  problem.count = operation.has_data ? count_of(operation, type, size, bytes) : 1;
  return operation.ragged ? evenly_ragged(std::move(problem)) : problem;
}

}  // namespace ccoll::bench

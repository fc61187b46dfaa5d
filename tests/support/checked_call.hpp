// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One call of any collective, with its result checked against the expected one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "ccoll/ccoll.hpp"

namespace ccoll::testing {

/// A call of a collective with equal blocks, or of its v-operation.
struct Collective {
  Kind kind = Kind::all_reduce;
  bool ragged = false;
  Algorithm algorithm = Algorithm::ring;
  std::size_t count = 1;
  bool by_cost = false;     ///< ccoll chooses the algorithm
  std::int64_t salt = 0;    ///< part of the input, so that an earlier call's result is wrong
  bool registered = false;  ///< this rank's buffers come from ccoll::allocate
  std::string text() const {
    std::ostringstream out;
    out << to_string(kind) << (ragged ? "_v" : "") << " by "
        << (by_cost ? "cost" : to_string(algorithm)) << " of " << count;
    return out.str();
  }
};

struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Elements = std::vector<std::int64_t>;

/// The values that rank `from` gives to rank `to`, or to all.
inline void give(Elements& into, int from, int to, std::size_t count, std::int64_t salt = 0) {
  for (std::size_t i = 0; i < count; i++)
    into.push_back(1'000'000'000 * salt + 1'000'000 * from + 1000 * to +
                   static_cast<std::int64_t>(i % 997));
}

/// One call with a checked result. Every block of a v-operation has a different size.
class Checked {
 public:
  Checked(Communicator& ranks, const Collective& what, int root)
      : ranks_(ranks), what_(what), root_(root), me_(ranks.rank()), size_(ranks.size()) {
    for (int rank = 0; rank < size_; rank++)
      counts_.push_back(what.count + (what.ragged ? static_cast<std::size_t>(rank) : 0));
  }

  void run() {
    begin();
    check();
  }
  /// The blocking call; between group_begin and group_end it only begins.
  void begin() {
    prepare();
    what_.ragged ? call_ragged(options()) : call(options());
  }
  /// `make(input, output)` makes the call.
  template <typename Make>
  void begin_by(Make&& make) {
    prepare();
    make(std::span<const std::int64_t>(in_), out_);
  }
  /// Only for equal blocks.
  Work begin_async() {
    prepare();
    return call_async(options());
  }
  /// Call it once the call is over.
  void check() const {
    if (!std::ranges::equal(out_, wanted_))
      throw WrongResult(what_.text() + ": the result is wrong");
  }

 private:
  std::size_t count_of(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
  bool is_root() const { return me_ == root_; }

  CallOptions options() const {
    return {.algorithm = what_.by_cost ? std::string_view() : to_string(what_.algorithm)};
  }

  void prepare() {
    fill();
    ordinary_out_.assign(wanted_.size(), -1);
    in_ = place(ordinary_in_, registered_in_);
    out_ = place(ordinary_out_, registered_out_);
  }
  std::span<std::int64_t> place(Elements& ordinary, Memory& registered) const {
    if (!what_.registered || ordinary.empty()) return ordinary;
    try {
      registered = allocate(ordinary.size() * sizeof(std::int64_t));
    } catch (const Error&) {
      return ordinary;  // where system calls fail on purpose, all ranks must already be in the call
    }
    std::ranges::copy(ordinary, registered.as<std::int64_t>().begin());
    return registered.as<std::int64_t>();
  }
  void fill() {
    const auto mine = count_of(me_);
    switch (what_.kind) {
      case Kind::all_reduce:
      case Kind::reduce:
        give(ordinary_in_, me_, 0, mine, what_.salt);
        if (what_.kind == Kind::all_reduce || is_root()) want_sum(0, mine);
        return;
      case Kind::broadcast:
        if (is_root()) give(ordinary_in_, root_, 0, mine, what_.salt);
        ordinary_in_.resize(mine);
        return give(wanted_, root_, 0, mine, what_.salt);
      case Kind::all_gather:
      case Kind::gather:
        give(ordinary_in_, me_, 0, mine, what_.salt);
        if (what_.kind == Kind::all_gather || is_root())
          for (int from = 0; from < size_; from++)
            give(wanted_, from, 0, count_of(from), what_.salt);
        return;
      case Kind::reduce_scatter:
        for (int to = 0; to < size_; to++) give(ordinary_in_, me_, to, count_of(to), what_.salt);
        return want_sum(me_, mine);
      case Kind::all_to_all:
        for (int to = 0; to < size_; to++) give(ordinary_in_, me_, to, mine, what_.salt);
        for (int from = 0; from < size_; from++)
          give(wanted_, from, me_, count_of(from), what_.salt);
        return;
      case Kind::scatter:
        for (int to = 0; is_root() && to < size_; to++)
          give(ordinary_in_, root_, to, count_of(to), what_.salt);
        return give(wanted_, root_, me_, mine, what_.salt);
      case Kind::barrier:
        return;
    }
  }
  void want_sum(int to, std::size_t count) {
    wanted_.assign(count, 0);
    for (int from = 0; from < size_; from++) {
      Elements one;
      give(one, from, to, count, what_.salt);
      for (std::size_t i = 0; i < count; i++) wanted_[i] += one[i];
    }
  }

  void call(const CallOptions& options) {
    const auto count = what_.count;
    constexpr auto kType = DataType::int64;
    switch (what_.kind) {
      case Kind::all_reduce:
        return ranks_.all_reduce(in_, out_, ReduceOp::sum, options);
      case Kind::reduce:
        return ranks_.reduce(ConstBlock(in_.data(), count, kType), Block(out_.data(), count, kType),
                             ReduceOp::sum, root_, options);
      case Kind::broadcast:
        return ranks_.broadcast(ConstBlock(in_.data(), count, kType),
                                Block(out_.data(), count, kType), root_, options);
      case Kind::all_gather:
        return ranks_.all_gather(in_, out_, options);
      case Kind::reduce_scatter:
        return ranks_.reduce_scatter(in_, out_, ReduceOp::sum, options);
      case Kind::all_to_all:
        return ranks_.all_to_all(in_, out_, options);
      case Kind::gather:
        return ranks_.gather(ConstBlock(in_.data(), count, kType),
                             Block(out_.data(), ranks_.size() * count, kType), root_, options);
      case Kind::scatter:
        return ranks_.scatter(ConstBlock(in_.data(), ranks_.size() * count, kType),
                              Block(out_.data(), count, kType), root_, options);
      case Kind::barrier:
        return ranks_.barrier(options);
    }
  }
  Work call_async(const CallOptions& options) {
    const auto count = what_.count;
    constexpr auto kType = DataType::int64;
    switch (what_.kind) {
      case Kind::all_reduce:
        return ranks_.all_reduce_async(in_, out_, ReduceOp::sum, options);
      case Kind::reduce:
        return ranks_.reduce_async(ConstBlock(in_.data(), count, kType),
                                   Block(out_.data(), count, kType), ReduceOp::sum, root_, options);
      case Kind::broadcast:
        return ranks_.broadcast_async(ConstBlock(in_.data(), count, kType),
                                      Block(out_.data(), count, kType), root_, options);
      case Kind::all_gather:
        return ranks_.all_gather_async(in_, out_, options);
      case Kind::reduce_scatter:
        return ranks_.reduce_scatter_async(in_, out_, ReduceOp::sum, options);
      case Kind::all_to_all:
        return ranks_.all_to_all_async(in_, out_, options);
      case Kind::gather:
        return ranks_.gather_async(ConstBlock(in_.data(), count, kType),
                                   Block(out_.data(), ranks_.size() * count, kType), root_,
                                   options);
      case Kind::scatter:
        return ranks_.scatter_async(ConstBlock(in_.data(), ranks_.size() * count, kType),
                                    Block(out_.data(), count, kType), root_, options);
      case Kind::barrier:
        return ranks_.barrier_async(options);
    }
    return Work();
  }
  void call_ragged(const CallOptions& options) {
    const ConstBlock all_in(in_.data(), in_.size(), DataType::int64);
    const Block all_out(out_.data(), out_.size(), DataType::int64);
    const std::vector<std::size_t> same(static_cast<std::size_t>(size_), count_of(me_));
    switch (what_.kind) {
      case Kind::all_gather:
        return ranks_.all_gather_v(all_in, blocks(out_, counts_), options);
      case Kind::reduce_scatter:
        return ranks_.reduce_scatter_v(const_blocks(in_, counts_), all_out, ReduceOp::sum, options);
      case Kind::all_to_all:
        return ranks_.all_to_all_v(const_blocks(in_, same), blocks(out_, counts_), options);
      case Kind::gather:
        return is_root() ? ranks_.gather_v(all_in, blocks(out_, counts_), root_, options)
                         : ranks_.gather_v(all_in, {}, root_, options);
      case Kind::scatter:
        return is_root() ? ranks_.scatter_v(const_blocks(in_, counts_), all_out, root_, options)
                         : ranks_.scatter_v({}, all_out, root_, options);
      default:
        throw std::runtime_error("no v-operation");
    }
  }

  Communicator& ranks_;
  const Collective what_;
  const int root_, me_, size_;
  std::vector<std::size_t> counts_;
  Elements ordinary_in_, ordinary_out_, wanted_;
  Memory registered_in_, registered_out_;
  std::span<std::int64_t> in_, out_;  ///< one of these each
};

}  // namespace ccoll::testing

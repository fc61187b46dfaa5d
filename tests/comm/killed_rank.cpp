// SPDX-License-Identifier: Apache-2.0
// One rank of killed_test: dies when it is told to, or finds the loss of another out, goes on
// without it and checks what it then gets.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>
#include <utility>

#include "ccoll/ccoll.hpp"
#include "comm/killed.hpp"
#include "comm/tracing.hpp"
#include "support/held.hpp"
#include "support/ranks.hpp"

using namespace std::chrono_literals;

namespace ccoll {
namespace {

/// Whether this process is to be killed at a step; then, how many it has still to carry out, where
/// that is known by now.
bool is_victim = false;
std::atomic<int> steps_left{-1};

void die_in_time() {
  if (steps_left == 0) ::raise(SIGKILL);
  if (steps_left > 0) steps_left--;
}

class Killer final : public StepObserver {
 public:
  void begins(const Signature&, std::uint64_t) override { die_in_time(); }
  void moves(std::uint16_t, Awaited, Rank) override {}
  void ran(const StepRecord&, std::size_t) override { die_in_time(); }
  void ends() override {}
};

}  // namespace

// These stand in for src/comm/tracing.cpp, which is then not linked: instead of writing traces, a
// rank may be killed at a step.
std::unique_ptr<Tracing> Tracing::begin(const Whose&) {
  return is_victim ? std::unique_ptr<Tracing>(new Tracing(nullptr)) : nullptr;
}
std::unique_ptr<StepObserver> Tracing::observer_for(const PlanRequest&, bool) {
  return std::make_unique<Killer>();
}
void Tracing::message(const Message&) {}
void Tracing::write() {}

namespace testing {
namespace {

using Elements = std::vector<std::int64_t>;

/// What rank `from` gives for rank `to`, or for all.
void give(Elements& into, int from, int to, std::size_t count) {
  for (std::size_t i = 0; i < count; i++)
    into.push_back(1'000'000 * from + 1000 * to + static_cast<std::int64_t>(i % 997));
}

/// One call, whose result is checked. Every block of a v-operation has a size of its own.
class Checked {
 public:
  Checked(Communicator& ranks, const Collective& what, int root)
      : ranks_(ranks), what_(what), root_(root), me_(ranks.rank()), size_(ranks.size()) {
    for (int rank = 0; rank < size_; rank++)
      counts_.push_back(what.count + (what.ragged ? static_cast<std::size_t>(rank) : 0));
  }

  void run() {
    prepare();
    Elements out(wanted_.size(), -1);
    const auto algorithm = to_string(what_.algorithm);
    what_.ragged ? call_ragged(out, {.algorithm = algorithm}) : call(out, {.algorithm = algorithm});
    expect(out == wanted_, what_.text() + ": the result is right");
  }

 private:
  std::size_t count_of(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
  bool is_root() const { return me_ == root_; }

  void prepare() {
    const auto mine = count_of(me_);
    switch (what_.kind) {
      case Kind::all_reduce:
      case Kind::reduce:
        give(in_, me_, 0, mine);
        if (what_.kind == Kind::all_reduce || is_root()) want_sum(0, mine);
        return;
      case Kind::broadcast:
        if (is_root()) give(in_, root_, 0, mine);
        in_.resize(mine);
        return give(wanted_, root_, 0, mine);
      case Kind::all_gather:
      case Kind::gather:
        give(in_, me_, 0, mine);
        if (what_.kind == Kind::all_gather || is_root())
          for (int from = 0; from < size_; from++) give(wanted_, from, 0, count_of(from));
        return;
      case Kind::reduce_scatter:
        for (int to = 0; to < size_; to++) give(in_, me_, to, count_of(to));
        return want_sum(me_, mine);
      case Kind::all_to_all:
        for (int to = 0; to < size_; to++) give(in_, me_, to, mine);
        for (int from = 0; from < size_; from++) give(wanted_, from, me_, count_of(from));
        return;
      case Kind::scatter:
        for (int to = 0; is_root() && to < size_; to++) give(in_, root_, to, count_of(to));
        return give(wanted_, root_, me_, mine);
      case Kind::barrier:
        return;
    }
  }
  void want_sum(int to, std::size_t count) {
    wanted_.assign(count, 0);
    for (int from = 0; from < size_; from++) {
      Elements one;
      give(one, from, to, count);
      for (std::size_t i = 0; i < count; i++) wanted_[i] += one[i];
    }
  }

  void call(Elements& out, const CallOptions& options) {
    const auto count = what_.count;
    constexpr auto kType = DataType::int64;
    switch (what_.kind) {
      case Kind::all_reduce:
        return ranks_.all_reduce(in_, out, ReduceOp::sum, options);
      case Kind::reduce:
        return ranks_.reduce(in_.data(), out.data(), count, kType, ReduceOp::sum, root_, options);
      case Kind::broadcast:
        return ranks_.broadcast(in_.data(), out.data(), count, kType, root_, options);
      case Kind::all_gather:
        return ranks_.all_gather(in_, out, options);
      case Kind::reduce_scatter:
        return ranks_.reduce_scatter(in_, out, ReduceOp::sum, options);
      case Kind::all_to_all:
        return ranks_.all_to_all(in_, out, options);
      case Kind::gather:
        return ranks_.gather(in_.data(), out.data(), count, kType, root_, options);
      case Kind::scatter:
        return ranks_.scatter(in_.data(), out.data(), count, kType, root_, options);
      case Kind::barrier:
        return ranks_.barrier(options);
    }
  }
  void call_ragged(Elements& out, const CallOptions& options) {
    const ConstBlock all_in(in_.data(), in_.size(), DataType::int64);
    const Block all_out(out.data(), out.size(), DataType::int64);
    const std::vector<std::size_t> same(static_cast<std::size_t>(size_), count_of(me_));
    switch (what_.kind) {
      case Kind::all_gather:
        return ranks_.all_gather_v(all_in, blocks(out, counts_), options);
      case Kind::reduce_scatter:
        return ranks_.reduce_scatter_v(const_blocks(in_, counts_), all_out, ReduceOp::sum, options);
      case Kind::all_to_all:
        return ranks_.all_to_all_v(const_blocks(in_, same), blocks(out, counts_), options);
      case Kind::gather:
        return is_root() ? ranks_.gather_v(all_in, blocks(out, counts_), root_, options)
                         : ranks_.gather_v(all_in, {}, root_, options);
      case Kind::scatter:
        return is_root() ? ranks_.scatter_v(const_blocks(in_, counts_), all_out, root_, options)
                         : ranks_.scatter_v({}, all_out, root_, options);
      default:
        throw std::runtime_error("no v-operation");
    }
  }

  Communicator& ranks_;
  const Collective& what_;
  const int root_, me_, size_;
  std::vector<std::size_t> counts_;
  Elements in_, wanted_;
};

/// A call of every collective, in blocks of one line and of many.
void use(Communicator& ranks) {
  for (const auto& entry : catalogue())
    for (const std::size_t count : {std::size_t{3}, std::size_t{30'000}})
      if (!entry.by_host)
        Checked(ranks, {entry.kind, false, entry.algorithm, count}, ranks.size() - 1).run();
}

/// Longer than 2 s for the error, on a machine that is busy.
constexpr auto kBound = 5s;

/// Whatever calls at the doors of the dead has given up by then (transport/shm/visit.cpp), on a
/// machine that is busy.
constexpr auto kLetGo = 20s;

/// That a call fails in time because one of `lost` (ranks of the job) was; the first when all have
/// come.
template <typename Call>
void fails_in_time(Communicator& ranks, Call call, const std::vector<int>& lost) {
  auto begun = std::chrono::steady_clock::now();
  const auto error = message_of([&] {
    ranks.barrier();
    for (;; begun = std::chrono::steady_clock::now()) call(ranks);
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  expect(took < kBound, "an error after " + std::to_string(took.count()) + " s: " + error);
  bool named = false;
  for (const int rank : lost) {
    const auto name = "rank " + std::to_string(rank);
    // As control tells it, or, where that comes too late, as the broken link does.
    named |= error.find(name + " (") != error.npos || error.find(name + " closed") != error.npos;
  }
  expect(error.starts_with("peer_lost: ") && named, "the error names who was lost: " + error);
}

/// A communicator of those who are left, in time.
void shrink(Communicator& ranks) {
  const auto begun = std::chrono::steady_clock::now();
  ranks = ranks.shrink();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  expect(took < kBound, "shrink took " + std::to_string(took.count()) + " s");
}

/// Each is one of the job's, in order.
bool has_only(const Communicator& ranks, const std::vector<int>& of_the_job) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks.size(); rank++) all.push_back(ranks.job_rank(rank));
  return all == of_the_job;
}

int be_victim(Communicator& ranks, const AtStep& when) {
  ranks.barrier();  // all have joined: a death during start-up is another matter
  for (int call = 0; call < when.calls_before; call++) Checked(ranks, when.call, 0).run();
  steps_left = when.steps;
  Checked(ranks, when.call, 0).run();
  _exit(kNotReached);
}

void survive(Communicator& ranks, const Case& each) {
  const auto call = [&](Communicator& all) { Checked(all, each.at_step->call, 0).run(); };
  fails_in_time(ranks, call, {each.at_step->victim});
  shrink(ranks);
  expect(has_only(ranks, each.survivors()), "all but the victim are left");
  use(ranks);
}

/// Round after round, until only those are left who do not die.
void go_through(Communicator& ranks, const Case& each, int rank) {
  std::vector<int> mortal;
  for (int other = 0; other < each.size; other++)
    if (each.dies(other)) mortal.push_back(other);
  const auto& death = each.deaths[static_cast<std::size_t>(rank)];
  bool is_doomed = death.has_value();
  for (int round = 0; !has_only(ranks, each.survivors()); round++) {
    const auto use_it = [&](Communicator& all) {
      // Later where a round has ended before this rank's first call.
      if (is_doomed && death->round <= round && std::exchange(is_doomed, false))
        std::thread([wait = death->microseconds] {
          std::this_thread::sleep_for(std::chrono::microseconds(wait));
          ::raise(SIGKILL);
        }).detach();
      use(all);
    };
    fails_in_time(ranks, use_it, mortal);
    shrink(ranks);
  }
  use(ranks);
}

void take_part(const Case& each, const std::string& store, int rank) {
  const bool by_host =
      each.at_step &&
      find_algorithm(each.at_step->call.kind, each.at_step->call.algorithm)->by_host;
  // Two ranks a host, where the algorithm knows of hosts.
  if (by_host) setenv("CCOLL_HOST_ID", std::to_string(rank / 2).c_str(), 1);
  auto options = options_for(by_host ? "" : each.transport);
  auto ranks = Communicator::create(make_file_store(store), rank, each.size, options);
  if (!each.at_step) return go_through(ranks, each, rank);
  if (is_victim) be_victim(ranks, *each.at_step);
  survive(ranks, each);
}

}  // namespace

int be_rank(const Case& each, const std::string& store, int rank) try {
  is_victim = each.at_step && each.dies(rank);
  // The service thread would end with the last communicator.
  auto alone = Communicator::create(make_inproc_store(), 0, 1);
  const auto before = held_now();
  take_part(each, store, rank);
  const auto begun = std::chrono::steady_clock::now();
  auto after = held_now();
  while (!after.no_more_than(before) && std::chrono::steady_clock::now() - begun < kLetGo) {
    std::this_thread::sleep_for(5ms);
    after = held_now();
  }
  expect(after.no_more_than(before), "before " + before.text() + ", after " + after.text());
  return 0;
} catch (const std::exception& error) {
  std::cerr << "rank " + std::to_string(rank) + ": " + error.what() + "\n";
  return 1;
}

}  // namespace testing
}  // namespace ccoll

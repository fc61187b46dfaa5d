// SPDX-License-Identifier: Apache-2.0
#include "engine/copy_policy.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace ccoll {
namespace {

constexpr std::uint64_t kCached = 16 << 20;

CopySituation situation(std::uint64_t bytes) {
  return {.sends = true,
          .receives = true,
          .ranks = 2,
          .input_bytes = bytes,
          .output_bytes = bytes,
          .cached_bytes = kCached,
          .slice_bytes = std::min<std::uint64_t>(bytes, 128 << 10),
          .call_bytes = bytes};
}

CopySituation only_sends(std::uint64_t bytes) {
  auto made = situation(bytes);
  made.receives = false;
  return made;
}

CopySituation only_receives(std::uint64_t bytes) {
  auto made = situation(bytes);
  made.sends = false;
  return made;
}

CopySituation of_sum(CopySituation made) {
  made.reduces = true;
  return made;
}

/// A link within the process that has nothing real but its receiver's preference.
struct Preference {
  std::uint32_t loans = 0;
};

class Sender final : public SendLink {
 public:
  explicit Sender(Preference& preference) : preference_(preference) {}
  bool can_lend = true;
  bool copies_once() const override { return can_lend; }
  bool prefers_loans(LoanClass loans) const override {
    return (preference_.loans >> loans & 1) != 0;
  }
  bool has_room() override { return true; }
  std::byte* room(std::size_t) override { return nullptr; }
  void push(const SliceHeader&) override {}
  void lend(const SliceHeader&, const std::byte*, Copier) override {}
  bool progress() override { return false; }
  bool drained() override { return true; }
  void revoke() override {}
  bool connected() const override { return true; }
  const Failure* failure() const override { return nullptr; }

 private:
  Preference& preference_;
};

class Receiver final : public ReceiveLink {
 public:
  explicit Receiver(Preference& preference) : preference_(preference) {}
  void prefer_loans(LoanClass loans, bool prefers) override {
    const std::uint32_t bit = 1U << loans;
    preference_.loans = prefers ? preference_.loans | bit : preference_.loans & ~bit;
  }
  const SliceHeader* peek() override { return nullptr; }
  void offer(std::byte*, std::size_t) override {}
  const View* front() override { return nullptr; }
  bool whole() const override { return false; }
  bool connected() const override { return true; }
  bool begin_read() override { return true; }
  bool pop() override { return true; }
  void revoke() override {}
  const Failure* failure() const override { return nullptr; }

 private:
  Preference& preference_;
};

}  // namespace

TEST_CASE("copy rules: the table", "[engine]") {
  struct Row {
    std::string name;
    CopySituation situation;
    std::string rules;
  };
  auto many = only_sends(256 << 10);
  many.ranks = 4;
  auto private_sizes = only_receives(256 << 10);
  private_sizes.call_bytes = 0;
  const std::vector<Row> rows{
      {"all_gather, short", situation(8 << 10), "the receiver copies; no trial"},
      {"all_gather", situation(256 << 10), "the receiver copies, or the sender copies; own trial"},
      {"all_gather, beyond the caches", situation(kCached),
       "the receiver copies, or the sender copies; own trial"},
      {"all_reduce", of_sum(situation(256 << 10)), "the sender copies; no trial"},
      {"broadcast, root of two", only_sends(256 << 10),
       "the sender copies, or the receiver copies; the receiver's trial"},
      {"broadcast, the other of two", only_receives(256 << 10),
       "the sender copies, or the receiver copies; a trial for the sender"},
      {"broadcast, root of four", many, "the sender copies; no trial"},
      {"gather_v, root of two", private_sizes, "the receiver copies; no trial"},
      {"reduce, not the root of two", of_sum(only_sends(256 << 10)),
       "the sender copies, or the receiver copies; the receiver's trial"},
      {"the same, beyond a core's own caches", of_sum(only_sends(2 << 20)),
       "the sender copies mapped memory, too, or the receiver copies; the receiver's trial"},
      {"reduce, root of two", of_sum(only_receives(256 << 10)),
       "the sender copies, or the receiver copies; a trial for the sender"},
      {"two copy together", only_sends(2 * kCached), "the sender copies; no trial"},
  };
  for (const auto& [name, situation, rules] : rows) {
    CAPTURE(name);
    CHECK(describe(copy_rules(situation)) == rules);
  }
  CHECK(copy_rules(only_sends(2 * kCached)).in_place == Copier::sender_always);
  CHECK(copy_rules(only_sends(8 * kCached)).in_place == Copier::sender);
  CHECK_FALSE(copy_rules(situation(kCached / 2)).streams);
  CHECK(copy_rules(situation(kCached)).streams);
}

namespace {

using Row = CopyCosts::Times;

/// Microseconds for 16 KiB, 64 KiB, 256 KiB and 1 MiB, one way and both ways.
struct Machine {
  std::string name;
  CopyCosts costs;
  std::string send;  ///< what carries most, by size
  std::string exchange;
};

// clang-format off
const std::vector<Machine> kMachines{
    {"AMD EPYC, Zen 5, cores near each other (measured)",
     {{Row{{1.2, 2.4, 6.9, 24.0}, {2.9, 6.1, 19.0, 72.0}},
       Row{{1.1, 2.9, 9.7, 42.5}, {3.7, 7.3, 21.3, 76.1}}}},
     "slots slots slots slots", "slots slots slots slots"},
    {"the same, cores far from each other (measured)",
     {{Row{{3.3, 4.2, 13.4, 49.5}, {2.9, 6.2, 18.8, 71.9}},
       Row{{3.3, 5.1, 20.2, 78.5}, {3.7, 7.3, 21.3, 77.1}}}},
     "loan slots slots slots", "slots slots slots loan"},
    {"Intel Xeon of 2023 (41 and 18.6 µs for 512 KiB measured, the rest in proportion)",
     {{Row{{2.0, 5.6, 20.8, 81.0}, {1.6, 3.0, 9.6, 36.6}},
       Row{{3.6, 10.8, 41.0, 162}, {2.0, 3.9, 12.5, 47.0}}}},
     "loan loan loan loan", "loan loan loan loan"},
    {"two sockets (invented)",
     {{Row{{6.0, 16.0, 60.0, 230}, {3.5, 9.0, 33.0, 125}},
       Row{{9.0, 30.0, 118, 460}, {4.0, 10.0, 36.0, 140}}}},
     "loan loan loan loan", "loan loan loan loan"},
    {"ARM server (invented)",
     {{Row{{1.8, 5.0, 16.0, 60.0}, {2.4, 5.2, 15.0, 55.0}},
       Row{{2.6, 8.0, 30.0, 118}, {3.0, 6.0, 17.0, 61.0}}}},
     "slots slots loan loan", "slots loan loan loan"},
};
// clang-format on

std::string way_of(const CopySituation& situation, const CopyCosts* costs) {
  const auto rules = copy_rules(situation, costs);
  const bool swaps = rules.other_is_cheaper.value_or(false);
  return (swaps ? rules.other : rules.usual) == Copier::receiver ? "loan" : "slots";
}

}  // namespace

TEST_CASE("copy rules: each machine's calls begin with what costs less there", "[engine]") {
  for (const auto& machine : kMachines) {
    CAPTURE(machine.name);
    std::string send, exchange;
    for (const auto bytes : CopyCosts::kSizes) {
      send += way_of(only_receives(bytes), &machine.costs) + " ";
      exchange += way_of(situation(bytes), &machine.costs) + " ";
      // Ranks that outnumber the cores wait for their turn, which the costs do not have.
      auto in_turns = situation(bytes);
      in_turns.oversubscribed = true;
      CHECK(copy_rules(in_turns, &machine.costs) == copy_rules(in_turns));
      // A rank that combines reads slots in any case.
      CHECK(copy_rules(of_sum(situation(bytes)), &machine.costs) ==
            copy_rules(of_sum(situation(bytes))));
    }
    CHECK(send == machine.send + " ");
    CHECK(exchange == machine.exchange + " ");
  }
}

TEST_CASE("copy rules: where a process may not read another one's memory, no costs are known",
          "[engine]") {
  // measure_copy_costs() gives nothing then, and links copy all through slots.
  for (const auto bytes : CopyCosts::kSizes)
    CHECK_FALSE(copy_rules(situation(bytes), nullptr).other_is_cheaper);
}

TEST_CASE("copy policy: an estimate counts from the first call on", "[engine]") {
  const auto& xeon = kMachines[2];
  Preference preference;
  Sender to(preference);
  Receiver from(preference);
  const std::array outgoing{std::pair<SendLink*, Rank>{&to, 1}};
  const std::array<ReceiveLink*, 1> incoming{&from};
  CopyPolicy both, receiver, sender;
  both.set(situation(256 << 10), &xeon.costs);
  receiver.set(only_receives(256 << 10), &xeon.costs);
  sender.set(only_sends(256 << 10), &xeon.costs);
  for (int call = 0; call < 2 * CopierChoice::kWindow; call++) {
    CAPTURE(call);
    both.begin(outgoing, incoming, false, true);
    CHECK(both.copier() == Copier::receiver);
    both.end();
    receiver.begin({}, incoming, false, true);
    sender.begin(outgoing, {}, false, true);
    CHECK(sender.copier() == Copier::receiver);
    receiver.end();
    sender.end();
  }
}

TEST_CASE("copy rules: two ranks of one call mean the same class of loans", "[engine]") {
  for (std::uint64_t bytes = 16 << 10; bytes <= std::uint64_t{1} << 34; bytes *= 2) {
    CAPTURE(bytes);
    const auto sender = copy_rules(only_sends(bytes)), receiver = copy_rules(only_receives(bytes));
    if (sender.trial != CopyRules::Trial::none) CHECK(sender.loans == receiver.loans);
    CHECK(receiver.loans < kLoanClasses / 2);
    const auto sum = copy_rules(of_sum(only_receives(bytes)));
    CHECK(sum.loans == receiver.loans + kLoanClasses / 2);
  }
}

TEST_CASE("copy policy: a rank that only sends goes the way that its receiver found faster",
          "[engine]") {
  using std::chrono::microseconds;
  // Links may be lent on from their first call, or from a later one.
  const int late = GENERATE(0, 3, 8);
  Preference preference;
  Sender to(preference);
  Receiver from(preference);
  const std::array outgoing{std::pair<SendLink*, Rank>{&to, 1}};
  const std::array<ReceiveLink*, 1> incoming{&from};
  CopyPolicy sender, receiver;
  sender.set(only_sends(256 << 10));
  receiver.set(only_receives(256 << 10));
  int calls = 0;
  const auto call = [&](microseconds by_slots, microseconds by_loan) {
    to.can_lend = calls++ >= late;
    sender.begin(outgoing, {}, false, true);
    receiver.begin({}, incoming, false, true);
    sender.end();
    receiver.end(sender.copier() == Copier::receiver ? by_loan : by_slots);
    return sender.copier();
  };
  constexpr int kWindow = CopierChoice::kWindow;
  const auto run = [&](int windows, microseconds by_slots, microseconds by_loan) {
    for (int i = 1; i < windows * kWindow; i++) call(by_slots, by_loan);
    return call(by_slots, by_loan);
  };
  // The last call of each run is in a window without tries (copier_choice.hpp).
  CHECK(run(4, microseconds(20), microseconds(10)) == Copier::receiver);
  CHECK(run(4, microseconds(10), microseconds(20)) == Copier::sender);
  CHECK(run(4, microseconds(20), microseconds(10)) == Copier::receiver);
  CHECK(run(200, microseconds(20), microseconds(10)) == Copier::receiver);
}

TEST_CASE("copy policy: two programs of one class may prefer different ways", "[engine]") {
  using std::chrono::microseconds;
  Preference preference;
  Receiver from(preference);
  const std::array<ReceiveLink*, 1> incoming{&from};
  CopyPolicy one, other;
  one.set(only_receives(256 << 10));
  other.set(only_receives(300 << 10));
  const auto loans = copy_rules(only_receives(256 << 10)).loans;
  REQUIRE(loans == copy_rules(only_receives(300 << 10)).loans);
  const auto run = [&](CopyPolicy& policy, microseconds by_slots, microseconds by_loan) {
    policy.begin({}, incoming, false, true);
    policy.end(policy.copier() == Copier::receiver ? by_loan : by_slots);
  };
  for (int i = 0; i < CopierChoice::kWindow; i++) {
    run(one, microseconds(20), microseconds(10));
    run(other, microseconds(10), microseconds(20));
  }
  for (int i = 0; i < 3; i++) {
    run(one, microseconds(20), microseconds(10));
    CHECK((preference.loans >> loans & 1) == 1);
    run(other, microseconds(10), microseconds(20));
    CHECK((preference.loans >> loans & 1) == 0);
  }
}

}  // namespace ccoll

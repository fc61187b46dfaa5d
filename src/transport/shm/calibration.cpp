// SPDX-License-Identifier: Apache-2.0
// Two threads move data to and fro as two ranks would, by either way. The kernel finds the pages of
// this process as it finds another one's.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "system/signals.hpp"
#include "transport/copy_costs.hpp"
#include "transport/link.hpp"
#include "transport/shm/ring.hpp"
#include "transport/shm/single_copy.hpp"

namespace ccoll {
namespace {

using Clock = std::chrono::steady_clock;
using Pattern = CopyCosts::Pattern;

constexpr std::size_t kMostBytes = CopyCosts::kSizes.back();
constexpr int kWarmUps = 2;
constexpr int kTimed = 5;
/// Between two passes the system may put the threads on other cores.
constexpr int kPasses = 3;

/// One thread's part: its data, its slots, and how many pieces it has filled and the other has
/// taken so far.
struct Side {
  std::vector<std::byte> input = std::vector<std::byte>(kMostBytes);
  std::vector<std::byte> output = std::vector<std::byte>(kMostBytes);
  std::vector<std::byte> slots = std::vector<std::byte>(kLinkSlots * shm::kSlotBytes);
  alignas(64) std::atomic<std::uint64_t> filled{0};
  alignas(64) std::atomic<std::uint64_t> taken{0};
};

struct Job {
  std::size_t bytes = 0;
  bool sends = false;
  bool receives = false;
  bool lends = false;
};

/// The first core that this process may use, and the third or else the second: neighbours are often
/// two threads of one core.
std::optional<std::array<int, 2>> two_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE && cores.size() < 3; core++)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  if (cores.size() < 2) return std::nullopt;
  return std::array{cores.front(), cores.back()};
}

/// Otherwise the system may leave both threads on one core, where they would take turns.
void stay_on(int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  sched_setaffinity(0, sizeof only, &only);
}

class Calibration {
 public:
  explicit Calibration(const shm::PeerMemory& self) : self_(self) {}

  /// The work of each of the two threads.
  void run(std::size_t rank);
  /// The least times of all passes that were over in time.
  const std::optional<CopyCosts>& costs() const { return costs_; }

 private:
  bool is_over();
  /// Waits until `condition` holds; false if time ran out.
  template <typename Condition>
  bool wait(Condition condition) {
    for (int polls = 1; !condition(); polls++)
      if (polls % 64 == 0 && is_over()) return false;
    return true;
  }
  /// Both threads meet; false if time ran out.
  bool meet(std::size_t rank) {
    met_[rank].fetch_add(1);
    return wait([&] { return met_[1 - rank].load() >= met_[rank].load(); });
  }
  bool transfer(Side& mine, Side& theirs, const Job& job);
  bool transfer_by_slots(Side& mine, Side& theirs, const Job& job);
  bool transfer_by_loan(Side& mine, Side& theirs, const Job& job);
  /// The least time of one transfer, in microseconds; nothing if time ran out. Other work makes
  /// times longer.
  std::optional<double> measure(std::size_t rank, Pattern pattern, bool lends, std::size_t bytes);
  /// All times once.
  std::optional<CopyCosts> pass(std::size_t rank);

  const shm::PeerMemory self_;
  const Clock::time_point end_ = Clock::now() + kCalibrationLimit;
  std::array<Side, 2> sides_;
  std::array<std::atomic<std::uint64_t>, 2> met_{};
  std::atomic<bool> is_over_{false};
  std::optional<CopyCosts> costs_;  ///< rank 0's
};

bool Calibration::is_over() {
  if (Clock::now() >= end_) is_over_ = true;
  return is_over_;
}

bool Calibration::transfer_by_slots(Side& mine, Side& theirs, const Job& job) {
  const auto piece = std::min(job.bytes, shm::slot_bytes_for(job.bytes));
  const std::uint64_t pieces = job.bytes / piece;
  const auto place = [&](Side& side, std::uint64_t number) {
    return side.slots.data() + number % kLinkSlots * shm::kSlotBytes;
  };
  const auto first_filled = mine.filled.load(), first_taken = theirs.taken.load();
  std::uint64_t sent = job.sends ? 0 : pieces, received = job.receives ? 0 : pieces;
  return wait([&] {
    while (sent < pieces && first_filled + sent - mine.taken.load() < kLinkSlots) {
      std::memcpy(place(mine, first_filled + sent), mine.input.data() + sent * piece, piece);
      mine.filled.store(first_filled + ++sent);
      if (job.receives) break;
    }
    while (received < pieces && theirs.filled.load() > first_taken + received) {
      std::memcpy(mine.output.data() + received * piece, place(theirs, first_taken + received),
                  piece);
      theirs.taken.store(first_taken + ++received);
      if (job.sends) break;
    }
    return sent == pieces && received == pieces;
  });
}

bool Calibration::transfer_by_loan(Side& mine, Side& theirs, const Job& job) {
  if (job.sends) mine.filled.fetch_add(1);
  if (job.receives) {
    if (!wait([&] { return theirs.filled.load() > theirs.taken.load(); })) return false;
    const auto address = reinterpret_cast<std::uintptr_t>(theirs.input.data());
    if (!self_.read(address, mine.output.data(), job.bytes)) return false;
    theirs.taken.fetch_add(1);
  }
  return !job.sends || wait([&] { return mine.taken.load() == mine.filled.load(); });
}

bool Calibration::transfer(Side& mine, Side& theirs, const Job& job) {
  return job.lends ? transfer_by_loan(mine, theirs, job) : transfer_by_slots(mine, theirs, job);
}

std::optional<double> Calibration::measure(std::size_t rank, Pattern pattern, bool lends,
                                           std::size_t bytes) {
  const bool both = pattern == Pattern::both_ways;
  const Job job{bytes, both || rank == 0, both || rank == 1, lends};
  auto& mine = sides_[rank];
  auto least = Clock::duration::max();
  for (int i = 0; i < kWarmUps + kTimed; i++) {
    // Programs send what they have just computed.
    std::memset(mine.input.data(), i, bytes);
    if (!meet(rank)) return std::nullopt;
    const auto begun = Clock::now();
    if (!transfer(mine, sides_[1 - rank], job) || !meet(rank)) return std::nullopt;
    if (i >= kWarmUps) least = std::min(least, Clock::now() - begun);
  }
  return std::chrono::duration<double, std::micro>(least).count();
}

CopyCosts least_of(CopyCosts costs, const CopyCosts& others) {
  const auto least = [](double a, double b) { return std::min(a, b); };
  for (std::size_t p = 0; p < costs.patterns.size(); p++) {
    auto& mine = costs.patterns[p];
    const auto& theirs = others.patterns[p];
    std::ranges::transform(mine.slots, theirs.slots, mine.slots.begin(), least);
    std::ranges::transform(mine.loan, theirs.loan, mine.loan.begin(), least);
  }
  return costs;
}

std::optional<CopyCosts> Calibration::pass(std::size_t rank) {
  CopyCosts costs;
  for (const auto pattern : {Pattern::one_way, Pattern::both_ways}) {
    auto& times = costs.patterns[static_cast<std::size_t>(pattern)];
    for (std::size_t i = 0; i < CopyCosts::kSizes.size(); i++) {
      const auto slots = measure(rank, pattern, false, CopyCosts::kSizes[i]);
      const auto loan = measure(rank, pattern, true, CopyCosts::kSizes[i]);
      if (!slots || !loan) return std::nullopt;
      times.slots[i] = *slots;
      times.loan[i] = *loan;
    }
  }
  return costs;
}

void Calibration::run(std::size_t rank) {
  for (int i = 0; i < kPasses; i++) {
    const auto measured = pass(rank);
    if (!measured) return;
    if (rank == 0) costs_ = costs_ ? least_of(*costs_, *measured) : *measured;
  }
}

bool is_plausible(const CopyCosts& costs) {
  return std::ranges::all_of(costs.patterns, [](const CopyCosts::Times& times) {
    return std::ranges::is_sorted(times.slots) && std::ranges::is_sorted(times.loan);
  });
}

}  // namespace

std::optional<CopyCosts> measure_copy_costs() {
  const auto self = shm::PeerMemory::reach(getpid(), shm::process_mark());
  const auto cores = two_cores();
  if (!self || !cores) return std::nullopt;
  try {
    const auto calibration = std::make_unique<Calibration>(*self);
    {
      const SignalsBlocked blocked;
      std::array<std::jthread, 2> threads;
      for (std::size_t rank = 0; rank < threads.size(); rank++)
        threads[rank] = std::jthread([&, rank] {
          stay_on((*cores)[rank]);
          calibration->run(rank);
        });
    }
    const auto& costs = calibration->costs();
    // Where more bytes seem to take less time, other work has come between.
    return costs && is_plausible(*costs) ? costs : std::nullopt;
  } catch (const std::exception&) {
    // Without memory, or a second thread, there are no estimates. A first thread waits in vain.
    return std::nullopt;
  }
}

}  // namespace ccoll

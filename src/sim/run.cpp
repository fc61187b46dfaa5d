// SPDX-License-Identifier: Apache-2.0
#include "sim/run.hpp"

#include "sim/machine.hpp"

namespace ccoll::sim {
namespace {

/// With fewer whole windows left, skipping gains nothing.
constexpr std::uint64_t kWorthWhile = 8;

/// Detects that a state equals the state of some windows ago, and skips. It keeps a state at
/// windows 1, 2, 4, 8, …, so it finds a repetition wherever that begins (Brent 1980).
class Repetition {
 public:
  explicit Repetition(const System& system) : system_(system) {}

  void look(Machine& machine) {
    const std::uint64_t window = machine.window();
    const std::uint64_t furthest = machine.furthest();
    if (found_ || furthest + kWorthWhile > system_.whole_windows) return;
    const std::uint64_t hash = hash_of(machine);
    if (window > kept_window_ && hash == kept_hash_ && is_kept(machine)) {
      const std::uint64_t period = window - kept_window_;
      const std::uint64_t times = (system_.whole_windows - 1 - furthest) / period;
      const Picoseconds passed = machine.now() - kept_now_;
      machine.skip(times * period, static_cast<Picoseconds>(times) * passed);
      found_ = true;
    } else if (window >= next_) {
      keep(machine, hash);
    }
  }

 private:
  static std::uint64_t hash_of(const Machine& machine) {
    std::uint64_t hash = 0;
    machine.describe([&](std::int64_t value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 29;
    });
    return hash;
  }

  void keep(const Machine& machine, std::uint64_t hash) {
    kept_.clear();
    machine.describe([&](std::int64_t value) { kept_.push_back(value); });
    kept_hash_ = hash;
    kept_window_ = machine.window();
    kept_now_ = machine.now();
    next_ = 2 * kept_window_;
  }

  bool is_kept(const Machine& machine) const {
    std::size_t place = 0;
    bool equal = true;
    machine.describe([&](std::int64_t value) {
      equal = equal && place < kept_.size() && kept_[place] == value;
      ++place;
    });
    return equal && place == kept_.size();
  }

  const System& system_;
  bool found_ = false;
  std::uint64_t next_ = 1;
  std::vector<std::int64_t> kept_;
  std::uint64_t kept_hash_ = 0;
  std::uint64_t kept_window_ = 0;
  Picoseconds kept_now_ = 0;
};

}  // namespace

Result<Outcome> run(const System& system, const RunOptions& options) {
  Machine machine(system, options.arrivals);
  Repetition repetition(system);
  while (machine.advance(options.max_steps)) {
    if (machine.outcome().steps > options.max_steps)
      return fail(ErrorKind::exhausted, "more than {} steps", options.max_steps);
    if (options.skip_repetitions) repetition.look(machine);
  }
  if (machine.finished()) return machine.outcome();
  return fail(ErrorKind::internal, "lanes wait for each other with {} slots per link",
              system.network.slots_per_link);
}

}  // namespace ccoll::sim

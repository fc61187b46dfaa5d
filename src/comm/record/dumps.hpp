// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part for dumps of its flight recorder: its last operations and those under way,
/// for its caller and for files.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collectives/collective_operation.hpp"
#include "comm/failures/failures.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/progress/progress.hpp"
#include "comm/record/dump_signal.hpp"
#include "comm/record/record.hpp"
#include "comm/under_way.hpp"

namespace ccoll {

class Dumps {
 public:
  Dumps(const Self& self, Progress& progress, Record& record, const UnderWay& under_way,
        const Failures& failures)
      : self_(self),
        progress_(progress),
        record_(record),
        under_way_(under_way),
        failures_(failures) {}

  /// The communicator has been made: signals, and failures of others of its rank, ask for dumps.
  /// `self` is this object; it is held while one is written.
  void begin(const std::shared_ptr<Dumps>& self);
  /// The rank and communicator that the dumps are about.
  const Self& self() const { return self_; }
  /// Returns the flight recorder's contents as JSON. Takes the owner flag.
  std::string text();
  /// Writes the dump to CCOLL_DUMP's directory, if there is one. If another thread holds the owner
  /// flag it returns at once, and that thread or the service thread writes it.
  void request(std::string reason);
  /// Writes the dump that was requested, if one was.
  void write_requested(Owned owned) noexcept;
  void write(Owned owned, std::string_view reason) noexcept;
  /// Runs before operations end with a failure.
  void keep_standing(Owned owned) noexcept;

 private:
  std::vector<dump::Peer> peers(const std::vector<Rank>& ranks) const;
  dump::UnderWay shown(const CollectiveOperation& operation, const Times& times) const;
  /// For a call of which only the device's part is left.
  dump::UnderWay shown_on_device(std::uint64_t number, const Times& times) const;
  Record::Standing standing(Owned owned) const;
  dump::Dump made(Owned owned, std::string_view reason) const;
  void try_to_write(int tries);

  const Self& self_;
  Progress& progress_;
  Record& record_;
  const UnderWay& under_way_;
  const Failures& failures_;
  std::weak_ptr<Dumps> this_;           // immutable after begin
  std::shared_ptr<DumpSignal> signal_;  // immutable after begin; null: no files
};

}  // namespace ccoll

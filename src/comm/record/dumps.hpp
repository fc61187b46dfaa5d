// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part for dumps of its flight recorder: its last operations and those under way,
/// for its caller and for files.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/api/call.hpp"
#include "comm/record/dump_signal.hpp"
#include "comm/record/record.hpp"

namespace ccoll {

class Owned;
struct CollectiveOperation;

class Dumps {
 public:
  Dumps(Communicator::Implementation& communicator, Record& record)
      : communicator_(communicator), record_(record) {}

  /// The communicator has been made: signals, and failures of others of its rank, ask for dumps.
  void begin();
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
  dump::UnderWay under_way(const CollectiveOperation& operation,
                           const FlightRecorder::Times& times) const;
  /// For a call of which only the device's part is left.
  dump::UnderWay under_way_on_device(std::uint64_t number,
                                     const FlightRecorder::Times& times) const;
  Record::Standing standing(Owned owned) const;
  dump::Dump made(Owned owned, std::string_view reason) const;
  void try_to_write(int tries);

  Communicator::Implementation& communicator_;
  Record& record_;
  std::shared_ptr<DumpSignal> signal_;  // immutable after begin; null: no files
};

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a staged passage has of landings (way.hpp).

#include <deque>
#include <vector>

#include "gpu/staging/pieces.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

/// One for each receive. Its two pieces are one round buffer, of which a step copies a piece's
/// worth at least: so it is known how many steps a message takes.
class StagedHostToDevice final : public HostToDevice {
 public:
  StagedHostToDevice(CopySteps& steps, PieceRoom pieces) : steps_(steps), pieces_(pieces) {}
  StagedHostToDevice(const StagedHostToDevice&) = delete;
  StagedHostToDevice& operator=(const StagedHostToDevice&) = delete;
  ~StagedHostToDevice() override { give_back(); }

  /// How many a message takes at most.
  static std::uint64_t steps(std::uint64_t bytes, std::uint64_t piece_bytes) {
    return bytes / piece_bytes + 1;
  }

  void begin(std::uint32_t from) override;
  std::size_t most_bytes() const override { return pieces_.piece_bytes() / 4; }
  std::byte* room(std::byte* there, std::size_t bytes) override;
  Status fill(std::size_t bytes) override;
  Status take_off() override;
  bool is_over() override;

 private:
  struct Flight {
    std::uint32_t step;
    std::uint64_t end;  ///< of what it has of the buffer
  };
  void give_back();
  void sweep();
  /// Where in the buffer what belongs `there` is to be put, from its beginning when it was taken.
  std::uint64_t place_for(const std::byte* there, std::size_t bytes) const;

  CopySteps& steps_;
  const PieceRoom pieces_;
  std::uint32_t from_ = 0;
  bool has_pieces_ = false;
  Piece buffer_;
  // Counted on and on, as if the buffer had no end.
  std::uint64_t begin_ = 0;  ///< of what is in use
  std::uint64_t end_ = 0;
  std::uint64_t room_at_ = 0;        ///< of what is to be filled next
  std::byte* there_ = nullptr;       ///< where that belongs
  std::vector<OrderedCopy> filled_;  ///< and no step has
  std::uint64_t filled_bytes_ = 0;
  std::deque<Flight> flights_;
};

}  // namespace ccoll::device

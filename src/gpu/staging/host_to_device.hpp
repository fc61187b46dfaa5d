// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The HostToDevice of a staged stream operation (way.hpp).

#include <deque>
#include <vector>

#include "gpu/staging/pieces.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

/// Each receive has one. Its two pieces are one ring buffer, from which a step copies at least a
/// piece's worth: so the number of a message's steps is known.
class StagedHostToDevice final : public HostToDevice {
 public:
  StagedHostToDevice(CopySteps& steps, PieceRoom pieces) : steps_(steps), pieces_(pieces) {}
  StagedHostToDevice(const StagedHostToDevice&) = delete;
  StagedHostToDevice& operator=(const StagedHostToDevice&) = delete;
  ~StagedHostToDevice() override { give_back(); }

  /// The most steps that a message takes.
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
    std::uint64_t end;  ///< of its bytes in the buffer
  };
  void give_back();
  void sweep();
  /// The place in the buffer for what belongs at `there`, counted since the buffer was taken.
  std::uint64_t place_for(const std::byte* there, std::size_t bytes) const;

  CopySteps& steps_;
  const PieceRoom pieces_;
  std::uint32_t from_ = 0;
  bool has_pieces_ = false;
  Piece buffer_;
  // These count on and on, as if the buffer had no end.
  std::uint64_t begin_ = 0;  ///< of the bytes in use
  std::uint64_t end_ = 0;
  std::uint64_t room_at_ = 0;        ///< of the bytes to be filled next
  std::byte* there_ = nullptr;       ///< where those belong
  std::vector<OrderedCopy> filled_;  ///< in no step yet
  std::uint64_t filled_bytes_ = 0;
  std::deque<Flight> flights_;
};

}  // namespace ccoll::device

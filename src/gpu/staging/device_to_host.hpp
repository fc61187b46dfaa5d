// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The DeviceToHost of a staged stream operation (way.hpp).

#include <deque>

#include "gpu/staging/pieces.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

/// Each send has one.
class StagedDeviceToHost final : public DeviceToHost {
 public:
  StagedDeviceToHost(CopySteps& steps, PieceRoom pieces) : steps_(steps), pieces_(pieces) {}
  StagedDeviceToHost(const StagedDeviceToHost&) = delete;
  StagedDeviceToHost& operator=(const StagedDeviceToHost&) = delete;
  ~StagedDeviceToHost() override { give_back(); }

  /// The steps that a message takes.
  static std::uint64_t steps(std::uint64_t bytes, std::uint64_t piece_bytes) {
    return (bytes + piece_bytes - 1) / piece_bytes;
  }

  void begin(std::uint32_t to, const std::byte* from, std::uint64_t bytes) override;
  Status lift() override;
  std::span<const std::byte> lifted() const override;
  void lend(std::size_t bytes) override;
  bool take_back() override;

 private:
  struct CopiedRange {
    std::byte* data;
    std::size_t bytes;
    std::uint32_t step;
    std::size_t lent = 0;
  };
  void give_back();

  CopySteps& steps_;
  const PieceRoom pieces_;
  std::uint32_t to_ = 0;
  const std::byte* from_ = nullptr;  ///< the bytes yet to be copied
  std::uint64_t left_ = 0;           ///< how many those are
  bool has_pieces_ = false;
  Piece first_;                  ///< the first of two
  std::uint64_t parts_ = 0;      ///< ranges so far, which take the pieces in turn
  std::deque<CopiedRange> has_;  ///< in order
};

}  // namespace ccoll::device

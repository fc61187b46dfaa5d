// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's ear at the control path: takes what other ranks tell, on the service thread, to
/// the parts that it concerns.

#include <cstdint>
#include <optional>
#include <string>

#include "ccoll/communicator.hpp"
#include "control/control.hpp"

namespace ccoll {

class ControlNews final : public ControlObserver {
 public:
  explicit ControlNews(Communicator::Implementation& communicator) : communicator_(communicator) {}

  void failed(std::uint64_t communicator, const Failure& failure) override;
  void left(std::uint32_t rank) override;
  void lost(std::uint32_t rank, const Failure& failure) override;
  std::optional<Failure> compare(std::uint32_t peer, const Waiting& waiting) override;
  bool has_begun(std::uint64_t sequence) override;
  void in_cycle(std::uint64_t sequence, const std::string& cycle) override;

 private:
  Communicator::Implementation& communicator_;
};

}  // namespace ccoll

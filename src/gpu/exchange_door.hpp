// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the ranks of a host get an Exchange. Each opens a door, an abstract Unix socket, and sends
/// the others its address by some means that they trust; then they connect. A peer has to belong to
/// the same user and to know the door's secret. Knows no CUDA.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "gpu/exchange.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::device {

/// Plain bytes; all 0 if there is no door.
struct DoorAddress {
  std::array<std::uint64_t, 2> name{};
  std::array<std::uint64_t, 2> secret{};
  friend bool operator==(const DoorAddress&, const DoorAddress&) = default;
};

class ExchangeDoor final {
 public:
  static Result<ExchangeDoor> open();

  const DoorAddress& address() const { return address_; }
  /// Each rank calls it, when all doors are open; `addresses`: by rank.
  Result<std::unique_ptr<Exchange>> meet(std::uint32_t rank, std::span<const DoorAddress> addresses,
                                         Exchange::TimePoint deadline);

 private:
  ExchangeDoor(DoorAddress address, FileDescriptor listener)
      : address_(address), listener_(std::move(listener)) {}
  Result<FileDescriptor> connect(std::uint32_t rank, const DoorAddress& to,
                                 Exchange::TimePoint deadline) const;
  /// Empty if a stranger came.
  Result<std::optional<std::uint32_t>> accept(std::vector<FileDescriptor>& sockets,
                                              Exchange::TimePoint deadline) const;

  DoorAddress address_;
  FileDescriptor listener_;
};

}  // namespace ccoll::device

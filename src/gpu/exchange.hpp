// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the ranks of a host exchange at set-up what they share: bytes and file descriptors. Knows no
/// CUDA.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::device {

struct Parcel {
  std::string bytes;
  std::vector<FileDescriptor> files;
};

class Exchange {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~Exchange() = default;
  /// A collective call: waits for all ranks. Returns by rank what each gave: `bytes` and up to two
  /// `files`, which stay the caller's. The caller's own entry has no files.
  virtual Result<std::vector<Parcel>> swap(std::string_view bytes, std::span<const int> files,
                                           TimePoint deadline) = 0;
};

/// Uses connected Unix sockets (streams), one to each other rank.
class SocketExchange final : public Exchange {
 public:
  /// `sockets`: by rank; the rank's own entry is empty.
  SocketExchange(std::uint32_t rank, std::vector<FileDescriptor> sockets)
      : rank_(rank), sockets_(std::move(sockets)) {}

  Result<std::vector<Parcel>> swap(std::string_view bytes, std::span<const int> files,
                                   TimePoint deadline) override;

 private:
  Status send(std::uint32_t to, const std::string& frame, std::span<const int> files,
              TimePoint deadline) const;
  Result<Parcel> receive(std::uint32_t from, TimePoint deadline) const;
  Status read(std::uint32_t from, std::size_t bytes, Parcel& to, TimePoint deadline) const;
  Status wait(std::uint32_t peer, TimePoint deadline) const;

  const std::uint32_t rank_;
  const std::vector<FileDescriptor> sockets_;
};

}  // namespace ccoll::device

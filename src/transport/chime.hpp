// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What ends the sleeps of a rank: an eventfd that the bells of several communicators ring, from
/// this process and from others. Nobody reads it. Who sleeps at it has an epoll set of his own for
/// so long, in which every ring shows, and sees by his bell whether he was meant: so no ring is
/// taken by one sleeper from another, and descriptors are as many as sleepers, not communicators.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"
#include "system/segment.hpp"

namespace ccoll {

class Chime : public std::enable_shared_from_this<Chime> {
 public:
  static Result<std::shared_ptr<Chime>> make();
  /// Of a peer: the `number`-th of the process whose bells lie in `cells`. One descriptor, however
  /// many of its bells are known here.
  static std::shared_ptr<Chime> of_peer(FileDescriptor event, std::shared_ptr<const Segment> cells,
                                        std::uint32_t number);
  Chime(const Chime&) = delete;
  Chime& operator=(const Chime&) = delete;

  const FileDescriptor& event() const { return event_; }
  /// Below kNumbers; no two that a process has at a time have the same.
  std::uint32_t number() const { return number_; }
  static constexpr std::uint32_t kNumbers = 1 << 24;
  void ring();

  /// In an epoll set, the mark of this event among those of other descriptors.
  static constexpr std::uint64_t kMark = ~std::uint64_t{0};
  /// A new epoll set in which rings show, and whatever else is added to it.
  Result<FileDescriptor> make_set() const;

  /// Such a set, one sleeper's until he gives it back; rings from before may show in it.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(set_, other.set_);
      return *this;
    }
    ~Lease();
    /// -1 where there was no descriptor for it.
    int descriptor() const { return set_.number(); }

   private:
    friend Chime;
    Lease(std::shared_ptr<Chime> of, FileDescriptor set)
        : of_(std::move(of)), set_(std::move(set)) {}
    std::shared_ptr<Chime> of_;
    FileDescriptor set_;
  };
  Lease lease_set();

 private:
  Chime(FileDescriptor event, std::uint32_t number, std::shared_ptr<const Segment> cells)
      : event_(std::move(event)), number_(number), cells_(std::move(cells)) {}

  /// So many sets wait for sleepers; each makes a ring a little longer.
  static constexpr std::size_t kMostFree = 4;

  const FileDescriptor event_;
  const std::uint32_t number_;
  const std::shared_ptr<const Segment> cells_;  ///< of a peer's: by which it is known
  std::mutex mutex_;
  std::vector<FileDescriptor> free_;  // guarded by mutex_
};

/// Those of one rank: its first communicators have one each, so that a ring wakes nobody else, and
/// later ones share these. Thread-safe.
class Chimes {
 public:
  Result<std::shared_ptr<Chime>> next();

 private:
  std::mutex mutex_;
  std::array<std::weak_ptr<Chime>, 4> all_;  // guarded by mutex_
};

}  // namespace ccoll

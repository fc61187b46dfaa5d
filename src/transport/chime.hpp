// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ends the sleeps of a rank: an eventfd that the bells of several communicators ring, from this
/// process and others. Nobody reads it. Each sleeper has its own epoll set, in which every ring
/// shows. Its own bell says whether the ring was meant for it. So no sleeper takes another's ring,
/// and there are as many descriptors as sleepers, not communicators.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"
#include "system/locks.hpp"
#include "system/segment.hpp"

namespace ccoll {

class Chime : public std::enable_shared_from_this<Chime> {
 public:
  static Result<std::shared_ptr<Chime>> make();
  /// A peer's chime: the `number`-th of the process whose bells lie in `cells`. It takes one
  /// descriptor, however many of its bells are known here.
  static std::shared_ptr<Chime> of_peer(FileDescriptor event, std::shared_ptr<const Segment> cells,
                                        std::uint32_t number);
  Chime(const Chime&) = delete;
  Chime& operator=(const Chime&) = delete;

  const FileDescriptor& event() const { return event_; }
  /// Below kNumbers; unique within a process at a time.
  std::uint32_t number() const { return number_; }
  static constexpr std::uint32_t kNumbers = 1 << 24;
  void ring();

  /// In an epoll set, the mark of this event among those of other descriptors.
  static constexpr std::uint64_t kMark = ~std::uint64_t{0};
  /// A new epoll set in which rings show, and anything else that is added to it.
  Result<FileDescriptor> make_set() const;

  /// Such a set on loan to one sleeper; earlier rings may show in it.
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
    /// -1 if there was no descriptor for it.
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

  /// Maximum number of idle sets; each makes a ring a little longer.
  static constexpr std::size_t kMostFree = 4;

  const FileDescriptor event_;
  const std::uint32_t number_;
  const std::shared_ptr<const Segment> cells_;  ///< set for a peer's chime, which it identifies
  Guarded<std::vector<FileDescriptor>> free_;
};

/// The chimes of one rank. The first communicators have one each, so that a ring wakes no other's
/// sleeper; later ones share these. Thread-safe.
class Chimes {
 public:
  Result<std::shared_ptr<Chime>> next();

 private:
  Guarded<std::array<std::weak_ptr<Chime>, 4>> all_;
};

}  // namespace ccoll

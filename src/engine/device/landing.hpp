// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a staged passage has its landings of (way.hpp). Needs CUDA's headers: only sources include
/// this.

#include <atomic>
#include <functional>
#include <memory>

#include "engine/device/cuda.hpp"
#include "engine/device/way.hpp"

namespace ccoll::device {

/// One for each receive; all of a passage copy by one stream.
class StagedLanding final : public Landing {
 public:
  /// Whose it is: lives until what is on its way has landed.
  class Owner : public std::enable_shared_from_this<Owner> {
   public:
    virtual ~Owner() = default;
    virtual int device() const = 0;
    virtual cudaStream_t landing_stream() const = 0;
    /// The caller's stream is held until landed().
    virtual void takes_off() = 0;
    /// By a thread of CUDA, or where nothing has come to fly.
    virtual void landed() noexcept = 0;
  };

  /// `room`: kBytes of pinned memory.
  StagedLanding(Owner& owner, std::byte* room) : owner_(owner), room_(room) {}
  bool is_free() const override { return is_free_.load(std::memory_order_acquire); }
  Status land(std::byte* there, const std::byte* data, std::size_t bytes) override;

 private:
  struct Flight {
    std::shared_ptr<Owner> owner;
    StagedLanding& landing;
  };
  static void CUDART_CB on_landed(void* flight);

  Owner& owner_;
  std::byte* const room_;
  std::atomic<bool> is_free_{true};  ///< released by a thread of CUDA's once the copy is there
};

}  // namespace ccoll::device

// SPDX-License-Identifier: Apache-2.0
#include "engine/device/landing.hpp"

#include <cstring>
#include <utility>

#include "engine/device/leases.hpp"
#include "engine/device/stream_hold.hpp"

namespace ccoll::device {

void StagedLanding::on_landed(void* flight) {
  const InListener here;
  const std::unique_ptr<Flight> ended(static_cast<Flight*>(flight));
  ended->landing.is_free_.store(true, std::memory_order_release);
  ended->owner->landed();
}

Status StagedLanding::land(std::byte* there, const std::byte* data, std::size_t bytes) {
  CCOLL_CHECK(is_free() && bytes <= kBytes, "{} bytes", bytes);
  const CurrentDevice current(owner_.device());
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  auto flight = std::make_unique<Flight>(Flight{owner_.shared_from_this(), *this});
  std::memcpy(room_, data, bytes);
  CCOLL_TRY(
      cuda_status(cudaMemcpyAsync(there, room_, bytes, cudaMemcpyDefault, owner_.landing_stream()),
                  fmt::format("copying {} bytes that have come to the device", bytes)));
  is_free_.store(false, std::memory_order_relaxed);
  owner_.takes_off();
  auto told = put_function(owner_.landing_stream(), &on_landed, flight.get());
  if (told)
    (void)flight.release();
  else  // It may still be copied: the caller's stream is held for good.
    keep_for_ever(std::shared_ptr<Flight>(std::move(flight)));
  return told;
}

}  // namespace ccoll::device

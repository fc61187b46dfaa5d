// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging/device_to_host.hpp"

#include <algorithm>

namespace ccoll::device {

void StagedDeviceToHost::give_back() {
  if (std::exchange(has_pieces_, false)) pieces_.give_back(Pieces::Direction::out, to_);
}

void StagedDeviceToHost::begin(std::uint32_t to, const std::byte* from, std::uint64_t bytes) {
  CCOLL_CHECK(!has_pieces_ && left_ == 0, "{} bytes of another message", left_);
  to_ = to;
  from_ = from;
  left_ = bytes;
  parts_ = 0;
}

Status StagedDeviceToHost::lift() {
  if (left_ > 0 && !has_pieces_) has_pieces_ = pieces_.take(Pieces::Direction::out, to_, first_);
  while (has_pieces_ && left_ > 0 && has_.size() < 2) {
    const auto bytes = std::min(left_, pieces_.piece_bytes());
    const auto at = parts_++ % 2 * pieces_.stride() + misalignment(from_);
    const OrderedCopy copies[] = {{from_, first_.on_device + at, bytes}};
    const auto step = steps_.order(copies);
    if (!step) return tl::unexpected(step.error());
    has_.push_back({first_.here + at, bytes, *step});
    from_ += bytes;
    left_ -= bytes;
  }
  return {};
}

std::span<const std::byte> StagedDeviceToHost::lifted() const {
  // A lent piece comes back as a whole: while it is read, the other one is filled.
  if (has_.empty() || !steps_.is_over(has_.front().step)) return {};
  const CopiedRange& part = has_.front();
  return {part.data + part.lent, part.bytes - part.lent};
}

void StagedDeviceToHost::lend(std::size_t bytes) { has_.front().lent += bytes; }

bool StagedDeviceToHost::take_back() {
  if (has_.empty() || has_.front().lent < has_.front().bytes) return false;
  has_.pop_front();
  if (has_.empty() && left_ == 0) give_back();
  return true;
}

}  // namespace ccoll::device

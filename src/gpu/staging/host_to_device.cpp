// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging/host_to_device.hpp"

#include <utility>

namespace ccoll::device {

void StagedHostToDevice::give_back() {
  if (std::exchange(has_pieces_, false)) pieces_.give_back(Pieces::Direction::in, from_);
}

void StagedHostToDevice::begin(std::uint32_t from) {
  CCOLL_CHECK(!has_pieces_, "rank {}'s message has yet to land", from_);
  from_ = from;
}

std::uint64_t StagedHostToDevice::place_for(const std::byte* there, std::size_t bytes) const {
  // The place is aligned as `there`, so that words are copied whole.
  const auto size = 2 * pieces_.stride();
  const auto aligned = [&](std::uint64_t at) {
    return at + (misalignment(there) - at) % sizeof(Word16);
  };
  const auto at = aligned(end_);
  return at % size + bytes <= size ? at : aligned((at / size + 1) * size);
}

std::byte* StagedHostToDevice::room(std::byte* there, std::size_t bytes) {
  CCOLL_CHECK(bytes <= most_bytes(), "{} bytes", bytes);
  if (!has_pieces_) {
    has_pieces_ = pieces_.take(Pieces::Direction::in, from_, buffer_);
    if (!has_pieces_) return nullptr;
    begin_ = end_ = 0;
  }
  sweep();
  const auto size = 2 * pieces_.stride();
  const auto at = place_for(there, bytes);
  if (at + bytes - begin_ > size) return nullptr;
  room_at_ = at;
  there_ = there;
  return buffer_.here + at % size;
}

Status StagedHostToDevice::fill(std::size_t bytes) {
  const std::byte* const from = buffer_.on_device + room_at_ % (2 * pieces_.stride());
  end_ = room_at_ + bytes;
  filled_bytes_ += bytes;
  const bool goes_on = !filled_.empty() && filled_.back().to + filled_.back().bytes == there_ &&
                       filled_.back().from + filled_.back().bytes == from;
  if (goes_on)
    filled_.back().bytes += bytes;
  else
    filled_.push_back({from, there_, bytes});
  const bool is_enough =
      filled_bytes_ >= pieces_.piece_bytes() || filled_.size() == CopyOrder::kMost;
  return is_enough ? take_off() : Status();
}

Status StagedHostToDevice::take_off() {
  if (filled_.empty()) return {};
  const auto step = steps_.order(filled_);
  if (!step) return tl::unexpected(step.error());
  flights_.push_back({*step, end_});
  filled_.clear();
  filled_bytes_ = 0;
  return {};
}

void StagedHostToDevice::sweep() {
  for (; !flights_.empty() && steps_.is_over(flights_.front().step); flights_.pop_front())
    begin_ = flights_.front().end;
}

bool StagedHostToDevice::is_over() {
  sweep();
  if (!filled_.empty() || !flights_.empty()) return false;
  give_back();
  return true;
}

}  // namespace ccoll::device

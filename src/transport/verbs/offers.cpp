// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/offers.hpp"

#include <algorithm>
#include <utility>

#include "core/crc32c.hpp"

namespace ccoll::verbs {
namespace {

std::uint32_t checksum_of(const Offer& offer) {
  return crc32c(0, &offer, offsetof(Offer, checksum));
}

}  // namespace

bool TakenOffers::take(const Offer& offer) {
  seen_++;
  if (offer.checksum != checksum_of(offer)) return false;
  offers_.push_back(offer);
  return true;
}

const Offer* TakenOffers::for_slice(std::uint64_t begin, std::size_t bytes) {
  while (!offers_.empty() && offers_.front().begin + offers_.front().bytes <= begin)
    offers_.pop_front();
  if (offers_.empty()) return nullptr;
  const Offer& next = offers_.front();
  if (next.begin > begin || bytes > next.begin + next.bytes - begin) return nullptr;
  return next.is_of_one != 0 && bytes != next.bytes ? nullptr : &next;
}

Offer MadeOffers::make(Offer offer, Memory memory) {
  offer.checksum = checksum_of(offer);
  wanted_.push_back({offer, std::move(memory)});
  made_++;
  return offer;
}

bool MadeOffers::has_seen(std::uint32_t count) {
  if (count - known_ > made_ - known_) return false;
  known_ = count;
  return true;
}

const std::byte* MadeOffers::place_of(std::uint64_t begin, std::size_t bytes) const {
  const auto wanted = std::ranges::find_if(wanted_, [&](const Wanted& each) {
    return each.offer.begin <= begin && begin + bytes <= each.offer.begin + each.offer.bytes;
  });
  if (wanted == wanted_.end()) return nullptr;
  const Offer& offer = wanted->offer;
  return reinterpret_cast<const std::byte*>(offer.address + (begin - offer.begin));
}

void MadeOffers::drop_before(std::uint64_t begin) {
  while (!wanted_.empty() && wanted_.front().offer.begin + wanted_.front().offer.bytes <= begin)
    wanted_.pop_front();
}

}  // namespace ccoll::verbs

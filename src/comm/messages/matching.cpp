// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/matching.hpp"

#include <iterator>

#include "comm/messages/message_operation.hpp"

namespace ccoll {

bool matches(const Pattern& pattern, const Envelope& envelope) {
  return pattern.from.value_or(envelope.from) == envelope.from &&
         pattern.tag.value_or(envelope.tag) == envelope.tag;
}

void Matcher::post(MessageOperation* receive) {
  const auto& pattern = receive->pattern;
  posted_.emplace(Place{pattern.from.value_or(kAny), pattern.tag.value_or(kAny), posts_++},
                  receive);
}

MessageOperation* Matcher::take_receive(const Envelope& envelope) {
  auto first = posted_.end();
  for (const auto source : {envelope.from, kAny})
    for (const auto tag : {envelope.tag, kAny}) {
      const auto found = posted_.lower_bound({source, tag, 0});
      const bool matches =
          found != posted_.end() && found->first.source == source && found->first.tag == tag;
      if (matches && (first == posted_.end() || found->first.number < first->first.number))
        first = found;
    }
  if (first == posted_.end()) return nullptr;
  auto* const receive = first->second;
  posted_.erase(first);
  return receive;
}

MessageOperation* Matcher::one_from(Rank source) const {
  const auto found = posted_.lower_bound({source, 0, 0});
  return found == posted_.end() || found->first.source != source ? nullptr : found->second;
}

void Matcher::store(const Envelope& envelope, const std::byte* head, std::size_t head_bytes) {
  auto& [all, by_tag] = unexpected_[envelope.from];
  all.push_back({envelope, std::vector<std::byte>(head, head + head_bytes), arrivals_});
  by_tag.emplace(std::pair(envelope.tag, arrivals_++), std::prev(all.end()));
}

Matcher::Found Matcher::Arrived::find(std::optional<std::uint32_t> tag) {
  if (all.empty()) return std::nullopt;
  if (!tag) return all.begin();
  const auto found = by_tag.lower_bound({*tag, 0});
  return found == by_tag.end() || found->first.first != *tag ? Found() : found->second;
}

Matcher::Found Matcher::find(const Pattern& pattern) {
  if (pattern.from) {
    const auto known = unexpected_.find(*pattern.from);
    return known == unexpected_.end() ? Found() : known->second.find(pattern.tag);
  }
  Found first;
  for (auto& [source, arrived] : unexpected_) {
    const auto found = arrived.find(pattern.tag);
    if (found && (!first || (*found)->arrival < (*first)->arrival)) first = found;
  }
  return first;
}

Unexpected Matcher::take(Found found) {
  const auto place = *found;
  auto taken = std::move(*place);
  auto& [all, by_tag] = unexpected_.at(taken.envelope.from);
  by_tag.erase({taken.envelope.tag, taken.arrival});
  all.erase(place);
  return taken;
}

const std::list<Unexpected>& Matcher::from(Rank source) const {
  static const std::list<Unexpected> none;
  const auto found = unexpected_.find(source);
  return found == unexpected_.end() ? none : found->second.all;
}

void Matcher::clear() {
  posted_.clear();
  unexpected_.clear();
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "comm/matching.hpp"

#include <algorithm>

#include "comm/messages.hpp"

namespace ccoll {

bool matches(const Pattern& pattern, const Envelope& envelope) {
  return pattern.from.value_or(envelope.from) == envelope.from &&
         pattern.tag.value_or(envelope.tag) == envelope.tag;
}

void Matcher::post(MessageOperation* receive) {
  auto& queue = receive->pattern.from ? by_source_[*receive->pattern.from] : any_;
  queue.push_back({posted_++, receive});
}

Matcher::Queue::iterator Matcher::find_in(Queue& queue, const Envelope& envelope) {
  return std::ranges::find_if(
      queue, [&](const Posted& posted) { return matches(posted.receive->pattern, envelope); });
}

MessageOperation* Matcher::take_receive(const Envelope& envelope) {
  auto& named = by_source_[envelope.from];
  const auto by_name = find_in(named, envelope);
  const auto by_any = find_in(any_, envelope);
  const bool has_name = by_name != named.end(), has_any = by_any != any_.end();
  if (!has_name && !has_any) return nullptr;
  const bool use_name = has_name && (!has_any || by_name->number < by_any->number);
  auto* receive = (use_name ? by_name : by_any)->receive;
  if (use_name)
    named.erase(by_name);
  else
    any_.erase(by_any);
  return receive;
}

MessageOperation* Matcher::first_from(Rank source) const {
  const auto found = by_source_.find(source);
  return found == by_source_.end() || found->second.empty() ? nullptr
                                                            : found->second.front().receive;
}

void Matcher::store(const Envelope& envelope, const std::byte* head, std::size_t head_bytes) {
  unexpected_[envelope.from].push_back(
      {envelope, std::vector<std::byte>(head, head + head_bytes), arrived_++});
}

Matcher::Found Matcher::find(const Pattern& pattern) {
  const auto first_in = [&](std::list<Unexpected>& messages) -> Found {
    const auto found = std::ranges::find_if(
        messages, [&](const Unexpected& message) { return matches(pattern, message.envelope); });
    return found == messages.end() ? Found() : found;
  };
  if (pattern.from) {
    const auto known = unexpected_.find(*pattern.from);
    return known == unexpected_.end() ? Found() : first_in(known->second);
  }
  Found first;
  for (auto& [source, messages] : unexpected_) {
    const auto found = first_in(messages);
    if (found && (!first || (*found)->arrival < (*first)->arrival)) first = found;
  }
  return first;
}

Unexpected Matcher::take(Found found) {
  const auto place = *found;
  auto taken = std::move(*place);
  unexpected_.at(taken.envelope.from).erase(place);
  return taken;
}

const std::list<Unexpected>& Matcher::from(Rank source) const {
  static const std::list<Unexpected> none;
  const auto found = unexpected_.find(source);
  return found == unexpected_.end() ? none : found->second;
}

void Matcher::clear() {
  by_source_.clear();
  any_.clear();
  unexpected_.clear();
}

}  // namespace ccoll

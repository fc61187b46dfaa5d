// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/message_text.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "engine/describe.hpp"

namespace ccoll {

std::string name_of(const MessageOperation& operation, Rank own) {
  using What = MessageOperation::What;
  const auto label = label_behind(operation.label);
  const auto& [from, tag] = operation.pattern;
  const auto peer = from ? fmt::format("rank {}", *from) : "any rank";
  const auto which = tag ? fmt::format("tag {}", *tag) : "any tag";
  switch (operation.what) {
    case What::send:
      return fmt::format("send to {} {} ({} bytes{}) on rank {}", peer, which, operation.bytes,
                         label, own);
    case What::recv:
      return fmt::format("recv from {} {} (a buffer of {} bytes{}) on rank {}", peer, which,
                         operation.bytes, label, own);
    case What::probe:
      break;
  }
  return fmt::format("probe from {} {}{} on rank {}", peer, which, label, own);
}

std::string others_waiting(const Matcher& matcher, std::span<const Rank> ranks) {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> named;
  std::size_t count = 0;
  for (const auto rank : ranks)
    for (const auto& [envelope, head, arrival] : matcher.from(rank))
      if (count++ < kMostNamed)
        named.push_back(fmt::format("rank {} tag {} with {} bytes", envelope.from, envelope.tag,
                                    envelope.bytes));
  if (count == 0) return "";
  if (count > kMostNamed) named.push_back(fmt::format("{} more", count - kMostNamed));
  return fmt::format(" (others have: {})", joined(named));
}

std::string standing_of(const MessageOperation& operation, const std::string& others) {
  using Stage = MessageOperation::Stage;
  switch (operation.stage) {
    case Stage::queued:
      return "not sent yet, because the link has no room";
    case Stage::requested:
      return "announced, but not received";
    case Stage::sending:
      return fmt::format("{} of {} bytes sent", operation.moved_bytes, operation.bytes);
    case Stage::flushing:
      return "sent, but not yet taken";
    case Stage::arriving:
      return fmt::format("{} of {} bytes received", operation.moved_bytes,
                         operation.received->bytes);
    case Stage::landing:
      return "received in full, but not yet copied to the device";
    case Stage::posted:
      break;
  }
  return "no matching message has arrived" + others;
}

tl::unexpected<Failure> lost(const MessageOperation& operation, const Failure& failure, Rank own,
                             const std::string& others) {
  auto told = failure;
  told.message = fmt::format("{}, {}: {}", name_of(operation, own), standing_of(operation, others),
                             failure.message);
  return tl::unexpected(std::move(told));
}

}  // namespace ccoll

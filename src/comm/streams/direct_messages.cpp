// SPDX-License-Identifier: Apache-2.0
// Messages whose buffers are GPU memory, which RDMA reads and writes in place. This has never run
// on a card.
#include "comm/progress/owner.hpp"
#include "comm/streams/streams.hpp"
#include "system/log.hpp"

namespace ccoll {
bool Streams::make_direct(MessageOperation& operation, bool& needs_flush) {
  const bool sends = operation.what == MessageOperation::What::send;
  auto* const data = sends ? const_cast<std::byte*>(operation.input) : operation.output;
  if (with_.self.options().device.ordinal == kHost ||
      !check_device_of(data, with_.self.options().device.ordinal))
    return false;
  {
    const Owner owned(with_.progress);
    if (!with_.under_way.messages(owned).may_be_direct(operation)) return false;
  }
  const auto peer = *operation.pattern.from;
  if (const auto way = with_.self.transport_to(peer).value_or("no transport");
      way != "verbs" || with_.self.options().checksum) {
    // Most jobs have such pairs of ranks, and nothing is wrong with them.
    log_not_direct(LogLevel::info, peer,
                   way == "verbs" ? "slices carry checksums" : "they go by " + way);
    return false;
  }
  const auto exported = device::export_range({data, operation.bytes});
  if (!exported) {
    log_not_direct(LogLevel::warn, peer, exported.error().message);
    return false;
  }
  const Owner owned(with_.progress);
  auto made = with_.under_way.messages(owned).make_direct(
      operation, {data, operation.bytes, exported->file.number(), exported->offset});
  if (!made) {
    // A link that broke meanwhile is reported elsewhere.
    if (made.error().kind == ErrorKind::unsupported)
      log_not_direct(LogLevel::warn, peer, made.error().message);
    return false;
  }
  operation.direct = std::move(*made);
  if (!sends) needs_flush |= exported->needs_flush;
  return true;
}

void Streams::log_not_direct(LogLevel level, Rank peer, std::string_view why) {
  const auto bit = 1U << static_cast<unsigned>(level);
  if ((logged_not_direct_.fetch_or(bit) & bit) != 0) return;
  log().at(level,
           "rank {}: messages in streams with rank {} are copied through the host, though "
           "CCOLL_GPU_DIRECT is 1: {}; other pairs may be affected, too, without a further warning",
           with_.self.rank(), peer, why);
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
// Slices that arrive over a TCP stream in any pieces, and the frames of messages in them. The
// input: how many bytes arrive at a time, whether memory is offered for them, and the stream. A
// link that checks slices reads the stream's slices with checksums, and then the rest of the
// stream.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "comm/messages/message_frame.hpp"
#include "core/crc32c.hpp"
#include "fuzz/target.hpp"
#include "transport/tcp/link.hpp"

namespace ccoll {
namespace {

constexpr std::size_t kHeadBytes = 2;
constexpr std::size_t kMostSteps = 1 << 10;

/// The slices that a link is to read from the stream so far, in order.
class Expected {
 public:
  explicit Expected(std::string_view stream) : rest_(stream) {}

  /// The next header; empty if it is incomplete.
  std::optional<SliceHeader> header() const {
    if (rest_.size() < sizeof(SliceHeader)) return std::nullopt;
    SliceHeader header;
    std::memcpy(&header, rest_.data(), sizeof header);
    return header;
  }
  /// The next slice's payload; empty if it is incomplete.
  std::optional<std::string_view> payload() const {
    const auto next = header();
    if (!next || next->bytes > kMaxSliceBytes) return std::nullopt;
    const auto after = rest_.substr(sizeof(SliceHeader));
    return after.size() < next->bytes ? std::nullopt : std::optional(after.substr(0, next->bytes));
  }
  std::string_view rest() const { return rest_; }
  void skip() { rest_.remove_prefix(sizeof(SliceHeader) + payload()->size()); }
  void require_same(const ReceiveLink::View& view, bool checked) {
    auto next = header();
    if (next && checked) next->reserved = 0;
    fuzz::require(next && std::memcmp(&*next, &view.header, sizeof *next) == 0, "the next header");
    const auto bytes = payload();
    fuzz::require(bytes.has_value(), "a slice has come whole");
    fuzz::require(std::memcmp(bytes->data(), view.data, bytes->size()) == 0, "the same bytes");
    skip();
  }

 private:
  std::string_view rest_;
};

std::string with_checksums(std::string_view stream) {
  std::string checked;
  Expected slices(stream);
  for (; slices.payload(); slices.skip()) {
    tcp::WireHeader header{*slices.header(), 0};
    header.slice.reserved = 0;
    header.payload_checksum = crc32c(0, slices.payload()->data(), slices.payload()->size());
    header.slice.reserved = crc32c(0, &header, tcp::kCheckedHeaderBytes);
    checked.append(reinterpret_cast<const char*>(&header), tcp::kCheckedHeaderBytes);
    checked.append(*slices.payload());
  }
  return checked.append(slices.rest());
}

void check_message(const SliceHeader& header) {
  const auto frame = decode(header, 1);
  if (!frame) return;
  const auto again = decode(encode(*frame, header.bytes), 1);
  fuzz::require(again && again->kind == frame->kind && again->id == frame->id &&
                    again->bytes == frame->bytes && again->tag == frame->tag &&
                    again->requests_to_send == frame->requests_to_send &&
                    again->charged == frame->charged && again->in_slots == frame->in_slots,
                "a message's slice is read as it was written");
  const bool is_whole =
      frame->kind != Frame::Kind::eager || frame->requests_to_send || header.bytes == frame->bytes;
  fuzz::require(is_whole, "what is not announced comes whole");
}

/// Reads all slices that are available.
void drain(ReceiveLink& link, Expected& expected, std::vector<std::byte>& memory, bool offers,
           bool checked) {
  while (const auto* header = link.peek()) {
    check_message(*header);
    if (offers && header->bytes <= memory.size()) link.offer(memory.data(), header->bytes);
    const auto* view = link.front();
    if (view == nullptr) return;
    expected.require_same(*view, checked);
    fuzz::require(link.pop(), "what came over a wire is not taken back");
  }
}

void run(std::string_view slices, std::size_t at_a_time, bool offers, bool checked) {
  static const auto waiter = Waiter::make().value();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return;
  const FileDescriptor peer(ends[1]);
  auto connection = std::make_shared<Delivery<tcp::Connection>>();
  connection->deliver(tcp::Connection{FileDescriptor(ends[0])});
  std::optional<std::string> checked_as;
  if (checked) checked_as = "the link";
  tcp::TcpReceiveLink link(1, connection, waiter, checked_as);
  Expected expected(slices);
  const auto sums = checked ? with_checksums(slices) : std::string();
  std::string_view stream = checked ? sums : slices;
  std::vector<std::byte> memory(4096);
  while (!stream.empty() && link.failure() == nullptr) {
    const auto sent =
        send(peer.number(), stream.data(), std::min(at_a_time, stream.size()), MSG_NOSIGNAL);
    if (sent <= 0) return;
    stream.remove_prefix(static_cast<std::size_t>(sent));
    drain(link, expected, memory, offers, checked);
  }
  if (link.failure() != nullptr && checked)
    fuzz::require(!expected.payload(), "only what has no right checksum is refused");
  else if (link.failure() != nullptr)
    fuzz::require(expected.header() && expected.header()->bytes > kMaxSliceBytes,
                  "only a slice that is too long is refused");
}

}  // namespace
}  // namespace ccoll

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  if (size < kHeadBytes) return 0;
  const auto stream = fuzz::text_of(data, size).substr(kHeadBytes);
  const auto at_a_time = std::max<std::size_t>(data[0], stream.size() / kMostSteps + 1);
  for (const bool checked : {false, true}) run(stream, at_a_time, data[1] % 2 == 1, checked);
  return 0;
}

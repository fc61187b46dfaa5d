// SPDX-License-Identifier: Apache-2.0
// Slices that come over a TCP stream, however it is cut, and what those of messages say. The input:
// how many bytes come at a time, whether memory is offered for them, and the stream.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "comm/message_frame.hpp"
#include "fuzz/target.hpp"
#include "transport/tcp/link.hpp"

namespace ccoll {
namespace {

constexpr std::size_t kHeadBytes = 2;
constexpr std::size_t kMostSteps = 1 << 10;

/// What a link is to read: the slices of the stream so far, one after the other.
class Expected {
 public:
  explicit Expected(std::string_view stream) : rest_(stream) {}

  /// The next header; none if it is not whole yet.
  std::optional<SliceHeader> header() const {
    if (rest_.size() < sizeof(SliceHeader)) return std::nullopt;
    SliceHeader header;
    std::memcpy(&header, rest_.data(), sizeof header);
    return header;
  }
  void require_same(const ReceiveLink::View& view) {
    const auto next = header();
    fuzz::require(next && std::memcmp(&*next, &view.header, sizeof *next) == 0, "the next header");
    rest_.remove_prefix(sizeof(SliceHeader));
    fuzz::require(view.header.bytes <= kMaxSliceBytes && view.header.bytes <= rest_.size(),
                  "a slice has come whole");
    fuzz::require(std::memcmp(rest_.data(), view.data, view.header.bytes) == 0, "the same bytes");
    rest_.remove_prefix(view.header.bytes);
  }

 private:
  std::string_view rest_;
};

void check_message(const SliceHeader& header) {
  const auto frame = decode(header, 1);
  if (!frame) return;
  const auto again = decode(encode(*frame, header.bytes), 1);
  fuzz::require(again && again->kind == frame->kind && again->id == frame->id &&
                    again->bytes == frame->bytes && again->tag == frame->tag &&
                    again->wants_grant == frame->wants_grant && again->charged == frame->charged,
                "a message's slice is read as it was written");
  const bool is_whole =
      frame->kind != Frame::Kind::head || frame->wants_grant || header.bytes == frame->bytes;
  fuzz::require(is_whole, "what is not announced comes whole");
}

/// Reads what there is.
void drain(ReceiveLink& link, Expected& expected, std::vector<std::byte>& memory, bool offers) {
  while (const auto* header = link.peek()) {
    check_message(*header);
    if (offers && header->bytes <= memory.size()) link.offer(memory.data(), header->bytes);
    const auto* view = link.front();
    if (view == nullptr) return;
    expected.require_same(*view);
    fuzz::require(link.pop(), "what came over a wire is not taken back");
  }
}

void run(std::string_view stream, std::size_t at_a_time, bool offers) {
  static const auto waiter = Waiter::make().value();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return;
  const FileDescriptor peer(ends[1]);
  auto connection = std::make_shared<Delivery<FileDescriptor>>();
  connection->deliver(FileDescriptor(ends[0]));
  tcp::TcpReceiveLink link(1, connection, waiter);
  Expected expected(stream);
  std::vector<std::byte> memory(4096);
  while (!stream.empty() && link.failure() == nullptr) {
    const auto sent =
        send(peer.number(), stream.data(), std::min(at_a_time, stream.size()), MSG_NOSIGNAL);
    if (sent <= 0) return;
    stream.remove_prefix(static_cast<std::size_t>(sent));
    drain(link, expected, memory, offers);
  }
  if (link.failure() != nullptr)
    fuzz::require(expected.header() && expected.header()->bytes > kMaxSliceBytes,
                  "only a slice that is too long is refused");
}

}  // namespace
}  // namespace ccoll

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  if (size < kHeadBytes) return 0;
  const auto stream = fuzz::text_of(data, size).substr(kHeadBytes);
  run(stream, std::max<std::size_t>(data[0], stream.size() / kMostSteps + 1), data[1] % 2 == 1);
  return 0;
}

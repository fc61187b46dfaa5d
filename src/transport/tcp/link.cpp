// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/link.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ccoll::tcp {
namespace {

constexpr std::size_t kHeaderBytes = sizeof(SliceHeader);

/// What is read beyond a slice is copied once more, so little of it beside large slices, where the
/// next payload may be placed directly; more beside small ones, where it saves system calls.
constexpr std::size_t kLargeSlice = 16 << 10;
constexpr std::size_t kReadAhead = 8 << 10;
static_assert(kReadAhead > kHeaderBytes);

}  // namespace

bool Stream::take_over() {
  if (failure_) return false;
  if (const Failure* failure = connection_->failure()) {
    failure_ = *failure;
    return false;
  }
  auto socket = connection_->take();
  if (!socket) return false;
  socket_ = std::move(*socket);
  if (auto watched = waiter_->watch(fd()); !watched) failure_ = watched.error();
  return !failure_;
}

void Stream::broke(int code) {
  if (code == EAGAIN || code == EWOULDBLOCK || code == EINTR || failure_) return;
  failure_ = Failure{ErrorKind::peer_lost,
                     fmt::format("the connection to rank {} broke: {}", peer_, std::strerror(code)),
                     peer_};
}

void Stream::closed_by_peer() {
  if (!failure_)
    failure_ =
        Failure{ErrorKind::peer_lost, fmt::format("rank {} closed its connection", peer_), peer_};
}

void Stream::fail_with(Failure failure) {
  if (!failure_) failure_ = std::move(failure);
}

std::byte* TcpSendLink::room(std::size_t bytes) {
  CCOLL_CHECK(has_room(), "to rank {}", stream_.peer());
  auto& copy = slots_[pushed_ % kSlots].copy;
  if (copy.size() < bytes) copy.resize(bytes);
  return copy.data();
}

void TcpSendLink::push(const SliceHeader& header) {
  enqueue(header, slots_[pushed_ % kSlots].copy.data());
}

void TcpSendLink::lend(const SliceHeader& header, const std::byte* data) { enqueue(header, data); }

void TcpSendLink::enqueue(const SliceHeader& header, const std::byte* data) {
  CCOLL_CHECK(has_room(), "to rank {}", stream_.peer());
  Slot& slot = slots_[pushed_++ % kSlots];
  slot.header = header;
  slot.data = data;
}

std::size_t TcpSendLink::gather(std::array<iovec, 2 * kSlots>& parts) {
  std::size_t count = 0;
  std::size_t skip = sent_bytes_;
  for (std::uint64_t i = sent_; i < pushed_; i++) {
    Slot& slot = slots_[i % kSlots];
    if (skip < kHeaderBytes)
      parts[count++] = {reinterpret_cast<char*>(&slot.header) + skip, kHeaderBytes - skip};
    const std::size_t from = skip < kHeaderBytes ? 0 : skip - kHeaderBytes;
    if (slot.header.bytes > from)
      parts[count++] = {const_cast<std::byte*>(slot.data) + from, slot.header.bytes - from};
    skip = 0;
  }
  return count;
}

void TcpSendLink::advance(std::size_t bytes) {
  sent_bytes_ += bytes;
  while (sent_ < pushed_) {
    const std::size_t whole = kHeaderBytes + slots_[sent_ % kSlots].header.bytes;
    if (sent_bytes_ < whole) return;
    sent_bytes_ -= whole;
    sent_++;
  }
}

bool TcpSendLink::progress() {
  if (drained() || failure() || !stream_.ready()) return false;
  std::array<iovec, 2 * kSlots> parts;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = gather(parts);
  const ssize_t bytes = sendmsg(stream_.fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (bytes < 0) return stream_.broke(errno), false;
  advance(static_cast<std::size_t>(bytes));
  return true;
}

void TcpSendLink::revoke() {
  // Half a slice may be on its way: only ending the stream keeps the peer from taking the rest for
  // something else.
  if (drained()) return;
  stream_.fail_with({ErrorKind::aborted, "the call that was sending had failed", std::nullopt});
  if (stream_.ready() || stream_.fd() >= 0) shutdown(stream_.fd(), SHUT_RDWR);
}

void TcpReceiveLink::offer(std::byte* data, std::size_t bytes) {
  offered_ = data;
  offered_bytes_ = bytes;
}

void TcpReceiveLink::make_space(std::size_t bytes) {
  if (staging_.size() - staged_begin_ >= bytes) return;
  if (staged_begin_ > 0) {
    std::memmove(staging_.data(), staging_.data() + staged_begin_, staged());
    staged_end_ = staged();
    staged_begin_ = 0;
  }
  if (staging_.size() < bytes) staging_.resize(std::max<std::size_t>(bytes, 2 * kReadAhead));
}

bool TcpReceiveLink::read_some(std::byte* direct, std::size_t direct_bytes,
                               std::size_t staged_bytes) {
  std::array<iovec, 2> parts;
  int count = 0;
  if (direct_bytes > 0) parts[static_cast<std::size_t>(count++)] = {direct, direct_bytes};
  const std::size_t space = std::min(staging_.size() - staged_end_, staged_bytes);
  if (space > 0) parts[static_cast<std::size_t>(count++)] = {staging_.data() + staged_end_, space};
  const ssize_t bytes = readv(stream_.fd(), parts.data(), count);
  if (bytes < 0) return stream_.broke(errno), false;
  if (bytes == 0) return stream_.closed_by_peer(), false;
  const std::size_t placed = std::min(static_cast<std::size_t>(bytes), direct_bytes);
  placed_ += placed;
  staged_end_ += static_cast<std::size_t>(bytes) - placed;
  return true;
}

bool TcpReceiveLink::parse_header() {
  if (staged() < kHeaderBytes) {
    make_space(kReadAhead);
    if (!read_some(nullptr, 0, kReadAhead) || staged() < kHeaderBytes) return false;
  }
  std::memcpy(&view_.header, staging_.data() + staged_begin_, kHeaderBytes);
  staged_begin_ += kHeaderBytes;
  const std::size_t bytes = view_.header.bytes;
  if (bytes > kMaxSliceBytes) {
    stream_.fail_with(
        {ErrorKind::corrupt,
         fmt::format("a slice of {} bytes came, the most is {}", bytes, kMaxSliceBytes),
         std::nullopt});
    return false;
  }
  parsed_ = true;
  return true;
}

void TcpReceiveLink::choose_place() {
  const std::size_t bytes = view_.header.bytes;
  placing_ = true;
  placed_ = 0;
  destination_ = offered_ != nullptr && offered_bytes_ == bytes ? offered_ : nullptr;
  if (destination_ != nullptr) {
    placed_ = std::min(bytes, staged());
    std::memcpy(destination_, staging_.data() + staged_begin_, placed_);
    staged_begin_ += placed_;
    if (staged_begin_ == staged_end_) staged_begin_ = staged_end_ = 0;
  } else {
    make_space(bytes + (bytes >= kLargeSlice ? kHeaderBytes : kReadAhead));
  }
}

const SliceHeader* TcpReceiveLink::peek() {
  if (!parsed_ && (failure() || !stream_.ready() || !parse_header())) return nullptr;
  return &view_.header;
}

const ReceiveLink::View* TcpReceiveLink::front() {
  if (whole_) return &view_;
  if (failure() || !stream_.ready()) return nullptr;
  if (!parsed_ && !parse_header()) return nullptr;
  if (!placing_) choose_place();
  const std::size_t bytes = view_.header.bytes;
  const std::size_t ahead = bytes >= kLargeSlice ? kHeaderBytes : kReadAhead;
  if (destination_ != nullptr) {
    while (placed_ < bytes)
      if (!read_some(destination_ + placed_, bytes - placed_, ahead)) return nullptr;
    view_.data = destination_;
  } else {
    while (staged() < bytes)
      if (!read_some(nullptr, 0, bytes - staged() + ahead)) return nullptr;
    view_.data = staging_.data() + staged_begin_;
    staged_begin_ += bytes;
  }
  whole_ = true;
  return &view_;
}

bool TcpReceiveLink::pop() {
  whole_ = parsed_ = placing_ = false;
  destination_ = offered_ = nullptr;
  if (staged_begin_ == staged_end_) staged_begin_ = staged_end_ = 0;
  return true;
}

}  // namespace ccoll::tcp

// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/link.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/crc32c.hpp"
#include "transport/corruption.hpp"

namespace ccoll::tcp {
namespace {

/// Bytes read beyond a slice are copied again: read few behind large slices, whose next payload may
/// be placed directly, and more behind small ones, to save system calls.
constexpr std::size_t kLargeSlice = 16 << 10;
constexpr std::size_t kReadAhead = kLeastStaging / 2;
static_assert(kReadAhead > kCheckedHeaderBytes);

/// The checksum of a header, without the field that holds it.
std::uint32_t checksum_of(WireHeader header) {
  header.slice.reserved = 0;
  return crc32c(0, &header, kCheckedHeaderBytes);
}

}  // namespace

bool Stream::take_over() {
  if (failure_) return false;
  if (const Failure* failure = delivery_->failure()) {
    failure_ = *failure;
    return false;
  }
  auto connection = delivery_->take();
  if (!connection) return false;
  connection_ = std::move(*connection);
  if (!connection_.is_watched)
    if (auto watched = waiter_->watch(fd()); !watched) lack(std::move(watched.error()));
  return !failure_;
}

void Stream::lack(Failure failure) {
  failure_ = std::move(failure);
  // The peer is alive and would wait forever.
  shutdown(fd(), SHUT_RDWR);
}

void Stream::broke(int code) {
  if (code == EAGAIN || code == EWOULDBLOCK || failure_) return;
  // No event reports that memory is available again.
  if (code == ENOBUFS || code == ENOMEM)
    return lack(
        {ErrorKind::exhausted,
         fmt::format("the system has no memory for the connection to rank {} of the job: {}", peer_,
                     std::strerror(code)),
         std::nullopt});
  failure_ =
      lost_
          ? *lost_
          : Failure{ErrorKind::peer_lost,
                    fmt::format("the connection to rank {} broke: {}", peer_, std::strerror(code)),
                    peer_};
}

void Stream::closed_by_peer() {
  if (failure_) return;
  failure_ = lost_ ? *lost_
                   : Failure{ErrorKind::peer_lost,
                             fmt::format("rank {} closed its connection", peer_), peer_};
}

void Stream::peer_lost(const Failure& why) {
  lost_ = why;
  // If the peer had connected, the connection would have come before the news of its loss.
  if (!ready()) fail_with(why);
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

void TcpSendLink::lend(const SliceHeader& header, const std::byte* data, Copier /*copier*/) {
  enqueue(header, data);
}

void TcpSendLink::enqueue(const SliceHeader& header, const std::byte* data) {
  CCOLL_CHECK(has_room(), "to rank {}", stream_.peer());
  Slot& slot = slots_[pushed_++ % kSlots];
  slot.header.slice = header;
  slot.data = data;
  if (header_bytes_ == kPlainHeaderBytes) return;
  // Compute it now: the data are still in the cache from writing, and the kernel reads them soon.
  slot.header.payload_checksum = crc32c(0, data, header.bytes);
  slot.header.slice.reserved = checksum_of(slot.header);
}

std::size_t TcpSendLink::gather(std::array<iovec, 2 * kSlots>& parts) {
  std::size_t count = 0;
  std::size_t skip = sent_bytes_;
  for (std::uint64_t i = sent_; i < pushed_; i++) {
    Slot& slot = slots_[i % kSlots];
    if (skip < header_bytes_)
      parts[count++] = {reinterpret_cast<char*>(&slot.header) + skip, header_bytes_ - skip};
    const std::size_t from = skip < header_bytes_ ? 0 : skip - header_bytes_;
    const std::size_t bytes = slot.header.slice.bytes;
    if (bytes > from) parts[count++] = {const_cast<std::byte*>(slot.data) + from, bytes - from};
    skip = 0;
  }
  return count;
}

void TcpSendLink::advance(std::size_t bytes) {
  sent_bytes_ += bytes;
  while (sent_ < pushed_) {
    const std::size_t whole = header_bytes_ + slots_[sent_ % kSlots].header.slice.bytes;
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
  // Retry after EINTR: the edge-triggered wait does not report readiness again.
  ssize_t bytes = 0;
  do bytes = sendmsg(stream_.fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (bytes < 0 && errno == EINTR);
  if (bytes < 0) {
    stream_.broke(errno);
    if (!std::exchange(is_blocked_, true) && !failure()) blocked_times_++;
    return false;
  }
  is_blocked_ = false;
  advance(static_cast<std::size_t>(bytes));
  return true;
}

void TcpSendLink::revoke() {
  // Half a slice may be in flight: only closing the stream keeps the peer from misreading what
  // follows.
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
  if (staging_.size() < bytes) staging_.resize(std::max<std::size_t>(bytes, kLeastStaging));
}

bool TcpReceiveLink::read_some(std::byte* direct, std::size_t direct_bytes,
                               std::size_t staged_bytes) {
  std::array<iovec, 2> parts;
  int count = 0;
  if (direct_bytes > 0) parts[static_cast<std::size_t>(count++)] = {direct, direct_bytes};
  const std::size_t space = std::min(staging_.size() - staged_end_, staged_bytes);
  if (space > 0) parts[static_cast<std::size_t>(count++)] = {staging_.data() + staged_end_, space};
  ssize_t bytes = 0;
  do bytes = readv(stream_.fd(), parts.data(), count);
  while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return stream_.broke(errno), false;
  if (bytes == 0) return stream_.closed_by_peer(), false;
  const std::size_t placed = std::min(static_cast<std::size_t>(bytes), direct_bytes);
  placed_ += placed;
  staged_end_ += static_cast<std::size_t>(bytes) - placed;
  return true;
}

bool TcpReceiveLink::parse_header() {
  if (staged() < header_bytes_) {
    make_space(kReadAhead);
    if (!read_some(nullptr, 0, kReadAhead) || staged() < header_bytes_) return false;
  }
  std::memcpy(&view_.header, staging_.data() + staged_begin_, sizeof view_.header);
  if (checked_as_ && !check_header()) return false;
  staged_begin_ += header_bytes_;
  const std::size_t bytes = view_.header.bytes;
  if (bytes > kMaxSliceBytes) {
    stream_.fail_with(
        {ErrorKind::corrupt,
         fmt::format("a slice of {} bytes arrived; at most {} are allowed", bytes, kMaxSliceBytes),
         std::nullopt});
    return false;
  }
  parsed_ = true;
  return true;
}

bool TcpReceiveLink::check_header() {
  WireHeader header;
  std::memcpy(static_cast<void*>(&header), staging_.data() + staged_begin_, kCheckedHeaderBytes);
  payload_checksum_ = header.payload_checksum;
  view_.header.reserved = 0;
  return is_same(checksum_of(header), header.slice.reserved, "header");
}

bool TcpReceiveLink::check_payload() {
  const std::size_t bytes = view_.header.bytes;
  const auto found = crc32c(0, view_.data, bytes);
  return found == payload_checksum_ ||
         is_same(found, payload_checksum_, fmt::format("{} bytes", bytes));
}

bool TcpReceiveLink::is_same(std::uint32_t found, std::uint32_t expected, const std::string& what) {
  if (found == expected) return true;
  stream_.fail_with(corruption(*checked_as_, popped_, what, found, expected));
  return false;
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
    make_space(bytes + (bytes >= kLargeSlice ? header_bytes_ : kReadAhead));
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
  const std::size_t ahead = bytes >= kLargeSlice ? header_bytes_ : kReadAhead;
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
  if (checked_as_ && !check_payload()) return nullptr;
  whole_ = true;
  return &view_;
}

bool TcpReceiveLink::pop() {
  whole_ = parsed_ = placing_ = false;
  destination_ = offered_ = nullptr;
  popped_++;
  if (staged_begin_ == staged_end_) staged_begin_ = staged_end_ = 0;
  return true;
}

}  // namespace ccoll::tcp

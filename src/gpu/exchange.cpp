// SPDX-License-Identifier: Apache-2.0
#include "gpu/exchange.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "core/bytes.hpp"
#include "core/os_error.hpp"
#include "system/descriptors.hpp"

namespace ccoll::device {
namespace {

using Clock = std::chrono::steady_clock;

/// A socket takes so little as a whole.
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kHeadBytes = 4 + 4;

Failure of(Failure failure, std::uint32_t peer) {
  failure.message = fmt::format("rank {}: {}", peer, failure.message);
  failure.culprit = peer;
  return failure;
}

}  // namespace

Result<std::vector<Parcel>> SocketExchange::swap(std::string_view bytes, std::span<const int> files,
                                                 TimePoint deadline) {
  if (bytes.size() > kMostBytes || files.size() > 2) {
    return fail(ErrorKind::internal, "{} bytes and {} files to exchange: at most {} and 2",
                bytes.size(), files.size(), kMostBytes);
  }
  const auto frame =
      net::Writer().number(static_cast<std::uint32_t>(files.size())).text(bytes).take();
  const auto size = static_cast<std::uint32_t>(sockets_.size());
  for (std::uint32_t peer = 0; peer < size; ++peer) {
    if (peer == rank_) continue;
    if (auto sent = send(peer, frame, files, deadline); !sent) {
      return tl::unexpected(of(std::move(sent.error()), peer));
    }
  }
  std::vector<Parcel> parcels(size);
  parcels[rank_].bytes = bytes;
  for (std::uint32_t peer = 0; peer < size; ++peer) {
    if (peer == rank_) continue;
    auto came = receive(peer, deadline);
    if (!came) return tl::unexpected(of(std::move(came.error()), peer));
    parcels[peer] = std::move(*came);
  }
  return parcels;
}

Status SocketExchange::send(std::uint32_t to, const std::string& frame, std::span<const int> files,
                            TimePoint deadline) const {
  for (;;) {
    auto sent = shm::send_with_descriptors(sockets_[to].number(), frame, files);
    if (sent || sent.error().kind != ErrorKind::exhausted || Clock::now() >= deadline) return sent;
    // There may be room, and yet too many descriptors in flight.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Result<Parcel> SocketExchange::receive(std::uint32_t from, TimePoint deadline) const {
  Parcel parcel;
  CCOLL_TRY(read(from, kHeadBytes, parcel, deadline));
  net::Reader reader(parcel.bytes);
  const auto files = reader.number<std::uint32_t>();
  const auto bytes = reader.number<std::uint32_t>();
  if (bytes > kMostBytes) return fail(ErrorKind::corrupt, "its set-up message is invalid");
  parcel.bytes.clear();
  CCOLL_TRY(read(from, bytes, parcel, deadline));
  if (parcel.files.size() == files) return parcel;
  return fail(ErrorKind::exhausted,
              "{} of its {} descriptors arrived (is this rank's ulimit -n used up?)",
              parcel.files.size(), files);
}

Status SocketExchange::read(std::uint32_t from, std::size_t bytes, Parcel& to,
                            TimePoint deadline) const {
  while (to.bytes.size() < bytes) {
    CCOLL_TRY(wait(from, deadline));
    auto came = shm::receive_with_descriptors(sockets_[from].number(), bytes - to.bytes.size());
    if (!came && came.error().kind == ErrorKind::exhausted) continue;
    if (!came) return tl::unexpected(std::move(came.error()));
    to.bytes += came->bytes;
    std::ranges::move(came->descriptors, std::back_inserter(to.files));
  }
  return {};
}

Status SocketExchange::wait(std::uint32_t peer, TimePoint deadline) const {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd socket{sockets_[peer].number(), POLLIN, 0};
    const int ready = poll(&socket, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(ErrorKind::internal, "poll: {}", os_error(errno));
    if (Clock::now() >= deadline) {
      return fail(ErrorKind::timed_out, "it sent nothing in time");
    }
  }
}

}  // namespace ccoll::device

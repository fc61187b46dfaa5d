// SPDX-License-Identifier: Apache-2.0
#include "net/wire/frame.hpp"

#include <algorithm>
#include <asio/buffer.hpp>
#include <cstdint>

#include "core/bytes.hpp"

namespace ccoll::net {
namespace {

/// The buffer grows at least this far ahead of the bytes that have come.
constexpr std::size_t kGrowBytes = 256 << 10;

tl::unexpected<Failure> lost(const Stream& stream, const std::error_code& error) {
  if (error == asio::error::eof) return fail(ErrorKind::peer_lost, "{}", kClosedByPeer);
  return fail(ErrorKind::peer_lost, "the connection broke: {}", stream.reason(error));
}

}  // namespace

asio::awaitable<Result<std::string>> read_frame(Stream& stream, std::size_t max_bytes) {
  std::error_code error;
  std::uint32_t length = 0;
  const std::size_t got = co_await stream.read(asio::buffer(&length, sizeof length), error);
  if (error && got != 0) {
    co_return fail(ErrorKind::peer_lost, "the connection ended after {} of the 4 bytes of a length",
                   got);
  }
  if (error) co_return lost(stream, error);
  if (length > max_bytes) {
    co_return fail(ErrorKind::corrupt, "a frame of {} bytes came; at most {} are allowed", length,
                   max_bytes);
  }
  std::string body;
  while (body.size() < length) {
    const std::size_t have = body.size();
    body.resize(std::min<std::size_t>(length, have + std::max(have, kGrowBytes)));
    const auto room = asio::buffer(body.data() + have, body.size() - have);
    const std::size_t more = co_await stream.read(room, error);
    if (error) {
      co_return fail(ErrorKind::peer_lost, "the connection ended after {} of {} bytes of a frame",
                     have + more, length);
    }
  }
  co_return body;
}

std::string to_frame(std::string_view body) { return Writer().text(body).take(); }

}  // namespace ccoll::net

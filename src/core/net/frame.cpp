// SPDX-License-Identifier: Apache-2.0
#include "core/net/frame.hpp"

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/net/bytes.hpp"

namespace ccoll::net {
namespace {

/// How far the buffer runs ahead of the bytes that have come.
constexpr std::size_t kGrowBytes = 256 << 10;

tl::unexpected<Failure> lost(const std::error_code& error) {
  if (error == asio::error::eof) return fail(ErrorKind::peer_lost, "{}", kClosedByPeer);
  return fail(ErrorKind::peer_lost, "the connection broke: {}", error.message());
}

}  // namespace

asio::awaitable<Result<std::string>> read_frame(asio::ip::tcp::socket& socket,
                                                std::size_t max_bytes) {
  std::error_code error;
  std::uint32_t length = 0;
  const std::size_t got =
      co_await asio::async_read(socket, asio::buffer(&length, sizeof length),
                                asio::redirect_error(asio::use_awaitable, error));
  if (error && got != 0) {
    co_return fail(ErrorKind::peer_lost, "the connection ended after {} of the 4 bytes of a length",
                   got);
  }
  if (error) co_return lost(error);
  if (length > max_bytes) {
    co_return fail(ErrorKind::corrupt, "a frame of {} bytes came; at most {} are allowed", length,
                   max_bytes);
  }
  std::string body;
  while (body.size() < length) {
    const std::size_t have = body.size();
    body.resize(std::min<std::size_t>(length, have + std::max(have, kGrowBytes)));
    const std::size_t more =
        co_await asio::async_read(socket, asio::buffer(body.data() + have, body.size() - have),
                                  asio::redirect_error(asio::use_awaitable, error));
    if (error) {
      co_return fail(ErrorKind::peer_lost, "the connection ended after {} of {} bytes of a frame",
                     have + more, length);
    }
  }
  co_return body;
}

asio::awaitable<Status> write_frame(asio::ip::tcp::socket& socket, std::string body) {
  if (body.size() > std::numeric_limits<std::uint32_t>::max()) {
    co_return fail(ErrorKind::invalid_argument, "a frame of {} bytes is longer than 4 GiB",
                   body.size());
  }
  std::error_code error;
  const auto length = static_cast<std::uint32_t>(body.size());
  const std::array<asio::const_buffer, 2> parts = {asio::buffer(&length, sizeof length),
                                                   asio::buffer(body)};
  co_await asio::async_write(socket, parts, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return lost(error);
  co_return Status{};
}

std::string to_frame(std::string_view body) { return Writer().text(body).take(); }

}  // namespace ccoll::net

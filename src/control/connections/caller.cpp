// SPDX-License-Identifier: Apache-2.0
#include "control/connections/caller.hpp"

#include <random>
#include <utility>

#include "net/deadline.hpp"
#include "net/wire/frame.hpp"

namespace ccoll::control {
namespace {

std::uint64_t draw_nonce() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1U;  // 0 means none
}

}  // namespace

Caller::Caller(const std::shared_ptr<net::Service>& service, const Control::Membership& membership)
    : service_(service),
      rank_(membership.rank),
      size_(membership.size),
      credentials_(membership.credentials),
      row_{membership.address, draw_nonce()} {}

asio::awaitable<std::optional<Result<net::Stream>>> Caller::connect(
    PeerAddress callee, std::chrono::milliseconds limit) const {
  auto service = service_.lock();
  if (!service) co_return std::nullopt;
  co_return co_await net::connect_once(std::move(service), endpoint_text(callee), credentials_,
                                       net::Purpose::control, limit);
}

asio::awaitable<Result<std::string>> Caller::ask(Row row,
                                                 std::chrono::milliseconds patience) const {
  std::optional<Result<net::Stream>> connected = co_await connect(row.address, patience);
  if (!connected) co_return fail(ErrorKind::aborted, "the service has ended");
  if (!*connected) co_return tl::unexpected<Failure>(connected->error());
  net::Stream& stream = **connected;
  const net::Deadline limit(stream, patience);
  std::string frame = encode_question(hello_to(row));
  asio::error_code ignored;  // then reading the answer fails, too
  co_await stream.write(std::move(frame), ignored);
  Result<std::string> answer = co_await net::read_frame(stream, kMaxFrame);
  if (!answer) co_return fail(ErrorKind::timed_out, "{}", answer.error().message);
  co_return answer;
}

}  // namespace ccoll::control

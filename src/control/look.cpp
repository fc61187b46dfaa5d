// SPDX-License-Identifier: Apache-2.0
/// Looking for ranks that may have gone unheard: a goodbye is lost where those who read it leave
/// before they can pass it on. Whoever waits for such a rank asks at its listener.

#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "control/hub.hpp"
#include "core/net/deadline.hpp"
#include "core/net/frame.hpp"
#include "core/net/listener.hpp"
#include "core/net/service.hpp"

namespace ccoll::control {
namespace {

constexpr std::chrono::milliseconds kLimit{5000};

/// Whether that answer says that the rank takes part no more.
bool says_gone(const Result<std::string>& payload) {
  if (!payload) return false;
  const Result<Frame> frame = parse(*payload);
  if (!frame || frame->type != Type::refused) return false;
  const auto refusal = decode_refusal(frame->body);
  return refusal && (refusal->final || refusal->reason.kind == ErrorKind::mismatch);
}

}  // namespace

void Hub::look_for(const std::vector<std::uint32_t>& ranks) {
  if (leaving_ || !outcome_ || !*outcome_) return;
  for (const std::uint32_t rank : ranks) {
    if (rank >= size_ || rank == rank_ || news_.is_gone(rank) || edges_.contains(rank) ||
        absent_.contains(rank) || !looking_.insert(rank).second)
      continue;
    net::spawn(context_.get_executor(), ask(shared_from_this(), rank), "control",
               [self = shared_from_this(), rank](const Failure&) { self->looking_.erase(rank); });
  }
}

asio::awaitable<void> Hub::ask(Self self, std::uint32_t rank) {
  auto service = self->service_.lock();
  if (!service) co_return;
  const Row row = self->rows_[rank];
  Result<Socket> connected = co_await net::connect_once(
      service, endpoint_text(row.address), self->token_, net::Purpose::control, kLimit);
  service.reset();
  bool gone = !connected && (connected.error().kind == ErrorKind::peer_lost ||
                             connected.error().kind == ErrorKind::mismatch);
  if (connected) {
    const net::Deadline limit(*connected, kLimit);
    const std::string frame =
        encode_question(Hello{self->rank_, self->size_, row.nonce, self->row_});
    asio::error_code ignored;  // reading the answer fails as well
    co_await asio::async_write(*connected, asio::buffer(frame),
                               asio::redirect_error(asio::use_awaitable, ignored));
    gone = says_gone(co_await net::read_frame(*connected, kMaxFrame));
  }
  self->looking_.erase(rank);
  if (gone && !self->leaving_) {
    self->absent_.insert(rank);
    self->await_absent();
  }
}

std::optional<Refusal> Hub::reply(const Hello& hello) const {
  if (hello.size != size_ || hello.callee != row_.nonce)
    return Refusal{true, {ErrorKind::mismatch, "this is another rank", std::nullopt}};
  if (leaving_)
    return Refusal{true, {ErrorKind::peer_lost, fmt::format("rank {} has left", rank_), rank_}};
  return std::nullopt;
}

}  // namespace ccoll::control

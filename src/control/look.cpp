// SPDX-License-Identifier: Apache-2.0
/// Looking for ranks that may have gone unheard: a goodbye is lost where those who read it leave
/// before they can pass it on. Whoever waits for such a rank asks at its listener. Where ranks are
/// lost already, one that gives no answer is taken to be lost with them: of a host that vanished,
/// some ranks may have had connections only to others of it, which nobody heard fall silent.

#include <algorithm>
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

/// Beyond the heartbeat's limit: while anyone waits, each question follows the end of the last one
/// sooner than that. What was not answered earlier says nothing about now.
constexpr std::chrono::milliseconds kForgotten{5000};

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
  const auto patience = self->heartbeat_ > std::chrono::milliseconds(0)
                            ? std::min(kLimit, self->heartbeat_ / 2)
                            : kLimit;
  Result<Stream> connected = co_await net::connect_once(
      service, endpoint_text(row.address), self->credentials_, net::Purpose::control, patience);
  service.reset();
  bool gone = !connected && (connected.error().kind == ErrorKind::peer_lost ||
                             connected.error().kind == ErrorKind::mismatch);
  bool silent = !connected && !gone;
  if (connected) {
    const net::Deadline limit(*connected, patience);
    std::string frame = encode_question(Hello{self->rank_, self->size_, row.nonce, self->row_});
    asio::error_code ignored;  // reading the answer fails as well
    co_await connected->write(std::move(frame), ignored);
    const auto answer = co_await net::read_frame(*connected, kMaxFrame);
    gone = says_gone(answer);
    silent = !answer;
  }
  self->looking_.erase(rank);
  if (self->leaving_) co_return;
  if (gone) {
    self->absent_.insert(rank);
    self->await_absent();
  }
  self->doubt(rank, silent);
}

void Hub::doubt(std::uint32_t rank, bool silent) {
  if (!silent || heartbeat_ == std::chrono::milliseconds(0)) {
    unanswered_.erase(rank);
    return;
  }
  const auto now = Clock::now();
  const auto asked = unanswered_.try_emplace(rank, Unanswered{now, now, 0}).first;
  Unanswered& found = asked->second;
  if (now - found.last > heartbeat_ + kForgotten) found = {now, now, 0};
  found.last = now;
  found.times++;
  if (!news_.has_losses() || found.times < 2 || now - found.first < heartbeat_ / 2) return;
  lose(rank, rows_[rank].address,
       fmt::format("other ranks were, and it has not answered {} calls", found.times));
}

std::optional<Refusal> Hub::reply(const Hello& hello) const {
  if (hello.size != size_ || hello.callee != row_.nonce)
    return Refusal{true, {ErrorKind::mismatch, "this is another rank", std::nullopt}};
  if (leaving_)
    return Refusal{true, {ErrorKind::peer_lost, fmt::format("rank {} has left", rank_), rank_}};
  return std::nullopt;
}

}  // namespace ccoll::control

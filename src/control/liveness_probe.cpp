// SPDX-License-Identifier: Apache-2.0
/// Detects ranks that may have gone unheard: a goodbye is lost if its readers leave before they can
/// pass it on. A rank that waits for such a rank asks at its listener. If some ranks are lost, one
/// that does not answer counts as lost too. On a host that vanished, ranks may be connected only to
/// each other, and nobody else notices their silence.

#include <algorithm>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "control/hub.hpp"
#include "net/deadline.hpp"
#include "net/listener.hpp"
#include "net/service.hpp"
#include "net/wire/frame.hpp"

namespace ccoll::control {
namespace {

constexpr std::chrono::milliseconds kLimit{5000};

/// Whether the answer says that the rank has gone.
bool says_gone(const Result<std::string>& payload) {
  if (!payload) return false;
  const Result<Frame> frame = parse(*payload);
  if (!frame || frame->type != Type::refused) return false;
  const auto refusal = decode_refusal(frame->body);
  return refusal && (refusal->final || refusal->reason.kind == ErrorKind::mismatch);
}

}  // namespace

void Hub::probe(const std::vector<std::uint32_t>& ranks) {
  if (stage_.is_leaving() || !stage_.has_joined()) return;
  for (const std::uint32_t rank : ranks)
    if (rank < size_ && rank != rank_) probes_.want(rank, Clock::now());
  ask_next();
}

void Hub::ask_next() {
  while (!stage_.is_leaving()) {
    const auto next = probes_.next();
    if (!next) return;
    const std::uint32_t rank = next->rank;
    if (news_.is_gone(rank) || edges_.contains(rank) || absent_.contains(rank)) {
      probes_.over(rank);
      continue;
    }
    net::spawn(context_.get_executor(), ask(shared_from_this(), *next), "control",
               [self = shared_from_this(), rank](const Failure&) { self->asked(rank); });
  }
}

void Hub::asked(std::uint32_t rank) {
  probes_.over(rank);
  ask_next();
}

asio::awaitable<Result<std::string>> Hub::question(Self self, Row row,
                                                   std::chrono::milliseconds patience) {
  auto service = self->service_.lock();
  if (!service) co_return fail(ErrorKind::aborted, "the service has ended");
  Result<Stream> connected = co_await net::connect_once(
      service, endpoint_text(row.address), self->credentials_, net::Purpose::control, patience);
  service.reset();
  if (!connected) co_return tl::unexpected<Failure>(connected.error());
  const net::Deadline limit(*connected, patience);
  std::string frame = encode_question(Hello{self->rank_, self->size_, row.nonce, self->row_});
  asio::error_code ignored;  // then reading the answer fails, too
  co_await connected->write(std::move(frame), ignored);
  Result<std::string> answer = co_await net::read_frame(*connected, kMaxFrame);
  if (!answer) co_return fail(ErrorKind::timed_out, "{}", answer.error().message);
  co_return answer;
}

asio::awaitable<void> Hub::ask(Self self, Probes::Question asked) {
  const std::uint32_t rank = asked.rank;
  const Heartbeat& heartbeat = self->heartbeat_;
  const auto patience = heartbeat.has_limit() ? std::min(kLimit, heartbeat.limit() / 2) : kLimit;
  const Result<std::string> answer = co_await question(self, self->roster_[rank], patience);
  const bool nobody = !answer && (answer.error().kind == ErrorKind::peer_lost ||
                                  answer.error().kind == ErrorKind::mismatch);
  if (!self->stage_.is_leaving()) {
    if (nobody || says_gone(answer)) self->await_news_of(rank);
    self->doubt(asked, !answer && !nobody);
  }
  self->asked(rank);
}

void Hub::doubt(const Probes::Question& asked, bool silent) {
  if (!silent || !heartbeat_.has_limit()) return probes_.has_answered(asked.rank);
  const int times = probes_.is_silent(asked, Clock::now(), heartbeat_.limit());
  if (times == 0 || !news_.has_losses()) return;
  lose(asked.rank, roster_[asked.rank].address,
       fmt::format("other ranks were lost, and it has not answered {} calls", times));
}

}  // namespace ccoll::control

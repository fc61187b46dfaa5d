// SPDX-License-Identifier: Apache-2.0
/// Detects ranks that may have gone unheard: a goodbye is lost if its readers leave before they can
/// pass it on. A rank that waits for such a rank asks at its listener. If some ranks are lost, one
/// that does not answer counts as lost too. On a host that vanished, ranks may be connected only to
/// each other, and nobody else notices their silence.

#include <algorithm>

#include "control/hub.hpp"

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
    tasks_.spawn(ask(tasks_.keep(), *next), "control",
                 [this, rank](const Failure&) { asked(rank); });
  }
}

void Hub::asked(std::uint32_t rank) {
  probes_.over(rank);
  ask_next();
}

asio::awaitable<void> Hub::ask(Kept /*kept*/, Probes::Question asked) {
  const std::uint32_t rank = asked.rank;
  const auto patience = heartbeat_.has_limit() ? std::min(kLimit, heartbeat_.limit() / 2) : kLimit;
  const Result<std::string> answer = co_await caller_.ask(roster_[rank], patience);
  const bool nobody = !answer && (answer.error().kind == ErrorKind::peer_lost ||
                                  answer.error().kind == ErrorKind::mismatch);
  if (!stage_.is_leaving()) {
    if (nobody || says_gone(answer)) await_news_of(rank);
    doubt(asked, !answer && !nobody);
  }
  this->asked(rank);
}

void Hub::doubt(const Probes::Question& asked, bool silent) {
  if (!silent || !heartbeat_.has_limit()) return probes_.has_answered(asked.rank);
  const int times = probes_.is_silent(asked, Clock::now(), heartbeat_.limit());
  if (times == 0 || !news_.has_losses()) return;
  flooding_.lose(asked.rank, roster_[asked.rank].address,
                 fmt::format("other ranks were lost, and it has not answered {} calls", times));
}

}  // namespace ccoll::control

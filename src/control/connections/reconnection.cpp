// SPDX-License-Identifier: Apache-2.0
#include "control/connections/reconnection.hpp"

#include <utility>

namespace ccoll::control {
namespace {

using std::chrono::milliseconds;

/// Limit of one attempt to reach a rank, and again of its greeting.
constexpr milliseconds kReachLimit{5000};

}  // namespace

Reconnection::Reconnection(const Caller& caller, const Roster& roster, const Stage& stage,
                           Edges& edges, Absences& absences, Flooding& flooding, const Tasks& tasks,
                           Owner& owner, const Pauses& pauses)
    : caller_(caller),
      roster_(roster),
      stage_(stage),
      edges_(edges),
      absences_(absences),
      flooding_(flooding),
      tasks_(tasks),
      owner_(owner),
      delay_(pauses.departure),
      ascent_(caller.rank(), pauses.round),
      above_(next_above(caller.rank())),
      timer_(tasks.context()) {}

std::optional<std::uint32_t> Reconnection::next_above(std::uint32_t rank) const {
  while (++rank < caller_.size())
    if (!flooding_.news().is_gone(rank) && !absences_.contains(rank)) return rank;
  return std::nullopt;
}

void Reconnection::ensure() {
  if (ascent_.is_on() || stage_.is_leaving() || !stage_.has_joined() ||
      flooding_.news().is_gone(caller_.rank()))
    return;
  if (above_ && edges_.contains(*above_) && !flooding_.news().is_gone(*above_)) return;
  above_ = next_above(caller_.rank());
  if (!above_ || edges_.contains(*above_)) return;
  ascent_.begin();
  ascent_.shorten_pause();
  seek_again(delay_);
}

void Reconnection::seek_again(milliseconds pause) {
  ascent_.begin_round();
  timer_.expires_after(pause);
  tasks_.await(timer_, [this] { seek(); });
}

void Reconnection::seek() {
  // One call is enough for news: the others have heard them.
  if (stage_.is_leaving() && !edges_.empty() && (ascent_.has_called() || !brings_news())) {
    ascent_.end();
    return;
  }
  const auto peer = next_above(ascent_.last());
  if (peer && !edges_.contains(*peer)) {
    tasks_.spawn(reach(tasks_.keep(), *peer), "control", [this, peer = *peer](const Failure&) {
      if (ascent_.is_on() && !calling_) missed(peer, ErrorKind::exhausted);
    });
  } else if (!peer && ascent_.has_passed_over() && !stage_.is_leaving()) {
    seek_again(ascent_.next_pause());
  } else {
    above_ = peer;
    ascent_.end();
    if (stage_.is_leaving() && edges_.empty()) owner_.finish_leaving();
  }
}

asio::awaitable<void> Reconnection::reach(std::shared_ptr<void> /*kept*/, std::uint32_t peer) {
  auto connected = co_await caller_.connect(roster_[peer].address, kReachLimit);
  if (!connected || !ascent_.is_on()) co_return;  // leaving is over
  if (!*connected) {
    missed(peer, connected->error().kind);
  } else if (flooding_.news().is_gone(peer)) {
    missed(peer, ErrorKind::timed_out);
  } else {
    introduce(std::move(**connected), peer);
  }
}

bool Reconnection::brings_news() const {
  return ascent_.is_on() && !flooding_.news().failures().empty();
}

void Reconnection::leave() {
  if (!edges_.empty() && !brings_news()) {
    // The peers have the news: give up connecting, unless a call is in progress.
    if (!calling_) ascent_.end();
    timer_.cancel();
    return;
  }
  const bool may = stage_.has_joined() && next_above(caller_.rank());
  if (!ascent_.is_on() && !may) return owner_.finish_leaving();
  if (ascent_.begin() && timer_.cancel() == 0) return;
  ascent_.begin_round();
  seek();
}

void Reconnection::introduce(net::Stream stream, std::uint32_t peer) {
  const Row& row = roster_[peer];
  // There is no limit for the answer: to a peer that has counted us in, hanging up would look like
  // our death.
  calling_ = owner_.meet(std::move(stream), peer, row.address, encode(caller_.hello_to(row)));
  calling_->set_awaits_answer(true);
  if (!stage_.is_leaving()) return;
  const std::uint32_t departed[] = {caller_.rank()};
  edges_.send(*calling_, encode_left(departed));
  calling_->finish();
}

Status Reconnection::answered(Edge& edge, const Frame& frame) {
  if (calling_.get() != &edge)
    return fail(ErrorKind::corrupt, "a message that this rank did not expect");
  std::optional<Refusal> refusal;
  if (frame.type == Type::refused && !(refusal = decode_refusal(frame.body)))
    return fail(ErrorKind::corrupt, "a malformed refusal");
  const auto kept = std::move(calling_);
  if (refusal && refusal->reason.culprit == caller_.rank()) {
    edges_.remove(edge);
    edge.close();
    ascent_.end();
    flooding_.spread({caller_.rank(), 0, kEveryCommunicator, refusal->reason}, Flooding::kNobody);
  } else if (refusal) {
    edges_.remove(edge);
    edge.close();
    missed(edge.peer(), refusal->final ? ErrorKind::peer_lost : refusal->reason.kind);
  } else {
    edge.set_awaits_answer(false);
    above_ = edge.peer();
    ascent_.end();
    owner_.welcomed(edge);
    ensure();  // the peer may have gone since
  }
  return {};
}

void Reconnection::missed(std::uint32_t peer, ErrorKind kind) {
  // Otherwise nobody listens there, or another process does.
  const bool may_come = kind != ErrorKind::peer_lost && kind != ErrorKind::mismatch;
  if (!may_come) absences_.add(peer);
  ascent_.missed(peer, may_come);
  seek();
}

bool Reconnection::ended(const Edge& edge) {
  if (calling_.get() != &edge) return false;
  const auto kept = std::move(calling_);
  missed(edge.peer(), ErrorKind::timed_out);
  return true;
}

void Reconnection::stop() {
  calling_.reset();
  ascent_.end();
  timer_.cancel();
}

}  // namespace ccoll::control

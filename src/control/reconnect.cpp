// SPDX-License-Identifier: Apache-2.0
/// Keeps the remaining ranks connected as others go. Every rank but the highest that lives keeps a
/// connection to one above it, so from each a path leads up to the highest. That is first its ring
/// successor and, when that has gone, the next above that answers. Only the lower of two ranks
/// calls, so no two call each other. A departure costs each rank that kept its connection to it
/// (usually one) one call. It costs the leaving rank one if it knows of a failure and had yet to
/// find the next rank above, which may have missed it.

#include <algorithm>

#include "control/hub.hpp"

namespace ccoll::control {
namespace {

using std::chrono::milliseconds;

/// At the end of a job all ranks leave at once; the delay avoids useless connections.
constexpr milliseconds kDelay{50};
/// Limit of one attempt to reach a rank, and again of its greeting.
constexpr milliseconds kReachLimit{5000};
/// A rank listens for as long as it takes part, so a rank without a listener has gone. Others may
/// know whether it left or died, and have this long to say so.
constexpr milliseconds kAbsence{1000};

}  // namespace

std::optional<std::uint32_t> Hub::next_above(std::uint32_t rank) const {
  while (++rank < size_)
    if (!news_.is_gone(rank) && !absent_.contains(rank)) return rank;
  return std::nullopt;
}

void Hub::reconnect() {
  if (ascent_.is_on() || stage_.is_leaving() || !stage_.has_joined() || news_.is_gone(rank_))
    return;
  if (above_ && edges_.contains(*above_) && !news_.is_gone(*above_)) return;
  above_ = next_above(rank_);
  if (!above_ || edges_.contains(*above_)) return;
  ascent_.begin();
  ascent_.shorten_pause();
  seek_again(kDelay);
}

void Hub::seek_again(milliseconds pause) {
  ascent_.begin_round();
  reconnect_timer_.expires_after(pause);
  tasks_.await(reconnect_timer_, [this] { seek(); });
}

void Hub::seek() {
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
    if (stage_.is_leaving() && edges_.empty()) finish_leaving();
  }
}

asio::awaitable<void> Hub::reach(Kept /*kept*/, std::uint32_t peer) {
  auto connected = co_await caller_.connect(roster_[peer].address, kReachLimit);
  if (!connected || !ascent_.is_on()) co_return;  // leaving is over
  if (!*connected) {
    missed(peer, connected->error().kind);
  } else if (news_.is_gone(peer)) {
    missed(peer, ErrorKind::timed_out);
  } else {
    introduce(std::move(**connected), peer);
  }
}

bool Hub::brings_news() const { return ascent_.is_on() && !news_.failures().empty(); }

void Hub::seek_to_leave() {
  if (!edges_.empty() && !brings_news()) {
    // The peers have the news: give up connecting, unless a call is in progress.
    if (!calling_) ascent_.end();
    reconnect_timer_.cancel();
    return;
  }
  const bool may = stage_.has_joined() && next_above(rank_);
  if (!ascent_.is_on() && !may) return finish_leaving();
  if (ascent_.begin() && reconnect_timer_.cancel() == 0) return;
  ascent_.begin_round();
  seek();
}

void Hub::introduce(Stream stream, std::uint32_t peer) {
  const Row& row = roster_[peer];
  // There is no limit for the answer: to a peer that has counted us in, hanging up would look like
  // our death.
  calling_ = meet(std::move(stream), peer, row.address, encode(caller_.hello_to(row)));
  if (!stage_.is_leaving()) return;
  const std::uint32_t departed[] = {rank_};
  edges_.send(*calling_, encode_left(departed));
  calling_->finish();
}

Status Hub::answered(Edge& edge, const Frame& frame) {
  if (calling_.get() != &edge)
    return fail(ErrorKind::corrupt, "a message that this rank did not expect");
  std::optional<Refusal> refusal;
  if (frame.type == Type::refused && !(refusal = decode_refusal(frame.body)))
    return fail(ErrorKind::corrupt, "a malformed refusal");
  const auto kept = std::move(calling_);
  if (refusal && refusal->reason.culprit == rank_) {
    edges_.remove(edge);
    edge.close();
    ascent_.end();
    flooding_.spread({rank_, 0, kEveryCommunicator, refusal->reason}, Flooding::kNobody);
  } else if (refusal) {
    edges_.remove(edge);
    edge.close();
    missed(edge.peer(), refusal->final ? ErrorKind::peer_lost : refusal->reason.kind);
  } else {
    traffic_.opened();
    above_ = edge.peer();
    ascent_.end();
    tell_limit(edge);
    reconnect();  // the peer may have gone since
  }
  return {};
}

void Hub::missed(std::uint32_t peer, ErrorKind kind) {
  // Otherwise nobody listens there, or another process does.
  const bool may_come = kind != ErrorKind::peer_lost && kind != ErrorKind::mismatch;
  if (!may_come) await_news_of(peer);
  ascent_.missed(peer, may_come);
  seek();
}

void Hub::await_news_of(std::uint32_t rank) {
  if (!absent_.try_emplace(rank, Clock::now() + kAbsence).second) return;
  if (absent_.size() == 1) await_absent();
}

void Hub::await_absent() {
  const auto first =
      std::ranges::min_element(absent_, {}, [](const auto& entry) { return entry.second; });
  if (first == absent_.end()) return;
  absence_timer_.expires_at(first->second);
  tasks_.await(absence_timer_, [this] { part_with_absent(); });
}

void Hub::part_with_absent() {
  std::vector<std::uint32_t> due;
  std::erase_if(absent_, [&, now = Clock::now()](const auto& entry) {
    const bool over = entry.second <= now;
    if (over) due.push_back(entry.first);
    return over;
  });
  await_absent();
  for (const std::uint32_t rank : due)
    if (!news_.is_gone(rank)) flooding_.part_with(rank, rank);
}

}  // namespace ccoll::control

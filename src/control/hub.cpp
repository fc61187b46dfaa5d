// SPDX-License-Identifier: Apache-2.0
#include "control/hub.hpp"

#include <algorithm>
#include <asio/post.hpp>
#include <random>

#include "control/tree.hpp"
#include "net/service.hpp"

namespace ccoll::control {
namespace {

/// Room for about 64 roll-call words per rank: small jobs need not hold as much as large ones.
constexpr std::size_t kAnswers = 8 << 10;

std::uint64_t draw_nonce() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1U;  // 0 means none
}

Status corrupt(std::string_view what) {
  return fail(ErrorKind::corrupt, "a malformed or unexpected message ({})", what);
}

}  // namespace

Hub::Hub(const std::shared_ptr<net::Service>& service, const Control::Membership& membership)
    : context_(service->context()),
      service_(service),
      rank_(membership.rank),
      size_(membership.size),
      credentials_(membership.credentials),
      row_{membership.address, draw_nonce()},
      news_(membership.size),
      roll_calls_(membership.rank, std::min(RollCalls::kMaxBytes, membership.size * kAnswers)),
      leave_timer_(service->context()),
      cycles_(membership.rank),
      heartbeat_(membership.heartbeat),
      watch_timer_(service->context()),
      ascent_(membership.rank),
      reconnect_timer_(service->context()),
      absence_timer_(service->context()),
      roster_(membership.rank, membership.size, row_, membership.rank0_text),
      admission_({membership.rank, membership.size, row_.nonce, membership.is_whole_job}, roster_,
                 news_, stage_) {
  above_ = next_above(rank_);
}

void Hub::send(Edge& edge, const std::string& frame) {
  traffic_.sent();
  edge.send(frame);
}

void Hub::forward(const std::string& frame, std::uint32_t except) {
  for (const auto& [peer, edge] : edges_)
    if (peer != except) send(*edge, frame);
}

Status Hub::received(Edge& edge, const Frame& frame) {
  const auto current = edges_.find(edge.peer());
  if (current == edges_.end() || current->second.get() != &edge) return {};  // the peer is lost
  if (frame.type == Type::beat) return beat(edge, frame.body);
  traffic_.received();
  const std::uint32_t from = edge.peer();
  switch (frame.type) {
    case Type::gathered:
      return gathered(from, frame.body);
    case Type::table:
      return table(from, frame.body);
    case Type::failure: {
      const auto news = decode_failure(frame.body, size_);
      if (!news) return corrupt("failure");
      spread(*news, from);
      return {};
    }
    case Type::left: {
      const auto ranks = decode_left(frame.body, size_);
      if (!ranks) return corrupt("left");
      for (const std::uint32_t rank : *ranks) part_with(rank, from);
      return {};
    }
    case Type::waiting: {
      const auto publication = decode_publication(frame.body, size_);
      if (!publication) return corrupt("waiting");
      route(*publication);
      return {};
    }
    case Type::answer: {
      const auto answer = decode_answer(frame.body, size_);
      if (!answer) return corrupt("answer");
      if (!roll_calls_.learn(*answer)) return {};
      forward(encode(*answer), from);
      count_soon();
      return {};
    }
    case Type::welcome:
    case Type::refused:
      return answered(edge, frame);
    case Type::hello:
    case Type::question:
    case Type::beat:
      break;
  }
  return fail(ErrorKind::corrupt, "a message that this rank did not expect");
}

void Hub::ended(Edge& edge, const std::string& why) {
  const auto kept = edge.shared_from_this();
  if (std::erase(dismissed_, kept) > 0) return;
  edges_.erase(edge.peer());
  if (calling_ == kept) {
    calling_.reset();
    missed(edge.peer(), ErrorKind::timed_out);
  } else if (stage_.is_leaving()) {
    if (edges_.empty() && !ascent_.is_on()) finish_leaving();
  } else if (!news_.has_left(edge.peer())) {
    lose(edge.peer(), edge.address(), why);
  }
}

void Hub::failed(Edge& edge, const Failure& failure) {
  const auto kept = edge.shared_from_this();
  // Not the peer's fault; it hears of the failure over this connection.
  failing()(failure);
  std::erase(dismissed_, kept);
  if (const auto found = edges_.find(edge.peer()); found != edges_.end() && found->second == kept)
    edges_.erase(found);
  if (stage_.is_leaving() && edges_.empty() && !ascent_.is_on()) finish_leaving();
}

void Hub::lose(std::uint32_t peer, const PeerAddress& address, const std::string& why) {
  // If this rank is itself counted out, it is the one that has gone.
  if (news_.is_gone(rank_)) return;
  Failure failure{ErrorKind::peer_lost,
                  fmt::format("rank {} (host {}, pid {}) was lost: {}", peer, ip_text(address),
                              address.pid, why),
                  peer};
  spread({peer, 0, kEveryCommunicator, std::move(failure)}, kNobody);
}

void Hub::spread(const FailureNews& news, std::uint32_t except) {
  const bool is_loss = news.number == 0;
  const bool is_own = is_loss && news.origin == rank_;
  const FailureNews heard = is_own ? counted_out(news) : news;
  if (!news_.learn(heard)) return;
  forward(encode(news), except);
  if (is_loss) dismiss(news.origin);
  news_.tell(heard);
  if (stage_.is_starting() && news.communicator == kEveryCommunicator) {
    decide(tl::unexpected<Failure>(heard.failure));
    leave();
  }
  if (is_loss) reconnect();
  if (news.communicator == kEveryCommunicator) count_soon();
}

void Hub::dismiss(std::uint32_t rank) {
  const auto found = edges_.find(rank);
  if (found == edges_.end()) return;
  const auto edge = std::move(found->second);
  edges_.erase(found);
  edge->finish();
  dismissed_.push_back(edge);
  if (calling_ != edge) return;
  calling_.reset();
  missed(rank, ErrorKind::timed_out);
}

FailureNews Hub::counted_out(const FailureNews& news) const {
  FailureNews told = news;
  told.failure = {ErrorKind::peer_lost,
                  fmt::format("the other ranks count this one as lost and continue without it, "
                              "although it is alive: {}",
                              news.failure.message),
                  rank_};
  return told;
}

void Hub::part_with(std::uint32_t rank, std::uint32_t from) {
  if (rank == rank_ || !news_.learn_left(rank)) return;
  // Departures heard of in one turn go on in one message, as many ranks may leave at once.
  if (parted_.empty()) asio::post(context_, handler([](Hub& hub) { hub.pass_on_departures(); }));
  parted_.emplace_back(rank, from);
  news_.tell_left(rank);
  reconnect();
  count_soon();
}

void Hub::pass_on_departures() {
  const auto parted = std::exchange(parted_, {});
  std::vector<std::uint32_t> ranks;
  for (const auto& [peer, edge] : edges_) {
    ranks.clear();
    for (const auto& [rank, from] : parted)
      if (from != peer) ranks.push_back(rank);
    send_departures(*edge, ranks);
  }
}

void Hub::send_departures(Edge& edge, const std::vector<std::uint32_t>& ranks) {
  for (auto rest = std::span(ranks); !rest.empty();) {
    const auto some = rest.first(std::min(rest.size(), kMaxLeft));
    send(edge, encode_left(some));
    rest = rest.subspan(some.size());
  }
}

void Hub::settle(const News::Findings& findings) {
  for (const auto& [communicator, failure] : findings) flood(communicator, failure);
}

void Hub::subscribe(std::uint64_t communicator, std::weak_ptr<ControlObserver> observer) {
  roll_calls_.open(communicator);
  settle(news_.subscribe(communicator, std::move(observer)));
}

void Hub::unsubscribe(std::uint64_t communicator) {
  news_.unsubscribe(communicator);
  tell_waits(communicator, {});
  roll_calls_.close(communicator);
  count();
}

void Hub::call_roll(const RollCall& call, std::shared_ptr<Headcount> waiting) {
  roll_calls_.begin(call, std::move(waiting));
  count();
}

void Hub::give_up_roll_call(const RollCall& call, const Failure& why) {
  roll_calls_.give_up(call, why);
  count();
}

void Hub::count() {
  roll_calls_.advance(news_);
  for (const Answer& answer : roll_calls_.take()) forward(encode(answer), kNobody);
}

void Hub::count_soon() {
  if (std::exchange(will_count_, true)) return;
  asio::post(context_, handler([](Hub& hub) {
               hub.will_count_ = false;
               hub.count();
             }));
}

void Hub::run_actions() {
  while (const auto action = actions_.take()) {
    try {
      (*action)(*this);
    } catch (...) {
      break_down();
    }
  }
}

void Hub::flood(std::uint64_t communicator, const Failure& failure) {
  FailureNews news{rank_, ++numbered_, communicator, failure};
  // Everyone must read the same words, this rank too.
  if (news.failure.message.size() > kMaxText) news.failure.message.resize(kMaxText);
  if (news.failure.culprit && *news.failure.culprit >= size_) news.failure.culprit.reset();
  spread(news, kNobody);
}

std::function<void(const Failure&)> Hub::failing() {
  return [self = shared_from_this()](const Failure& failure) { self->break_down(failure); };
}

void Hub::break_down(const Failure& failure) noexcept {
  try {
    flood(kEveryCommunicator,
          {failure.kind,
           fmt::format("the control path of rank {} failed: {}", rank_, failure.message), rank_});
  } catch (...) {
    fall_silent();
  }
}

void Hub::break_down() noexcept {
  try {
    break_down(failure_of(std::current_exception()));
  } catch (...) {
    fall_silent();
  }
}

void Hub::fall_silent() noexcept {
  // A text this short needs no allocation.
  const Failure failure{ErrorKind::exhausted, "out of memory", rank_};
  for (const auto& [peer, edge] : edges_) edge->close();
  news_.cry(failure);
  if (stage_.is_starting()) decide(tl::unexpected<Failure>(failure));
}

void Hub::publish(const Waiting& waiting, const std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t to : ranks)
    if (to != rank_ && to < size_) route({rank_, to, waiting});
}

void Hub::route(Publication publication) {
  const std::uint32_t to = publication.to;
  if (to == rank_ && publication.waiting.signature.kind == kCycle) return pursue(publication);
  if (to == rank_) return settle(news_.waiting(publication.from, publication.waiting));
  auto edge = edges_.find(to);
  if (edge == edges_.end() && !publication.detour) edge = edges_.find(next_hop(rank_, to));
  if (edge == edges_.end()) {
    // Never back to the tree: if every hop comes nearer to `to`, there is no cycle. Remaining ranks
    // have a connection to the next one on either side (reconnect.cpp).
    publication.detour = true;
    const auto distance = [to](std::uint32_t rank) { return rank < to ? to - rank : rank - to; };
    edge = std::ranges::min_element(edges_, {},
                                    [&](const auto& entry) { return distance(entry.first); });
    if (edge != edges_.end() && distance(edge->first) >= distance(rank_)) edge = edges_.end();
  }
  if (edge != edges_.end()) send(*edge->second, encode(publication));
}

void Hub::seek_cycle(std::uint64_t communicator, std::uint64_t sequence) {
  for (auto& question : cycles_.seek(communicator, sequence)) route(std::move(question));
}

void Hub::pursue(const Publication& asked) {
  const bool has_begun = news_.has_begun(asked.waiting.communicator, asked.waiting.sequence);
  if (asked.from != rank_) {
    for (auto& question : cycles_.pass_on(asked, has_begun)) route(std::move(question));
  } else if (const auto cycle = cycles_.come_back(asked, has_begun)) {
    news_.tell_cycle(cycle->communicator, cycle->sequence, cycle->path);
  }
}

void Hub::leave() {
  if (stage_.is_leaving()) return;
  if (stage_.is_starting()) {
    // During the start-up, spreading a failure of everyone decides the outcome, and leaves.
    return give_up({ErrorKind::aborted, fmt::format("start-up: rank {} gave up", rank_), rank_});
  }
  stage_.leave();
  parted_.emplace_back(rank_, kNobody);
  pass_on_departures();
  for (const auto& [peer, edge] : edges_) edge->finish();
  leave_timer_.expires_after(kLeaveLimit);
  leave_timer_.async_wait(handler([](Hub& hub) { hub.finish_leaving(); }));
  seek_to_leave();
}

void Hub::finish_leaving() {
  for (const auto& [peer, edge] : edges_) edge->close();
  edges_.clear();
  for (const auto& edge : std::exchange(dismissed_, {})) edge->close();
  calling_.reset();
  ascent_.end();
  leave_timer_.cancel();
  watch_timer_.cancel();
  reconnect_timer_.cancel();
  absence_timer_.cancel();
  const std::lock_guard lock(progress_.mutex);
  progress_.gone = true;
  progress_.changed.notify_all();
}

}  // namespace ccoll::control

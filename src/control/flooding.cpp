// SPDX-License-Identifier: Apache-2.0
#include "control/flooding.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace ccoll::control {
namespace {

/// Room for about 64 roll-call words per rank: small jobs need not hold as much as large ones.
constexpr std::size_t kAnswers = 8 << 10;

/// The news that rank `self` counts as lost, worded for that rank.
FailureNews counted_out(const FailureNews& news, std::uint32_t self) {
  FailureNews told = news;
  told.failure = {ErrorKind::peer_lost,
                  fmt::format("the other ranks count this one as lost and continue without it, "
                              "although it is alive: {}",
                              news.failure.message),
                  self};
  return told;
}

}  // namespace

Flooding::Flooding(std::uint32_t rank, std::uint32_t size, News& news, Edges& edges,
                   const Tasks& tasks, Owner& owner)
    : rank_(rank),
      size_(size),
      news_(news),
      edges_(edges),
      tasks_(tasks),
      owner_(owner),
      roll_calls_(rank, std::min(RollCalls::kMaxBytes, size * kAnswers)) {}

void Flooding::subscribe(std::uint64_t communicator, std::weak_ptr<ControlObserver> observer) {
  roll_calls_.open(communicator);
  settle(news_.subscribe(communicator, std::move(observer)));
}

void Flooding::unsubscribe(std::uint64_t communicator) {
  news_.unsubscribe(communicator);
  roll_calls_.close(communicator);
  count();
}

void Flooding::flood(std::uint64_t communicator, const Failure& failure) {
  FailureNews news{rank_, ++numbered_, communicator, failure};
  // Everyone must read the same words, this rank too.
  if (news.failure.message.size() > kMaxText) news.failure.message.resize(kMaxText);
  if (news.failure.culprit && *news.failure.culprit >= size_) news.failure.culprit.reset();
  spread(news, kNobody);
}

void Flooding::settle(const News::Findings& findings) {
  for (const auto& [communicator, failure] : findings) flood(communicator, failure);
}

void Flooding::lose(std::uint32_t peer, const PeerAddress& address, const std::string& why) {
  // If this rank is itself counted out, it is the one that has gone.
  if (news_.is_gone(rank_)) return;
  Failure failure{ErrorKind::peer_lost,
                  fmt::format("rank {} (host {}, pid {}) was lost: {}", peer, ip_text(address),
                              address.pid, why),
                  peer};
  spread({peer, 0, kEveryCommunicator, std::move(failure)}, kNobody);
}

void Flooding::spread(const FailureNews& news, std::uint32_t from) {
  const bool is_loss = news.number == 0;
  const bool is_own = is_loss && news.origin == rank_;
  const FailureNews heard = is_own ? counted_out(news, rank_) : news;
  if (!news_.learn(heard)) return;
  edges_.forward(encode(news), from);
  if (is_loss) owner_.lost(news.origin);
  news_.tell(heard);
  if (news.communicator == kEveryCommunicator) owner_.job_failed(heard.failure);
  if (is_loss) owner_.gone();
  if (news.communicator == kEveryCommunicator) count_soon();
}

void Flooding::part_with(std::uint32_t rank, std::uint32_t from) {
  if (rank == rank_ || !news_.learn_left(rank)) return;
  // Departures heard of in one turn go on in one message, as many ranks may leave at once.
  if (parted_.empty()) tasks_.post([this] { pass_on_departures(); });
  parted_.emplace_back(rank, from);
  news_.tell_left(rank);
  owner_.gone();
  count_soon();
}

void Flooding::say_goodbye() {
  parted_.emplace_back(rank_, kNobody);
  pass_on_departures();
}

void Flooding::pass_on_departures() {
  const auto parted = std::exchange(parted_, {});
  std::vector<std::uint32_t> ranks;
  for (const auto& [peer, edge] : edges_) {
    ranks.clear();
    for (const auto& [rank, from] : parted)
      if (from != peer) ranks.push_back(rank);
    send_departures(*edge, ranks);
  }
}

void Flooding::send_departures(Edge& edge, const std::vector<std::uint32_t>& ranks) {
  for (auto rest = std::span(ranks); !rest.empty();) {
    const auto some = rest.first(std::min(rest.size(), kMaxLeft));
    edges_.send(edge, encode_left(some));
    rest = rest.subspan(some.size());
  }
}

void Flooding::call_roll(const RollCall& call, std::shared_ptr<Headcount> waiting) {
  roll_calls_.begin(call, std::move(waiting));
  count();
}

void Flooding::give_up(const RollCall& call, const Failure& why) {
  roll_calls_.give_up(call, why);
  count();
}

void Flooding::hear(const Answer& answer, std::uint32_t from) {
  if (!roll_calls_.learn(answer)) return;
  edges_.forward(encode(answer), from);
  count_soon();
}

void Flooding::count() {
  roll_calls_.advance(news_);
  for (const Answer& answer : roll_calls_.take()) edges_.forward(encode(answer), kNobody);
}

void Flooding::count_soon() {
  if (std::exchange(will_count_, true)) return;
  tasks_.post([this] {
    will_count_ = false;
    count();
  });
}

void Flooding::catch_up(Edge& edge) {
  for (const FailureNews& news : news_.failures()) edges_.send(edge, encode(news));
  send_departures(edge, {news_.departures().begin(), news_.departures().end()});
  for (const Answer& answer : roll_calls_.answers()) edges_.send(edge, encode(answer));
}

void Flooding::fall_silent(const Failure& failure) noexcept {
  edges_.close();
  news_.cry(failure);
}

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "control/hub.hpp"

#include <exception>
#include <optional>
#include <string_view>

#include "net/deadline.hpp"
#include "net/wire/frame.hpp"

namespace ccoll::control {
namespace {

constexpr std::chrono::milliseconds kHelloLimit{10000};

Status corrupt(std::string_view what) {
  return fail(ErrorKind::corrupt, "a malformed or unexpected message ({})", what);
}

}  // namespace

Hub::Hub(const std::shared_ptr<net::Service>& service, const Control::Membership& membership)
    : service_(service),
      rank_(membership.rank),
      size_(membership.size),
      tasks_(service->context(), *this, membership.now),
      caller_(service, membership),
      news_(membership.size),
      roster_(membership.rank, membership.size, caller_.row(), membership.rank0_text),
      edges_(membership.rank, membership.size, traffic_, membership.now),
      flooding_(membership.rank, membership.size, news_, edges_, tasks_, *this),
      publications_(membership.rank, membership.size, news_, edges_, flooding_),
      watch_(membership.heartbeat, stage_, edges_, flooding_, tasks_),
      absences_(tasks_,
                [this](std::uint32_t rank) {
                  if (!news_.is_gone(rank)) flooding_.part_with(rank, rank);
                }),
      reconnection_(caller_, roster_, stage_, edges_, absences_, flooding_, tasks_, *this, {}),
      liveness_probe_(membership.heartbeat, caller_, roster_, stage_, edges_, absences_, flooding_,
                      tasks_),
      start_up_(caller_, stage_, roster_, edges_, flooding_, reconnection_, tasks_, traffic_,
                progress_, *this),
      admission_({membership.rank, membership.size, caller_.row().nonce, membership.is_whole_job},
                 roster_, news_, stage_),
      leave_timer_(service->context()) {}

void Hub::accept(net::Stream stream) {
  net::spawn(tasks_.context().get_executor(), receive_call(keep(), std::move(stream)),
             "a control connection was dropped");
}

asio::awaitable<void> Hub::receive_call(std::shared_ptr<void> /*kept*/, net::Stream accepted) {
  net::Stream stream = std::move(accepted);
  std::optional<Hello> hello;
  bool is_question = false;
  {
    const net::Deadline limit(stream, kHelloLimit);
    const Result<std::string> payload = co_await net::read_frame(stream, kMaxFrame);
    if (payload) {
      const Result<Frame> frame = parse(*payload);
      is_question = frame && frame->type == Type::question;
      if (frame && (frame->type == Type::hello || is_question)) hello = decode_hello(frame->body);
    }
  }
  if (!hello) {
    traffic_.refused();
    co_return;
  }
  traffic_.received();
  const auto twice = admission_.claimed_twice(*hello);
  if (admission_.disagrees(*hello))
    start_up_.note_trouble(
        fmt::format("rank {} called, which was started with {} ranks", hello->rank, hello->size));
  const auto refusal = is_question ? admission_.reply(*hello)
                                   : admission_.objection(*hello, edges_.contains(hello->rank));
  if (refusal || is_question) {
    if (!is_question) traffic_.refused();
    const net::Deadline limit(stream, kHelloLimit);
    std::string frame = refusal ? encode(*refusal) : encode_welcome();
    asio::error_code ignored;
    co_await stream.write(std::move(frame), ignored);
    if (twice) tell_claim(*twice);
    co_return;
  }
  // After an earlier failure the caller would try again; from here on it is counted in.
  try {
    roster_.set(hello->rank, hello->row);
    watch_.tell_limit(*meet(std::move(stream), hello->rank, hello->row.address, encode_welcome()));
    start_up_.advance();
  } catch (...) {
    break_down();
  }
}

void Hub::tell_claim(const Failure& claim) {
  if (stage_.is_leaving() || stage_.is_long_over(tasks_.now())) return;
  if (admission_.blame(claim))
    flooding_.flood(kEveryCommunicator, {claim.kind, "start-up: " + claim.message, claim.culprit});
}

std::shared_ptr<Edge> Hub::meet(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
                                const std::string& greeting) {
  auto edge = edges_.add(std::move(stream), peer, address, weak_from_this());
  roster_.met(peer);
  edge->start();
  watch_.keep_watch();
  if (!greeting.empty()) edges_.send(*edge, greeting);
  flooding_.catch_up(*edge);
  return edge;
}

Status Hub::received(Edge& edge, const Frame& frame) {
  if (!edges_.counts(edge)) return {};  // the peer is lost
  if (frame.type == Type::beat) return watch_.beat(edge, frame.body);
  traffic_.received();
  const std::uint32_t from = edge.peer();
  switch (frame.type) {
    case Type::gathered:
      return start_up_.gathered(from, frame.body);
    case Type::table:
      return start_up_.table(from, frame.body);
    case Type::failure: {
      const auto news = decode_failure(frame.body, size_);
      if (!news) return corrupt("failure");
      flooding_.spread(*news, from);
      return {};
    }
    case Type::left: {
      const auto ranks = decode_left(frame.body, size_);
      if (!ranks) return corrupt("left");
      for (const std::uint32_t rank : *ranks) flooding_.part_with(rank, from);
      return {};
    }
    case Type::waiting: {
      const auto publication = decode_publication(frame.body, size_);
      if (!publication) return corrupt("waiting");
      publications_.route(*publication);
      return {};
    }
    case Type::answer: {
      const auto answer = decode_answer(frame.body, size_);
      if (!answer) return corrupt("answer");
      flooding_.hear(*answer, from);
      return {};
    }
    case Type::welcome:
    case Type::refused:
      return reconnection_.answered(edge, frame);
    case Type::hello:
    case Type::question:
    case Type::beat:
      break;
  }
  return fail(ErrorKind::corrupt, "a message that this rank did not expect");
}

void Hub::ended(Edge& edge, const std::string& why) {
  const auto kept = edge.shared_from_this();
  if (!edges_.remove(edge)) return;
  if (reconnection_.ended(edge)) return;
  if (stage_.is_leaving()) {
    if (edges_.empty() && !reconnection_.is_on()) finish_leaving();
  } else if (!news_.has_left(edge.peer())) {
    flooding_.lose(edge.peer(), edge.address(), why);
  }
}

void Hub::failed(Edge& edge, const Failure& failure) {
  const auto kept = edge.shared_from_this();
  // Not the peer's fault; it hears of the failure over this connection.
  break_down(failure);
  edges_.remove(edge);
  if (stage_.is_leaving() && edges_.empty() && !reconnection_.is_on()) finish_leaving();
}

void Hub::welcomed(Edge& edge) {
  traffic_.opened();
  watch_.tell_limit(edge);
}

void Hub::lost(std::uint32_t rank) {
  if (const auto edge = edges_.dismiss(rank)) reconnection_.ended(*edge);
}

void Hub::unsubscribe(std::uint64_t communicator) {
  publications_.tell_waits(communicator, {});
  flooding_.unsubscribe(communicator);
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

void Hub::break_down(const Failure& failure) noexcept {
  try {
    flooding_.flood(
        kEveryCommunicator,
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
  flooding_.fall_silent(failure);
  if (stage_.is_starting()) start_up_.decide(tl::unexpected<Failure>(failure));
}

void Hub::leave() {
  if (stage_.is_leaving()) return;
  if (stage_.is_starting()) {
    // During the start-up, spreading a failure of everyone decides the outcome, and leaves.
    return start_up_.give_up(
        {ErrorKind::aborted, fmt::format("start-up: rank {} gave up", rank_), rank_});
  }
  stage_.leave();
  flooding_.say_goodbye();
  edges_.finish();
  leave_timer_.expires_after(kLeaveLimit);
  tasks_.await(leave_timer_, [this] { finish_leaving(); });
  reconnection_.leave();
}

void Hub::finish_leaving() {
  edges_.clear();
  leave_timer_.cancel();
  reconnection_.stop();
  watch_.stop();
  absences_.stop();
  const auto reached = progress_.state.lock();
  reached->gone = true;
  progress_.changed.notify_all();
}

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "control/hub.hpp"

namespace ccoll::control {
namespace {

Status corrupt(std::string_view what) {
  return fail(ErrorKind::corrupt, "a malformed or unexpected message ({})", what);
}

}  // namespace

Hub::Hub(const std::shared_ptr<net::Service>& service, const Control::Membership& membership)
    : context_(service->context()),
      service_(service),
      rank_(membership.rank),
      size_(membership.size),
      tasks_(service->context(), *this),
      caller_(service, membership),
      news_(membership.size),
      roster_(membership.rank, membership.size, caller_.row(), membership.rank0_text),
      edges_(membership.rank, membership.size, traffic_),
      flooding_(membership.rank, membership.size, news_, edges_, tasks_, *this),
      publications_(membership.rank, membership.size, news_, edges_, flooding_),
      watch_(membership.heartbeat, stage_, edges_, flooding_, tasks_),
      absences_(tasks_,
                [this](std::uint32_t rank) {
                  if (!news_.is_gone(rank)) flooding_.part_with(rank, rank);
                }),
      reconnection_(caller_, roster_, stage_, edges_, absences_, flooding_, tasks_, *this),
      liveness_probe_(membership.heartbeat, caller_, roster_, stage_, edges_, absences_, flooding_,
                      tasks_),
      leave_timer_(service->context()),
      admission_({membership.rank, membership.size, caller_.row().nonce, membership.is_whole_job},
                 roster_, news_, stage_) {}

Status Hub::received(Edge& edge, const Frame& frame) {
  if (!edges_.counts(edge)) return {};  // the peer is lost
  if (frame.type == Type::beat) return watch_.beat(edge, frame.body);
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

void Hub::job_failed(const Failure& failure) {
  if (!stage_.is_starting()) return;
  decide(tl::unexpected<Failure>(failure));
  leave();
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
  if (stage_.is_starting()) decide(tl::unexpected<Failure>(failure));
}

void Hub::leave() {
  if (stage_.is_leaving()) return;
  if (stage_.is_starting()) {
    // During the start-up, spreading a failure of everyone decides the outcome, and leaves.
    return give_up({ErrorKind::aborted, fmt::format("start-up: rank {} gave up", rank_), rank_});
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
  const std::lock_guard lock(progress_.mutex);
  progress_.gone = true;
  progress_.changed.notify_all();
}

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "control/connections/liveness_probe.hpp"

#include <algorithm>
#include <string>

#include "control/wire.hpp"

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

void LivenessProbe::probe(const std::vector<std::uint32_t>& ranks) {
  if (stage_.is_leaving() || !stage_.has_joined()) return;
  for (const std::uint32_t rank : ranks)
    if (rank < caller_.size() && rank != caller_.rank()) probes_.want(rank, tasks_.now());
  ask_next();
}

void LivenessProbe::ask_next() {
  while (!stage_.is_leaving()) {
    const auto next = probes_.next();
    if (!next) return;
    const std::uint32_t rank = next->rank;
    if (flooding_.news().is_gone(rank) || edges_.contains(rank) || absences_.contains(rank)) {
      probes_.over(rank);
      continue;
    }
    tasks_.spawn(ask(tasks_.keep(), *next), "control",
                 [this, rank](const Failure&) { over(rank); });
  }
}

void LivenessProbe::over(std::uint32_t rank) {
  probes_.over(rank);
  ask_next();
}

asio::awaitable<void> LivenessProbe::ask(std::shared_ptr<void> /*kept*/,
                                         Probes::Question question) {
  const std::uint32_t rank = question.rank;
  const auto patience = has_limit() ? std::min(kLimit, heartbeat_ / 2) : kLimit;
  const Result<std::string> answer = co_await caller_.ask(roster_[rank], patience);
  const bool nobody = !answer && (answer.error().kind == ErrorKind::peer_lost ||
                                  answer.error().kind == ErrorKind::mismatch);
  if (!stage_.is_leaving()) {
    if (nobody || says_gone(answer)) absences_.add(rank);
    doubt(question, !answer && !nobody);
  }
  over(rank);
}

void LivenessProbe::doubt(const Probes::Question& question, bool silent) {
  if (!silent || !has_limit()) return probes_.has_answered(question.rank);
  const int times = probes_.is_silent(question, tasks_.now(), heartbeat_);
  if (times == 0 || !flooding_.news().has_losses()) return;
  flooding_.lose(question.rank, roster_[question.rank].address,
                 fmt::format("other ranks were lost, and it has not answered {} calls", times));
}

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "control/state/admission.hpp"

#include <string>
#include <utility>

#include "control/tree.hpp"

namespace ccoll::control {
namespace {

std::string process_text(const PeerAddress& address) {
  return fmt::format("host {}, pid {}", ip_text(address), address.pid);
}

Refusal refuse(ErrorKind kind, std::string reason) {
  return {false, {kind, std::move(reason), std::nullopt}};
}

}  // namespace

bool Admission::disagrees(const Hello& hello) const {
  return hello.callee == self_.nonce && hello.size != self_.size;
}

const PeerAddress* Admission::other_as(const Hello& hello) const {
  if (hello.rank >= self_.size || roster_[hello.rank].nonce == 0) return nullptr;
  // Do not, if a thread of the same process gave up this start-up, and is in a later one.
  const auto& known = roster_[hello.rank].address;
  return known.process != hello.row.address.process ? &known : nullptr;
}

std::optional<Failure> Admission::claimed_twice(const Hello& hello) const {
  const auto* const other = other_as(hello);
  if (hello.callee != self_.nonce || other == nullptr) return std::nullopt;
  if (claim_ && claim_->culprit == hello.rank) return claim_;
  if (stage_.is_leaving() || news_.general_failure()) return std::nullopt;
  if (stage_.is_decided()) {
    // A process in place of a rank that has gone belongs to a later start, and so do ranks with new
    // numbers.
    if (!self_.is_whole_job || news_.is_gone(hello.rank) || news_.has_losses() ||
        roster_.has_process(hello.row.address.process))
      return std::nullopt;
  }
  return Failure{
      ErrorKind::mismatch,
      fmt::format("two processes claim to be rank {}: {} and {}; do two jobs use one store?",
                  hello.rank, process_text(*other), process_text(hello.row.address)),
      hello.rank};
}

bool Admission::blame(const Failure& claim) {
  if (claim_) return false;
  claim_ = claim;
  return true;
}

Refusal Admission::has_left() const {
  return {true, {ErrorKind::peer_lost, fmt::format("rank {} has left", self_.rank), self_.rank}};
}

std::optional<Refusal> Admission::objection(const Hello& hello, bool is_connected) const {
  if (auto failure = claimed_twice(hello)) return Refusal{true, std::move(*failure)};
  if (disagrees(hello))
    // A program may form groups one after the other, and the caller be in the next one. A start-up
    // that is over says nothing of a later one, whose rank 0 is about to replace the key.
    return Refusal{
        self_.is_whole_job && !stage_.is_decided(),
        {ErrorKind::mismatch,
         fmt::format("rank {} was started with {} ranks, and rank {} with {}; all must have the "
                     "same number; do two jobs use one store?",
                     self_.rank, self_.size, hello.rank, hello.size),
         hello.rank}};
  if (hello.callee != self_.nonce)
    return refuse(ErrorKind::mismatch,
                  fmt::format("this is rank {} of {} of another job or of a later start",
                              self_.rank, self_.size));
  if (stage_.has_joined()) return late_objection(hello, is_connected);
  if (!is_called_by(self_.rank, hello.rank, self_.size))
    return refuse(ErrorKind::timed_out,
                  fmt::format("rank {} has no reason to call rank {}", hello.rank, self_.rank));
  // The caller may be in a later start-up and have read this one's key. Then it must hear of the
  // new key, even if this rank has left meanwhile.
  if (!roster_.unmet().contains(hello.rank))
    return refuse(ErrorKind::timed_out,
                  fmt::format("rank {} has a connection already", hello.rank));
  if (!stage_.is_leaving()) return std::nullopt;
  if (auto failure = news_.general_failure()) return Refusal{true, std::move(*failure)};
  return has_left();
}

/// After the start-up only lower ranks call, each once, and only if those between have gone. (The
/// caller may know of more departures than this rank does.)
std::optional<Refusal> Admission::late_objection(const Hello& hello, bool is_connected) const {
  if (hello.rank >= self_.rank)
    return refuse(ErrorKind::timed_out,
                  fmt::format("rank {} has no reason to call rank {}", hello.rank, self_.rank));
  if (hello.row != roster_[hello.rank])
    return refuse(ErrorKind::mismatch,
                  fmt::format("this rank knows another process as rank {}", hello.rank));
  if (stage_.is_leaving()) return has_left();
  if (auto loss = news_.loss_of(hello.rank)) return Refusal{true, std::move(*loss)};
  if (is_connected || news_.is_gone(hello.rank))
    return refuse(ErrorKind::timed_out,
                  fmt::format("rank {} has a connection already, or has gone", hello.rank));
  return std::nullopt;
}

std::optional<Refusal> Admission::reply(const Hello& hello) const {
  if (auto failure = claimed_twice(hello)) return Refusal{true, std::move(*failure)};
  if (hello.size != self_.size || hello.callee != self_.nonce)
    return Refusal{
        true, {ErrorKind::mismatch, "this process is not the rank that was called", std::nullopt}};
  if (stage_.is_leaving()) return has_left();
  return std::nullopt;
}

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/step_executor.hpp"

#include <cstring>
#include <tuple>

namespace ccoll {

Polled StepExecutor::flush() {
  if (!owes_) return Polled::waits;
  bool moved = false;
  pushed_ = owes_ = false;
  for (const auto& [link, peer] : outgoing_) {
    if (link->drained()) continue;
    moved |= link->progress();
    const Failure* const failure = link->failure();
    if (link->drained()) continue;
    // Not before drained(): a peer that has taken everything may have left since.
    if (failure != nullptr) return failed(*failure);
    owes_ = true;
  }
  return moved ? Polled::moved : Polled::waits;
}

void StepExecutor::send(const ReadyStep& step, const SliceHeader& header, const std::byte* lent,
                        std::byte* shared, Copier copier) {
  pushed_ = owes_ = true;
  if (shared != nullptr && lent != nullptr) std::memcpy(shared, lent, header.bytes);
  for (auto* link : step.sends) {
    if (shared != nullptr && link->push_shared(header, shared)) continue;
    if (lent != nullptr) {
      link->lend(header, lent, copier);
      continue;
    }
    if (shared != nullptr) std::memcpy(link->room(header.bytes), shared, header.bytes);
    link->push(header);
  }
}

Polled StepExecutor::failed(Failure failure) {
  failure_ = std::move(failure);
  return Polled::failed;
}

Polled StepExecutor::taken_back(const ReadyStep& step, std::size_t receive) {
  return failed(fail(ErrorKind::peer_lost, "rank {} withdrew its data, because its call had failed",
                     step.from[receive])
                    .value());
}

Polled StepExecutor::mismatch(const PlanRun& run, const ReadyStep& step, std::size_t receive,
                              const SliceHeader& header, const SliceHeader& expected) {
  const auto& [sequence, signature] = std::tie(run.sequence, run.signature);
  const auto peer = step.from[receive];
  different_ = MadeCall{peer, header.sequence, header.signature};
  if (layout_.has_private_sizes()) different_->signature.count = signature.count;
  if (header.sequence != sequence || different_->signature != signature)
    return failed(fail(ErrorKind::mismatch, "{}",
                       describe_mismatch({layout_.rank(), sequence, signature}, *different_))
                      .value());
  const auto elems_of = [&](const SliceHeader& slice) {
    return layout_.has_private_sizes() ? slice.signature.count : slice.bytes / layout_.elem_bytes();
  };
  return failed(fail(ErrorKind::mismatch, "{}",
                     describe_counts({peer, sequence, signature}, elems_of(header), layout_.rank(),
                                     elems_of(expected)))
                    .value());
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
// The flight recorder's dumps: a communicator's report of its last operations and of those under
// way, to its caller and to files.
#include <algorithm>
#include <asio/steady_timer.hpp>

#include "comm/progress/owner.hpp"
#include "comm/record/dump/dump.hpp"
#include "comm/record/dumps.hpp"
#include "engine/describe.hpp"

namespace ccoll {
namespace {

/// A dump does not show more operations under way than this.
constexpr std::size_t kMostUnderWay = 64;

/// The owner handles a request when it looks at its limits. If it never does, because it is in a
/// callback or stopped, the dump is a partial one after this long.
constexpr std::chrono::milliseconds kBetweenTries{10};
constexpr int kTries = 50;

}  // namespace

void Dumps::begin(const std::shared_ptr<Dumps>& self) {
  this_ = self;
  signal_ = DumpSignal::join(self);
}

void Dumps::write_requested(Owned owned) noexcept {
  if (record_.is_requested()) write(owned, record_.requested_reason());
}

std::vector<dump::Peer> Dumps::peers(const std::vector<Rank>& ranks) const {
  std::vector<dump::Peer> peers;
  for (const auto rank : ranks) {
    const auto& address = self_.member()->table()[self_.group().job_rank(rank)];
    peers.push_back({rank, ip_text(address), address.pid});
  }
  return peers;
}

dump::UnderWay Dumps::shown(const CollectiveOperation& operation, const Times& times) const {
  dump::UnderWay shown;
  shown.call = operation.run.sequence;
  shown.text = self_.name_of(operation.run, operation.label);
  shown.begun = times.of(operation.begun);
  shown.standing = operation.not_begun();
  if (!operation.started) return shown;
  const auto standing = operation.plan->standing();
  shown.standing = standing.text();
  if (const auto at = standing.position())
    shown.stand = dump::Stand{at->lane, at->step, at->steps, at->window, at->windows};
  shown.waits_for = peers(standing.awaited());
  return shown;
}

dump::UnderWay Dumps::shown_on_device(std::uint64_t number, const Times& times) const {
  dump::UnderWay shown;
  shown.call = number;
  shown.standing = "the host has done its part";
  const auto recorded = record_.history().recorded(number);
  if (!recorded) return shown;  // so many calls ago
  shown.text = self_.name_of(number, recorded->signature, label_in(record_.labels().of(number)));
  shown.begun = times.of(recorded->begun);
  return shown;
}

Record::Standing Dumps::standing(Owned owned) const {
  const auto times = record_.times();
  Record::Standing standing;
  standing.finished = under_way_.collectives(owned).finished();
  // A forked child asks nothing of its parent's streams.
  const auto on_device = progress_.is_forked() ? std::vector<LeftOnDevice>()
                                               : under_way_.in_streams().left_on_device(owned);
  for (const auto& left : on_device) {
    if (left.beside != nullptr) continue;
    standing.on_device.insert(left.number);
    if (standing.under_way.size() >= kMostUnderWay) continue;
    standing.under_way.push_back(shown_on_device(left.number, times));
    standing.under_way.back().device = left.standing;
  }
  for (const auto& operation : under_way_.collectives(owned)) {
    if (standing.under_way.size() >= kMostUnderWay) break;
    standing.under_way.push_back(shown(*operation, times));
    const auto left = std::ranges::find(on_device, operation.get(), &LeftOnDevice::beside);
    if (left != on_device.end()) standing.under_way.back().device = left->standing;
  }
  for (const auto& operation : under_way_.messages(owned).pending()) {
    if (standing.under_way.size() >= kMostUnderWay) break;
    dump::UnderWay shown;
    shown.text = under_way_.messages(owned).name_of(*operation);
    shown.standing = under_way_.messages(owned).standing(*operation);
    shown.begun = times.of(operation->begun);
    shown.waits_for = peers(under_way_.messages(owned).awaited(*operation));
    standing.under_way.push_back(std::move(shown));
  }
  return standing;
}

void Dumps::keep_standing(Owned owned) noexcept {
  try {
    record_.keep(owned, standing(owned));
  } catch (...) {
    // Memory ran out, which may be why it breaks.
    record_.keep(owned, {});
  }
}

dump::Dump Dumps::made(Owned owned, std::string_view reason) const {
  std::optional<dump::Failed> failed;
  if (const auto failure = failures_.first()) {
    failed = {std::string(to_string(failure->kind)), self_.for_caller(*failure).message, {}};
    if (failure->culprit) failed->culprit = self_.group().rank_of(*failure->culprit);
  }
  if (const auto& kept = record_.kept(owned))
    return record_.dump(owned, reason, *kept, std::move(failed));
  return record_.dump(owned, reason, standing(owned), std::move(failed));
}

std::string Dumps::text() {
  const Owner owned(progress_);
  return dump::to_json(made(owned, "asked"));
}

void Dumps::write(Owned owned, std::string_view reason) noexcept {
  record_.end_request();
  // The file is the parent's.
  if (progress_.is_forked() || !record_.admits(reason)) return;
  try {
    record_.write(made(owned, reason));
    if (reason == Record::kFailureDump && signal_) signal_->failed(*this);
  } catch (...) {
    // No memory: the failure itself is told all the same.
  }
}

void Dumps::request(std::string reason) {
  if (!record_.has_file()) return;
  record_.request(std::move(reason));
  progress_.waiter().ring();
  try_to_write(0);
}

void Dumps::try_to_write(int tries) {
  if (!record_.is_requested() || failures_.verdict().is_closed()) return;
  if (const auto free = progress_.try_own()) {
    const Owner owned(progress_, *free);
    return write(owned, record_.requested_reason());
  }
  if (tries >= kTries) {
    if (record_.has_dumped_failure()) return;
    auto made = record_.dump_of_calls(record_.requested_reason());
    made.partial = true;
    return record_.write(made);
  }
  const auto timer =
      std::make_shared<asio::steady_timer>(self_.service()->context(), kBetweenTries);
  timer->async_wait([timer, tries, weak = this_](const std::error_code& code) {
    if (const auto self = code ? nullptr : weak.lock()) self->try_to_write(tries + 1);
  });
}

}  // namespace ccoll

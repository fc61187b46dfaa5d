// SPDX-License-Identifier: Apache-2.0
#include "comm/api/session.hpp"

#include <algorithm>

#include "comm/groups/costs.hpp"
#include "comm/progress/background.hpp"
#include "comm/progress/owner.hpp"
#include "comm/record/dump_signal.hpp"
#include "core/deadline.hpp"
#include "core/patience.hpp"
#include "engine/describe.hpp"
#include "rendezvous/identity.hpp"
#include "system/log.hpp"

namespace ccoll {
Session::Session(std::shared_ptr<Member> member, std::uint64_t id,
                 const CommunicatorOptions& options, Group group, std::shared_ptr<Waiter> waiter)
    : self_(std::move(member), id, options, std::move(group)),
      progress_(*this, waiter, &Clock::now),
      under_way_(self_, progress_, std::move(waiter)) {
  self_.member()->enter();
}

namespace {

/// Checks the options, then makes the waiter, which a communicator needs first.
Result<std::shared_ptr<Waiter>> make_waiter(const CommunicatorOptions& options, Chimes& chimes) {
  if (options.timeout.count() <= 0)
    return fail(ErrorKind::invalid_argument,
                "a communicator's time limit of {} ms; it must be more than 0",
                options.timeout.count());
  if (options.eager_limit > kMaxEagerBytes)
    return fail(ErrorKind::invalid_argument, "an eager limit of {} bytes: the most is {}",
                options.eager_limit, kMaxEagerBytes);
  if (options.device.ordinal < kHost)
    return fail(ErrorKind::invalid_argument,
                "device {}: expected a GPU's number, from 0 up, or kHost ({})",
                options.device.ordinal, kHost);
  if (options.device.staging_bytes == 0)
    return fail(ErrorKind::invalid_argument, "device.staging_bytes is 0: expected at least 1");
  if (options.device.workspace_bytes == 0)
    return fail(ErrorKind::invalid_argument, "device.workspace_bytes is 0: expected at least 1");
  if (options.device.copies > DeviceCopies::never)
    return fail(ErrorKind::invalid_argument, "device.copies is {}: {}",
                static_cast<int>(options.device.copies), to_string(options.device.copies));
  return chimes.next().and_then([](auto chime) { return Waiter::make(std::move(chime)); });
}

}  // namespace

Result<std::shared_ptr<Session>> Session::make(std::shared_ptr<Member> member, std::uint64_t id,
                                               const CommunicatorOptions& options, Group group) {
  auto waiter = make_waiter(options, member->chimes());
  if (!waiter) {
    // Peers may be sending to this rank already.
    member->transports()->forget(id);
    return tl::unexpected(waiter.error());
  }
  const auto transports = member->transports();
  std::shared_ptr<Session> made;
  try {
    made.reset(new Session(std::move(member), id, options, std::move(group), std::move(*waiter)));
  } catch (...) {
    // Its links may listen already.
    transports->forget(id);
    throw;
  }
  made->configure();
  if (auto whole = made->make_whole(); !whole) {
    // If it is the job's own one, the others hear why before they hear that this rank has left.
    if (const auto& self = made->self(); id == self.job())
      self.control().flood(
          id, {ErrorKind::peer_lost,
               fmt::format("rank {} could not make its part of the communicator: {}", self.rank(),
                           whole.error().message),
               self.job_rank()});
    return tl::unexpected(std::move(whole.error()));
  }
  return made;
}

Result<Child> Session::make_child(std::uint64_t id, const CommunicatorOptions& options,
                                  Group group) const {
  return make(self_.member(), id, options, std::move(group)).map([](const auto& made) {
    return Child{made, made->self_, made->failures_.verdict(), made->control_news_, made->groups_};
  });
}

Status Session::make_whole() {
  const std::stop_callback ended(Patience::of_thread().stop,
                                 [this] { abort("its start-up was ended"); });
  CCOLL_TRY(device_programs_.find_device());
  progress_.start(self_.service()->context(), {shared_from_this(), &progress_},
                  {planner_.is_oversubscribed(), planner_.fills_cores()});
  dumps_.begin({shared_from_this(), &dumps_});
  self_.control().subscribe(self_.id(),
                            std::shared_ptr<ControlObserver>(shared_from_this(), &control_news_));
  subscribed_ = true;
  CCOLL_TRY(device_programs_.find_way());
  // Where GPUs make the calls, plans of the host's are seldom needed.
  if (!device_programs_.has_way()) calls_.rehearse(Owner(progress_));
  return {};
}

void Session::configure() {
  Planner::Setting setting{
      .rank = self_.rank(), .size = self_.size(), .deterministic = self_.options().deterministic};
  const auto& options = self_.options();
  const auto& member = *self_.member();
  auto& forced = setting.forced;
  if (!options.algorithm.empty()) forced.algorithm = parse_algorithm(options.algorithm);
  if (options.max_lanes > 0) forced.max_lanes = static_cast<std::uint16_t>(options.max_lanes);
  std::vector<PeerAddress> ranks;
  for (const auto job_rank : self_.group().job_ranks()) ranks.push_back(member.table()[job_rank]);
  setting.shares_memory = is_memory(slowest_transport(ranks, member.transports()->allowed()));
  setting.hosts = hosts_of(ranks);
  setting.costs =
      costs_among(ranks, member.transports()->allowed(), member.cores_per_rank(), member.tuning());
  const auto beside = std::ranges::count(ranks, ranks[self_.rank()].host, &PeerAddress::host);
  if (const auto cache = host_cache_bytes(); cache != 0)
    setting.cached_bytes = cache / static_cast<std::uint64_t>(beside);
  record_.begin(setting.hosts);
  planner_ = Planner(std::move(setting));
  const Owner owned(progress_);
  under_way_.messages(owned).record(&record_.recorder(owned), record_.tracing(owned));
}

Session::~Session() {
  static_cast<void>(close(false));  // there is nobody left to tell
  progress_.stop();
  // Without a subscription this rank's part is not closed: the rank may still get it.
  if (subscribed_) self_.control().unsubscribe(self_.id());
  self_.member()->transports()->forget(self_.id());
}

Status Session::close(bool is_told) {
  if (!failures_.verdict().close()) return {};
  bool was_told = false;
  std::optional<Failure> late;
  {
    const Owner owned(progress_);
    const auto& verdict = failures_.verdict();
    const auto end_with = [&](const Failure& failure) {
      failures_.break_with(owned, failure, true);
      late = verdict.broken(owned);
    };
    if (is_told && device_programs_.has_way() && !verdict.broken(owned))
      streams_.end_what_devices_made(owned);
    was_told = verdict.broken(owned).has_value();
    if (!was_told) dumps_.write_requested(owned);
    // A lost link may only mean that its rank has left.
    if (!was_told && verdict.suspicion(owned) &&
        verdict.suspicion(owned)->kind != ErrorKind::peer_lost)
      end_with(*verdict.suspicion(owned));
    if (!verdict.broken(owned) && !verdict.suspicion(owned))
      if (const auto unread = comparison_.unread(owned, true)) end_with(*unread);
    if (!verdict.broken(owned)) failures_.break_with(owned, Failures::destroyed(), false);
    under_way_.in_streams().abandon(owned, self_.for_caller(Failures::destroyed()));
    if (auto* tracing = record_.tracing(owned)) tracing->write();
  }
  comparison_.publish_end(!was_told);
  if (late) comparison_.end_farewells();  // this rank knows what the others hear now
  if (!was_told && is_told) comparison_.await_last_calls();
  births_.end_making(Failures::destroyed());
  births_.abort_shrink(Failures::destroyed());
  const auto compared = comparison_.compare_with_ahead();
  self_.member()->exit();
  if (was_told) return {};
  if (!late) late = failures_.verdict().heard();
  // This rank's own abort() is no news to it.
  if (late && late->kind == ErrorKind::aborted && late->culprit == self_.job_rank()) return {};
  if (!late && !compared) late = compared.error();
  return late ? tl::unexpected(self_.for_caller(*late)) : Status{};
}

void Session::end_work(std::string_view reason) {
  const Owner owned(progress_);
  if (!busy(owned)) return;
  abort(reason);
  failures_.take_news(owned);
}

void Session::abort(std::string_view reason) {
  if (progress_.is_forked()) raise(self_.for_caller(failures_.news().value()));
  const Failure failure{
      ErrorKind::aborted,
      fmt::format("rank {} aborted{}{}", self_.rank(), reason.empty() ? "" : ": ", reason),
      self_.job_rank()};
  // Act here at once, whatever the service thread does; it also writes a dump if one is wanted.
  failures_.hear(failure);
  self_.control().flood(self_.id(), failure);
}

void Session::forked() {
  // Threads that may have held these do not exist here.
  progress_.forked();
  under_way_.in_streams().forked();
  record_.forget_locks();
  failures_.forget_locks();
  comparison_.forget_locks();
  waits_.stands().forget_lock();
  births_.forget_lock();
  failures_.verdict().notify();
}

bool Session::advance(Owned owned, Attention attention) try {
  auto& verdict = failures_.verdict();
  auto& in_streams = under_way_.in_streams();
  bool moved = false;
  if (verdict.has_news() && failures_.take_news(owned, !verdict.suspicion(owned))) return true;
  if (progress_.is_forked() || (verdict.suspicion(owned) && !verdict.broken(owned))) return false;
  // Do this in a broken communicator, too: its streams must go on.
  if (in_streams.busy(owned)) [[unlikely]]
    moved |= streams_.advance(owned);
  moved |= !under_way_.collectives(owned).empty() && calls_.advance(owned);
  if (verdict.broken(owned) || verdict.suspicion(owned)) return false;
  auto messages_moved = under_way_.messages(owned).advance(attention);
  if (!messages_moved) {
    failures_.failed(owned, std::move(messages_moved.error()));
    return false;
  }
  moved |= *messages_moved;
  if (in_streams.busy(owned)) [[unlikely]]
    moved |= streams_.advance(owned);
  if (!moved && verdict.has_news() && failures_.take_news(owned)) return true;
  if (moved) progress_.move(owned);
  if (moved && waits_.are_reported(owned)) waits_.take_back(owned);
  return moved;
} catch (...) {
  failures_.threw(owned, failure_of(std::current_exception()));
  return false;
}

Clock::time_point Session::supervise(Owned owned, Clock::time_point now) {
  const auto look = [&]() -> std::optional<Clock::time_point> {
    dumps_.write_requested(owned);
    progress_.turns(owned).look(now);
    auto next = now + std::chrono::seconds(1);
    if (limits_.end_suspicion(owned, now, next)) return next;
    if (auto standing = under_way_.in_streams().supervise(owned, now, next);
        !standing && !failures_.broken(owned)) {
      failures_.threw(owned, standing.error());
      return next;
    }
    return limits_.look(owned, now, next);
  };
  return failures_.guarded(owned, look).value_or(now);
}

void Session::breaks(Owned owned) noexcept { dumps_.keep_standing(owned); }

void Session::broke(Owned owned, bool first) {
  waits_.take_back(owned);
  if (first && record_.has_file() && !is_closed()) dumps_.write(owned, Record::kFailureDump);
}

void Session::heard(const Failure& failure) {
  comparison_.end_farewells();
  births_.end_unwarned_making(failure);
}

}  // namespace ccoll

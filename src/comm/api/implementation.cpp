// SPDX-License-Identifier: Apache-2.0
#include "comm/api/owner.hpp"

#include <algorithm>

#include "comm/groups/costs.hpp"
#include "comm/progress/background.hpp"
#include "comm/record/dump_signal.hpp"
#include "core/deadline.hpp"
#include "core/patience.hpp"
#include "engine/describe.hpp"
#include "rendezvous/identity.hpp"
#include "system/log.hpp"

namespace ccoll {
Communicator::Implementation::Implementation(std::shared_ptr<Member> member, std::uint64_t id,
                                             const CommunicatorOptions& options, Group group,
                                             std::shared_ptr<Waiter> waiter)
    : member_(std::move(member)),
      id_(id),
      options_(options),
      group_(std::move(group)),
      name_(options.name.empty() ? "world" : options.name),
      waiter_(std::move(waiter)),
      links_(id, group_.job_ranks(), member_->transports(), waiter_),
      messages_(group_, links_,
                Messages::Limits{options.eager_limit, options.strict_sends,
                                 options.device.direct_messages},
                [this](Failure failure, std::string_view label) {
                  return for_caller(std::move(failure), label);
                }),
      streams_(*this, group_.size(), options.device.staging_bytes) {
  member_->enter();
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

Result<std::shared_ptr<Communicator::Implementation>> Communicator::Implementation::make(
    std::shared_ptr<Member> member, std::uint64_t id, const CommunicatorOptions& options,
    Group group) {
  auto waiter = make_waiter(options, member->chimes());
  if (!waiter) {
    // Peers may be sending to this rank already.
    member->transports()->forget(id);
    return tl::unexpected(waiter.error());
  }
  const auto transports = member->transports();
  std::shared_ptr<Implementation> made;
  try {
    made.reset(
        new Implementation(std::move(member), id, options, std::move(group), std::move(*waiter)));
  } catch (...) {
    // Its links may listen already.
    transports->forget(id);
    throw;
  }
  made->configure();
  if (auto whole = made->make_whole(); !whole) {
    // If it is the job's own one, the others hear why before they hear that this rank has left.
    if (id == made->job())
      made->member_->control().flood(
          id, {ErrorKind::peer_lost,
               fmt::format("rank {} could not make its part of the communicator: {}", made->rank(),
                           whole.error().message),
               made->job_rank()});
    return tl::unexpected(std::move(whole.error()));
  }
  return made;
}

Status Communicator::Implementation::make_whole() {
  const std::stop_callback ended(Patience::of_thread().stop,
                                 [this] { abort("its start-up was ended"); });
  CCOLL_TRY(streams_.find_device());
  background_ = Background::make(member_->service()->context(), shared_from_this(), waiter_);
  dumps_.begin();
  member_->control().subscribe(id_, shared_from_this());
  subscribed_ = true;
  return streams_.find_device_way();
}

void Communicator::Implementation::configure() {
  Planner::Setting setting{.rank = rank(), .size = size(), .deterministic = options_.deterministic};
  auto& forced = setting.forced;
  if (!options_.algorithm.empty()) forced.algorithm = parse_algorithm(options_.algorithm);
  if (options_.max_lanes > 0) forced.max_lanes = static_cast<std::uint16_t>(options_.max_lanes);
  std::vector<PeerAddress> ranks;
  for (const auto job_rank : group_.job_ranks()) ranks.push_back(member_->table()[job_rank]);
  const auto transport = slowest_transport(ranks, member_->transports()->allowed());
  setting.hosts = hosts_of(ranks);
  setting.costs = costs_among(ranks, member_->transports()->allowed(), member_->cores_per_rank(),
                              member_->tuning());
  const auto beside = std::ranges::count(ranks, ranks[group_.rank()].host, &PeerAddress::host);
  if (const auto cache = host_cache_bytes(); cache != 0)
    setting.cached_bytes = cache / static_cast<std::uint64_t>(beside);
  in_memory_ = is_memory(transport);
  record_.begin(setting.hosts);
  planner_ = Planner(std::move(setting));
  const Owner owned(*this);
  messages_(owned).record(&record_.recorder(), record_.tracing());
}

Result<std::string> Communicator::Implementation::transport_to(Rank peer) const {
  auto kind = member_->transports()->in_use_to(group_.job_rank(peer));
  if (!kind) return tl::unexpected(kind.error());
  return std::string((*kind)->name);
}

Communicator::Implementation::~Implementation() {
  close(false);
  if (background_) background_->stop();
  // Without a subscription this rank's part is not closed: the rank may still get it.
  if (subscribed_) member_->control().unsubscribe(id_);
  member_->transports()->forget(id_);
}

Status Communicator::Implementation::close(bool is_told) {
  if (closed_.exchange(true)) return {};
  bool was_told = false;
  std::optional<Failure> late;
  {
    const Owner owned(*this);
    if (streams_.has_device_way() && !verdict_.broken()) streams_.end_what_devices_made(owned);
    was_told = verdict_.broken().has_value();
    if (!was_told) dumps_.write_requested(owned);
    // A lost link may only mean that its rank has left.
    if (!was_told && verdict_.suspicion() && verdict_.suspicion()->kind != ErrorKind::peer_lost) {
      break_with(owned, *verdict_.suspicion(), true);
      late = verdict_.broken();
    }
    if (!verdict_.broken() && !verdict_.suspicion()) {
      if (const auto unread = comparison_.unread(owned, true)) {
        break_with(owned, *unread, true);
        late = verdict_.broken();
      }
    }
    if (!verdict_.broken()) break_with(owned, destroyed(), false);
    streams_.calls().abandon(owned, for_caller(destroyed()));
    if (auto* tracing = record_.tracing()) tracing->write();
  }
  comparison_.publish_end(!was_told);
  if (late) comparison_.end_farewells();  // this rank knows what the others hear now
  if (!was_told && is_told) comparison_.await_last_calls();
  groups_.parent_closed(destroyed());
  const auto compared = comparison_.compare_with_ahead();
  member_->exit();
  if (was_told) return {};
  if (!late) {
    late = verdict_.heard();
  }
  // This rank's own abort() is no news to it.
  const auto self = group_.job_rank(rank());
  if (late && late->kind == ErrorKind::aborted && late->culprit == self) return {};
  if (!late && !compared) late = compared.error();
  return late ? tl::unexpected(for_caller(*late)) : Status{};
}

Status Communicator::Implementation::called_from_outside() const {
  if (!is_folding_for(this)) return {};
  return tl::unexpected(for_caller(
      {ErrorKind::invalid_argument,
       "the function of a reduction uses the communicator that called it", std::nullopt}));
}

Owned Communicator::Implementation::wait_to_own() {
  value_or_throw(called_from_outside());
  return turns_.wait_to_own([this] { waiter_->ring(); });
}

void Communicator::Implementation::release_to_background(Owned owned) {
  // Operations go on in the parent; threads that do not exist here may hold asio's locks.
  if (is_forked()) return disown(owned);
  const bool must_wake = background_->sleeps() && !left_to_background(owned);
  if (!busy(owned)) return disown_idle(owned);
  // seq_cst; partner: Background::turn, which marks itself awake before it tries to own. It gets
  // the flag, or is seen to be awake here. If it has gone to sleep since, it had the flag.
  disown(owned);
  if (must_wake || !background_->sleeps()) background_->schedule();
}

bool Communicator::Implementation::left_to_background(Owned owned) {
  const auto until = background_->sleeps_until();
  // If its announcement was taken back, peers do not wake it.
  if (!waiter_->announced()) return false;
  if (progress(owned, Messages::Attention::everyone)) return false;
  return supervise(owned, Clock::now()) >= until;
}

void Communicator::Implementation::set_limit(Operation& operation, Clock::time_point now,
                                             std::chrono::milliseconds timeout) const {
  operation.begun = now;
  operation.stands = {};
  operation.sought = false;
  operation.long_wait = LongWait::no;
  operation.deadline = deadline_after(timeout.count() > 0 ? timeout : options_.timeout, now);
}

Result<std::shared_ptr<Work::State>> Communicator::Implementation::begin(Owned owned,
                                                                         const Call& call) try {
  CCOLL_TRY(usable(owned));
  auto operation = std::make_shared<CollectiveOperation>();
  // Allocate first: a throw after the operation has begun would free the buffers that it uses.
  auto work = std::make_shared<Work::State>(Work::State{shared_from_this(), {operation}});
  if (auto ready = make_ready(owned, call, *operation); !ready) {
    // The other ranks would wait for this one.
    break_with(owned, ready.error(), true);
    return tl::unexpected(*verdict_.broken());
  }
  if (log().tells(LogLevel::trace))
    log().trace("rank {}: {} begins", rank(), describe(operation->run.signature));
  operation->label = call.label;
  operation->gate = call.gate;
  operation->timeout = call.timeout;
  set_limit(*operation, Clock::now(), call.timeout);
  if (operation->gate) operation->deadline = Clock::time_point::max();
  operation->publish_at = operation->begun + kPublishAfter;
  const auto place = collectives_(owned).place_for(call.from_graph);
  if (!call.gate && collectives_(owned).is_numbered_before(place)) {
    if (auto numbered = number(owned, *operation); !numbered) {
      break_with(owned, numbered.error(), true);
      return tl::unexpected(numbered.error());
    }
  } else {
    operation->run.sequence = collectives_(owned).likely_number(place);
  }
  collectives_(owned).insert(place, std::move(operation));
  turns_.begin();
  return work;
} catch (...) {
  threw(owned, failure_of(std::current_exception()));
  return tl::unexpected(*verdict_.broken());
}

void Communicator::Implementation::limit_gated(Owned /*owned*/, CollectiveOperation& operation,
                                               Clock::time_point now) {
  // A call that counted as reached waits for its stream again once all ranks have entered it.
  if (!operation.gate->reached()) operation.deadline = Clock::time_point::max();
  if (operation.deadline != Clock::time_point::max() || !operation.gate->reached()) return;
  set_limit(operation, now, operation.timeout);
  operation.publish_at = operation.begun + kPublishAfter;
}

Status Communicator::Implementation::number(Owned owned, CollectiveOperation& operation) {
  auto& run = operation.run;
  if (!operation.label.empty() || run.custom)
    record_.labels().set(collectives_(owned).next_number(), operation.note());
  if (record(owned, run.signature)) CCOLL_TRY(comparison_.compare_with_ahead());
  run.sequence = collectives_(owned).take_number();
  operation.is_numbered = true;
  return {};
}

Result<std::shared_ptr<Plan>> Communicator::Implementation::plan_for(Owned owned, const Call& call,
                                                                     const Signature& asked) {
  const auto key = planner_.key_of(call, asked);
  if (auto found = plans_(owned).find(key)) return found;
  const auto request = planner_.request_for(call, asked);
  if (!request) return tl::unexpected(request.error());
  auto plan = Plan::make(*request, links_);
  if (!plan) return tl::unexpected(plan.error());
  if (auto* tracing = record_.tracing())
    (*plan)->observe(tracing->observer_for(*request, call.ragged()));
  return plans_(owned).keep(key, std::move(*plan));
}

Status Communicator::Implementation::make_ready(Owned owned, const Call& call,
                                                CollectiveOperation& operation) {
  auto& run = operation.run;
  run.signature = signature_of(call);
  if (call.on_device) return streams_.make_ready_beside(owned, *call.on_device, operation);
  auto plan = plan_for(owned, call, run.signature);
  if (!plan) return tl::unexpected(plan.error());
  operation.plan = *plan;
  run.signature.algorithm = static_cast<std::uint8_t>((*plan)->algorithm());
  run.input = call.input;
  run.output = call.output;
  run.in_place = call.in_place;
  run.block_counts = call.block_counts;
  run.output_counts = call.output_counts;
  run.custom = call.op.custom();
  run.custom_for = this;
  if (call.parts) operation.parts.emplace(call.parts, run);
  if (call.kind == Kind::barrier) {
    run.input.data = &barrier_[0];
    run.output.data = &barrier_[1];
  }
  if (is_widened(call, (*plan)->algorithm(), size())) {
    auto widening = Widening::make(call, rank(), size(), run);
    if (!widening) return tl::unexpected(widening.error());
    operation.widening = std::move(*widening);
  }
  if (needs_input_copy(call)) {
    auto copy = InputCopy::make(call, rank(), size(), run);
    if (!copy) return tl::unexpected(copy.error());
    operation.input_copy = std::move(*copy);
  }
  if (call.op.form() != Reduction::Form::premultiplied_sum) return {};
  auto premultiplication = Premultiplication::make(call, rank(), size(), run);
  if (!premultiplication) return tl::unexpected(premultiplication.error());
  operation.premultiplication = std::move(*premultiplication);
  return {};
}

Status Communicator::Implementation::run(Owned owned, const Call& call) {
  CCOLL_TRY(alone(owned, call));
  const auto work = begin(owned, call);
  if (!work) return tl::unexpected(work.error());
  return finish(owned, **work);
}

Status Communicator::Implementation::finish(Owned owned, const Work::State& work) {
  const auto& run = static_cast<const CollectiveOperation*>(work.operations.front().get())->run;
  const Collectives::Blocking blocking{run.signature, run.sequence};
  const struct Unblock {
    Collectives& collectives;
    ~Unblock() { collectives.unblock(); }
  } unblock{collectives_(owned)};
  collectives_(owned).block(blocking);
  wait(owned, work, Clock::time_point::max());
  // A collective fails only together with all that is under way.
  if (work.failure() != nullptr) return tl::unexpected(*verdict_.broken());
  return {};
}

Clock::time_point Communicator::Implementation::supervise(Owned owned, Clock::time_point now) {
  return guarded(owned, [&] { return std::optional(look_at_limits(owned, now)); }).value_or(now);
}

void Communicator::Implementation::begin_what_is_reached() { background_->schedule(); }

bool Communicator::Implementation::progress(Owned owned, Messages::Attention attention) try {
  bool moved = false;
  if (verdict_.has_news() && take_news(owned, !verdict_.suspicion())) return true;
  if (is_forked() || (verdict_.suspicion() && !verdict_.broken())) return false;
  // Do this in a broken communicator, too: its streams must go on.
  if (streams_.calls().busy(owned)) [[unlikely]]
    moved |= streams_.calls().advance(owned, *this);
  moved |= !collectives_(owned).empty() && advance_collective(owned);
  if (verdict_.broken() || verdict_.suspicion()) return false;
  auto messages_moved = messages_(owned).advance(attention);
  if (!messages_moved) {
    failed(owned, std::move(messages_moved.error()));
    return false;
  }
  moved |= *messages_moved;
  if (streams_.calls().busy(owned)) [[unlikely]]
    moved |= streams_.calls().advance(owned, *this);
  if (!moved && verdict_.has_news() && take_news(owned)) return true;
  if (moved) turns_.move();
  if (moved && waits_.are_reported(owned)) waits_.take_back(owned);
  return moved;
} catch (...) {
  threw(owned, failure_of(std::current_exception()));
  return false;
}

bool Communicator::Implementation::advance_collective(Owned owned) {
  const auto& operation = collectives_(owned).front();
  auto& plan = *operation->plan;
  if (operation->is_held_back()) return false;
  if (!operation->started) {
    if (!operation->is_numbered)
      if (auto numbered = number(owned, *operation); !numbered) {
        collective_failed(owned, std::move(numbered.error()));
        return false;
      }
    if (operation->gate) {
      limit_gated(owned, *operation, Clock::now());
      waits_.stands().set(std::nullopt);
    }
    if (operation->premultiplication) (*operation->premultiplication)();
    if (operation->input_copy) (*operation->input_copy)();
    if (operation->widening) operation->widening->widen();
    plan.start(operation->run);
    operation->started = true;
  }
  auto moved = plan.advance();
  if (!moved) {
    collective_failed(owned, std::move(moved.error()));
    return false;
  }
  if (plan.rests()) return operation->parts->go_on(operation->run) || *moved;
  if (!plan.done()) return *moved;
  if (operation->widening) operation->widening->narrow();
  const auto finished = collectives_(owned).take_front();
  record_.call_ended(finished->run.sequence);
  finished->end();
  return true;
}

void Communicator::Implementation::collective_failed(Owned owned, Failure failure) {
  const auto& operation = *collectives_(owned).front();
  if (failure.kind == ErrorKind::peer_lost)
    failure.message =
        fmt::format("{}, {}: {}", name_of(operation), operation.plan->standing(), failure.message);
  else if (failure.kind == ErrorKind::mismatch && operation.plan->different())
    return comparison_.ask_for_label(owned, operation, std::move(failure));
  else if (failure.kind != ErrorKind::mismatch)
    failure.message = fmt::format("{}: {}", name_of(operation), failure.message);
  failed(owned, std::move(failure));
}

bool Communicator::Implementation::wait(Owned owned, const Work::State& work,
                                        Clock::time_point limit) {
  constexpr unsigned kRoundsBetweenLooks = 64;
  SpinPolicy patience(planner_.is_oversubscribed());
  Remaining remaining(work);
  std::optional<std::uint64_t> rested;
  unsigned rounds = 0;
  while (!remaining.none()) {
    if (progress(owned)) {
      patience.reset();
      if (++rounds % kRoundsBetweenLooks != 0) continue;
      // Time limits hold even while something moves.
      const auto now = Clock::now();
      if (now >= limit) return remaining.none();
      supervise(owned, now);
      if (!turns_.must_pass(rested) || remaining.none()) continue;
    }
    if (turns_.must_pass(rested)) {
      if (limit != Clock::time_point::max() && Clock::now() >= limit) return remaining.none();
      rested = turns_.rest(owned, limit);
      continue;
    }
    if (patience.keep_polling()) continue;
    const auto now = Clock::now();
    if (now >= limit) return false;
    const auto next = std::min({supervise(owned, now), limit, turns_.rest_until()});
    if (remaining.none()) break;
    waiter_->prepare();
    if (!progress(owned, Messages::Attention::everyone) && !turns_.must_pass(rested))
      sleep(owned, work, now, next);
    waiter_->awake();
    turns_.end_rests(Clock::now());
  }
  return true;
}

void Communicator::Implementation::sleep(Owned owned, const Work::State& work,
                                         Clock::time_point now, Clock::time_point until) {
  auto awaited = this->awaited(owned, work);
  waiter_->sleep(until - now);
  note_sleep(owned, std::move(awaited), Clock::now() - now);
}

void Communicator::Implementation::poll() {
  const auto free = background_->is_due() ? std::nullopt : try_own();
  if (!free) return;
  const Owner owned(*this, *free);
  progress(owned);
  supervise(owned, Clock::now());
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "comm/implementation.hpp"

#include <algorithm>
#include <numeric>
#include <thread>

#include "comm/background.hpp"
#include "comm/patience.hpp"
#include "core/deadline.hpp"

namespace ccoll {
namespace {

std::uint64_t child_id(std::uint64_t parent, std::uint64_t number) {
  std::uint64_t value = parent ^ (number * 0x9e3779b97f4a7c15ULL);
  value = (value ^ (value >> 31)) * 0xbf58476d1ce4e5b9ULL;
  return value ^ (value >> 29);
}

/// The job's rank of each rank of a communicator that has all of them.
std::vector<std::uint32_t> everyone(std::size_t size) {
  std::vector<std::uint32_t> group(size);
  std::iota(group.begin(), group.end(), 0U);
  return group;
}

}  // namespace

Communicator::Implementation::Implementation(std::shared_ptr<Member> member, std::uint64_t id,
                                             const CommunicatorOptions& options,
                                             std::shared_ptr<Waiter> waiter)
    : member_(std::move(member)),
      id_(id),
      options_(options),
      waiter_(std::move(waiter)),
      links_(id, everyone(member_->table().size()), member_->transports(), waiter_) {
  member_->enter();
}

Result<std::shared_ptr<Communicator::Implementation>> Communicator::Implementation::make(
    std::shared_ptr<Member> member, std::uint64_t id, const CommunicatorOptions& options) {
  auto waiter = Waiter::make();
  if (!waiter) return tl::unexpected(waiter.error());
  std::shared_ptr<Implementation> made(
      new Implementation(std::move(member), id, options, std::move(*waiter)));
  made->configure();
  auto background = Background::make(made->member_->service(), made);
  if (!background) return tl::unexpected(background.error());
  made->background_ = std::move(*background);
  made->member_->control().subscribe(id, made);
  return made;
}

void Communicator::Implementation::configure() {
  if (!options_.algorithm.empty()) forced_.algorithm = parse_algorithm(options_.algorithm);
  if (options_.max_lanes > 0) forced_.max_lanes = static_cast<std::uint16_t>(options_.max_lanes);
  costs_.cores_per_rank = member_->cores_per_rank();
  crowded_ = costs_.cores_per_rank < 1;
}

Result<std::string> Communicator::Implementation::transport_to(Rank peer) const {
  auto kind = member_->transports()->between(links_.job_rank(peer));
  if (!kind) return tl::unexpected(kind.error());
  return std::string((*kind)->name);
}

Communicator::Implementation::~Implementation() {
  close();
  if (background_) background_->stop();
  member_->control().unsubscribe(id_);
}

void Communicator::Implementation::close() {
  if (closed_.exchange(true)) return;
  {
    Owner owner(*this);
    if (!broken_)
      break_as_owner({ErrorKind::aborted, "the communicator was destroyed", std::nullopt}, false);
  }
  member_->exit();
}

void Communicator::Implementation::acquire() {
  if (try_own()) return;
  wanted_.fetch_add(1);
  while (!try_own()) {
    waiter_->ring();
    std::this_thread::yield();
  }
  wanted_.fetch_sub(1);
}

void Communicator::Implementation::release() {
  const bool busy = busy_as_owner();
  disown();
  if (busy) background_->schedule();
}

std::shared_ptr<Operation> Communicator::Implementation::enqueue(
    Plan* plan, QueueKey queue, const void* input, void* output,
    std::chrono::milliseconds timeout) {
  auto operation = std::make_shared<Operation>();
  operation->queue = queue;
  operation->plan = plan;
  operation->input = static_cast<const std::byte*>(input);
  operation->output = static_cast<std::byte*>(output);
  operation->sequence = sequences_[queue]++;
  operation->begun = Clock::now();
  operation->deadline = deadline_after(timeout.count() > 0 ? timeout : options_.timeout);
  queues_[queue].push_back(operation);
  pending_++;
  moved_ = true;
  return operation;
}

Result<std::shared_ptr<Operation>> Communicator::Implementation::begin_as_owner(const Call& call) {
  CCOLL_TRY(usable_as_owner());
  auto plan = plan_for(call);
  Status begun;
  if (plan)
    begun = record_call((*plan)->signature());
  else
    begun = tl::unexpected(plan.error());
  std::optional<Premultiplication> premultiplication;
  if (begun && call.op.form() == Reduction::Form::premultiplied_sum) {
    auto made = Premultiplication::make(call, rank(), size());
    if (made)
      premultiplication = std::move(*made);
    else
      begun = tl::unexpected(made.error());
  }
  if (!begun) {
    // The other ranks would wait for this one.
    break_as_owner(begun.error(), true);
    return tl::unexpected(begun.error());
  }
  if (call.kind == Kind::barrier)
    return enqueue(*plan, {}, &barrier_[0], &barrier_[1], call.timeout);
  auto operation = enqueue(*plan, {}, call.input, call.output, call.timeout);
  operation->premultiplication = std::move(premultiplication);
  operation->custom = call.op.custom();
  return operation;
}

Result<std::vector<std::shared_ptr<Operation>>> Communicator::Implementation::begin_as_owner(
    std::span<const Message> messages) {
  CCOLL_TRY(usable_as_owner());
  std::vector<Plan*> plans;
  for (const auto& message : messages) {
    auto plan = plan_for(message);
    if (!plan) return tl::unexpected(plan.error());
    plans.push_back(*plan);
  }
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 0; i < messages.size(); i++) {
    const auto& message = messages[i];
    operations.push_back(enqueue(plans[i], {message.what, message.peer}, message.input,
                                 message.output, message.timeout));
  }
  return operations;
}

Result<std::shared_ptr<Communicator::Implementation>>
Communicator::Implementation::duplicate_as_owner() {
  CCOLL_TRY(usable_as_owner());
  return make(member_, child_id(id_, ++children_), options_);
}

bool Communicator::Implementation::progress_as_owner() {
  if (has_news_.load(std::memory_order_relaxed) && take_news_as_owner()) return true;
  if (suspicion_) return false;
  bool moved = false;
  for (auto& [key, queue] : queues_) {
    if (queue.empty()) continue;
    moved |= advance_queue_as_owner(queue);
    if (broken_ || suspicion_) break;
  }
  moved_ |= moved;
  return moved;
}

bool Communicator::Implementation::advance_queue_as_owner(Queue& queue) {
  const auto operation = queue.front();
  auto& plan = *operation->plan;
  if (!operation->started) {
    if (operation->premultiplication) operation->input = operation->premultiplication->run();
    plan.start(operation->input, operation->output, operation->sequence, operation->custom.get());
    operation->started = true;
  }
  auto moved = plan.advance();
  if (!moved) {
    failed_as_owner(*operation, std::move(moved.error()));
    return false;
  }
  if (!plan.done()) return *moved;
  queue.pop_front();
  pending_--;
  operation->done.store(true, std::memory_order_release);
  return true;
}

bool Communicator::Implementation::wait_as_owner(const Work::State& work, Clock::time_point limit) {
  constexpr unsigned kRoundsBetweenLooks = 64;
  Patience patience(crowded_);
  unsigned rounds = 0;
  while (!work.done()) {
    if (progress_as_owner()) {
      patience.reset();
      if (++rounds % kRoundsBetweenLooks != 0) continue;
      // Time limits hold while something moves, too.
      const auto now = Clock::now();
      if (now >= limit) return work.done();
      supervise_as_owner(now);
      continue;
    }
    if (wanted_.load(std::memory_order_relaxed) > 0) {
      disown();
      std::this_thread::yield();
      acquire();
      continue;
    }
    if (patience.keep_polling()) continue;
    const auto now = Clock::now();
    if (now >= limit) return false;
    const auto next = std::min(supervise_as_owner(now), limit);
    if (work.done()) break;
    waiter_->prepare();
    if (!progress_as_owner() && wanted_.load() == 0) waiter_->sleep(next - now);
    waiter_->awake();
  }
  return true;
}

void Communicator::Implementation::poll() {
  if (!try_own()) return;
  progress_as_owner();
  supervise_as_owner(Clock::now());
  release();
}

}  // namespace ccoll

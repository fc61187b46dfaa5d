// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/queue_pair.hpp"

#include <arpa/inet.h>

#include <array>
#include <chrono>
#include <thread>

#include "transport/verbs/events.hpp"

namespace ccoll::verbs {
namespace {

/// How long an ending link waits until the peer's device has everything. Shorter if only the last
/// word is unconfirmed, or if another link has waited for this peer in vain.
constexpr std::chrono::milliseconds kPatienceForData{2000};
constexpr std::chrono::milliseconds kPatienceForLeave{300};
constexpr std::chrono::milliseconds kPatienceForSilence{20};
/// An answer takes microseconds; after this time the waiting thread leaves the CPU to others.
constexpr std::chrono::milliseconds kBusily{1};
constexpr std::chrono::microseconds kNap{200};

}  // namespace

Result<std::shared_ptr<QueuePair>> QueuePair::make(const Devices& devices, const PortChoice& choice,
                                                   std::shared_ptr<Peer> peer) {
  std::shared_ptr<QueuePair> made(new QueuePair(devices, std::move(peer)));
  CCOLL_TRY(made->device_.create(choice, {made->peer_->rank, made->peer_->host, {}},
                                 SendQueue::kRequests, kReceives));
  return made;
}

Status QueuePair::attach(std::shared_ptr<Waiter> waiter,
                         std::shared_ptr<CompletionGroup> completion_group) {
  if (links_++ > 0) return {};
  waiter_ = std::move(waiter);
  completion_group_ = std::move(completion_group);
  completion_group_->add(*this);
  device_.alarm().attach(waiter_);
  return waiter_->watch(device_.channel());
}

void CompletionGroup::look() {
  for (QueuePair* const pair : pairs_) pair->look_before_sleep();
}

void QueuePair::fail_with(Failure failure) {
  if (!failure_) failure_ = std::move(failure);
  is_cause_known_ = true;
  if (completion_group_) completion_group_->has_failed(peer_->rank, *failure_);
}

bool QueuePair::poll() {
  if (take_some() > 0) return true;
  if (received_.untold() >= kCreditBatch) tell_popped();
  if (!waiter_ || !waiter_->announced()) return false;
  const auto moved = [&] { return received_.arrived() + sent_.credited() + sends_.completed(); };
  const auto before = moved();
  completion_group_->look();
  return moved() != before || failure() != nullptr;
}

void QueuePair::look_before_sleep() {
  // Drain before arming: an arrival may be a word that wakes nobody.
  while (take_some() > 0) {
  }
  if (received_.untold() >= kCreditBatch) tell_popped();
  if (!failure_) {
    // Read this only if requests are outstanding, and so an end has been connected for long: the
    // service thread may be connecting the other.
    const auto target = [&] {
      const auto& memory = ends_.out().peer_base != 0 ? ends_.out() : ends_.in();
      return std::pair(memory.peer_base, memory.peer_key);
    };
    if (auto failure = sends_.watch(target)) fail_with(std::move(*failure));
  }
  if (is_armed_) return;
  is_armed_ = device_.arm();
  if (!is_armed_)
    fail_with({ErrorKind::internal,
               fmt::format("the completion queue of {} cannot be armed", device_.path().device),
               std::nullopt});
  take_some();
}

int QueuePair::take_some() {
  const bool was_armed = is_armed_;
  std::array<ibv_wc, 8> done;
  const int count = device_.poll(done);
  if (count < 0)
    fail_with({ErrorKind::internal,
               fmt::format("the completion queue of {} cannot be read", device_.path().device),
               std::nullopt});
  for (int i = 0; i < count; i++) take(done[static_cast<std::size_t>(i)]);
  if (count == 0 && !is_cause_known_) look_for_events();
  // The link concerned may have looked already and rely on being woken.
  if (count > 0 && was_armed && waiter_ && waiter_->announced()) waiter_->ring();
  return count;
}

void QueuePair::look_for_events() {
  if (const auto forsaken = ends_.take_forsaken(); forsaken != 0) [[unlikely]]
    say(Word::leaves, forsaken);
  const auto event = device_.alarm().raised();
  if (!event) return;
  failure_.reset();  // it came from a flushed request
  fail_with(*verbs::failure_of(*event, device_.path()));
}

void QueuePair::take(const ibv_wc& completion) {
  is_armed_ = false;
  if (completion.status != IBV_WC_SUCCESS) {
    // A flushed request has no error of its own: the first other status is the cause.
    if (is_cause_known_) return;
    auto failure = failure_of(completion.status, completion.vendor_err, device_.path_now());
    if (is_flush(completion.status)) {
      if (!failure_) failure_ = std::move(failure);
      return;
    }
    failure_.reset();
    return fail_with(std::move(failure));
  }
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
    take_word(ntohl(completion.imm_data), completion.byte_len);
  else
    sends_.complete(completion.wr_id);
}

void QueuePair::take_word(std::uint32_t immediate, std::uint32_t bytes) {
  if (++receives_owed_ == kReceiveBatch) {
    receives_owed_ = 0;
    if (auto posted = device_.post_receives(); !posted) fail_with(std::move(posted.error()));
  }
  const auto count = immediate >> kCountBits & kCountMask;
  const auto nonsense = [&] {
    fail_with(
        {ErrorKind::corrupt,
         fmt::format("rank {} at {} sent the invalid word {:#010x} over RDMA; {} slices had "
                     "arrived, and {} had been sent",
                     peer_->rank, peer_->host, immediate, received_.arrived(), sent_.pushed()),
         peer_->rank});
  };
  if (!sent_.take_credits(immediate & kCountMask)) return nonsense();
  switch (static_cast<Word>(immediate >> 2 * kCountBits)) {
    case Word::data:
      if (!received_.arrive(count, bytes)) return nonsense();
      return;
    case Word::credit:
      return;
    case Word::offer:
      if (!take_offer(count)) return nonsense();
      return;
    case Word::leaves:
      left_ |= count & kBothEnds;
      return;
  }
}

ibv_send_wr QueuePair::request_of(Word word, std::uint64_t count, bool is_signalled) {
  auto request = sends_.next(IBV_WR_RDMA_WRITE_WITH_IMM);
  request.imm_data = htonl(static_cast<std::uint32_t>(word) << 2 * kCountBits |
                           counted(count) << kCountBits | counted(received_.tell()));
  if (is_signalled) request.send_flags |= IBV_SEND_SIGNALED;
  return request;
}

void QueuePair::say(Word word, std::uint64_t count) {
  auto request = request_of(word, count, true);
  post(request);
}

void QueuePair::see_off() {
  const bool has_data = !sends_.is_idle() && !sent_.are_free();
  say(Word::leaves, kBothEnds);
  const auto patience = peer_->is_silent.load(std::memory_order_relaxed) ? kPatienceForSilence
                        : has_data                                       ? kPatienceForData
                                                                         : kPatienceForLeave;
  const auto begun = std::chrono::steady_clock::now();
  while (!failure_ && left_ != kBothEnds && !sends_.is_idle()) {
    if (poll()) continue;
    const auto waited = std::chrono::steady_clock::now() - begun;
    if (waited > patience) return peer_->is_silent.store(true, std::memory_order_relaxed);
    if (waited < kBusily)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNap);
  }
  peer_->is_silent.store(false, std::memory_order_relaxed);
}

void QueuePair::leave(End end) {
  if (!device_.is_own()) return;
  if (--links_ == 0) return this->end();
  if (!failure_ && left_ != kBothEnds) say(Word::leaves, static_cast<std::uint32_t>(end));
}

void QueuePair::end() {
  ends_.close();
  waiter_.reset();
  if (completion_group_) completion_group_->remove(*this);
  completion_group_.reset();
  if (ends_.take_confirmed() && !failure_ && left_ != kBothEnds) see_off();
}

QueuePair::~QueuePair() {
  if (!device_.is_own()) return;
  end();
  // Before its slots' memory goes.
  device_.close();
  ends_.release();
}

}  // namespace ccoll::verbs

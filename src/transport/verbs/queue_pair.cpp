// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/queue_pair.hpp"

#include <arpa/inet.h>

#include <chrono>
#include <cstring>
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

Status QueuePair::post_receives() {
  // No buffers: writes go to the slots.
  std::array<ibv_recv_wr, kReceiveBatch> requests{};
  for (std::size_t i = 1; i < requests.size(); i++) requests[i - 1].next = &requests[i];
  ibv_recv_wr* bad = nullptr;
  if (pair_ == nullptr) return {};  // revoked
  if (const int code = ibv_post_recv(pair_, requests.data(), &bad); code != 0)
    return tl::unexpected(failure_to_post("to receive", code, path_));
  return {};
}

Status QueuePair::attach(std::shared_ptr<Waiter> waiter,
                         std::shared_ptr<CompletionGroup> completion_group) {
  if (links_++ > 0) return {};
  waiter_ = std::move(waiter);
  completion_group_ = std::move(completion_group);
  completion_group_->add(*this);
  alarm_.attach(waiter_);
  return waiter_->watch(channel_->fd);
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
  if (popped_ - told_ >= kCreditBatch) tell_popped();
  if (!waiter_ || !waiter_->announced()) return false;
  const auto before = arrived_ + credited_ + completed_;
  completion_group_->look();
  return arrived_ + credited_ + completed_ != before || failure() != nullptr;
}

void QueuePair::look_before_sleep() {
  // Drain before arming: an arrival may be a word that wakes nobody.
  while (take_some() > 0) {
  }
  if (popped_ - told_ >= kCreditBatch) tell_popped();
  watch();
  if (is_armed_) return;
  arm();
  take_some();
}

void QueuePair::watch() {
  if (failure_) return;
  switch (watchdog_.look(posted_, completed_, devices_.settings())) {
    case Watchdog::Advice::wait:
      return;
    case Watchdog::Advice::ask:
      // If there is no room for it, enough signalled requests are outstanding.
      if (may_say()) post_nothing();
      return;
    case Watchdog::Advice::give_up:
      path_.is_down = devices_.is_down_now(port_index_);
      return fail_with(failure_of_stalled(Watchdog::patience(devices_.settings()), path_));
  }
}

void QueuePair::post_nothing() {
  ibv_send_wr request{};
  request.wr_id = ++posted_;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  const Slots& slots = out_.peer_base != 0 ? out_ : in_;
  request.wr.rdma.remote_addr = slots.peer_base;
  request.wr.rdma.rkey = slots.peer_key;
  post(request);
}

int QueuePair::take_some() {
  const bool was_armed = is_armed_;
  std::array<ibv_wc, 8> done;
  const int count = ibv_poll_cq(completions_, static_cast<int>(done.size()), done.data());
  if (count < 0)
    fail_with({ErrorKind::internal,
               fmt::format("the completion queue of {} cannot be read", path_.device),
               std::nullopt});
  for (int i = 0; i < count; i++) take(done[static_cast<std::size_t>(i)]);
  if (count == 0 && !is_cause_known_) look_for_events();
  // The link concerned may have looked already and rely on being woken.
  if (count > 0 && was_armed && waiter_ && waiter_->announced()) waiter_->ring();
  return count;
}

void QueuePair::look_for_events() {
  if (forsaken_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    say(Word::leaves, forsaken_.exchange(0));
  const auto event = alarm_.raised();
  if (!event) return;
  failure_.reset();  // it came from a flushed request
  fail_with(*verbs::failure_of(*event, path_));
}

void QueuePair::arm() {
  // One event at most per arming. Drain old ones, or the next event causes no edge.
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (devices_.library().get_cq_event(channel_, &queue, &context) == 0)
    devices_.library().ack_cq_events(completions_, 1);
  if (ibv_req_notify_cq(completions_, 0) == 0)
    is_armed_ = true;
  else
    fail_with({ErrorKind::internal,
               fmt::format("the completion queue of {} cannot be armed", path_.device),
               std::nullopt});
}

void QueuePair::take(const ibv_wc& completion) {
  is_armed_ = false;
  if (completion.status != IBV_WC_SUCCESS) {
    // A flushed request has no error of its own: the first other status is the cause.
    if (is_cause_known_) return;
    path_.is_down = devices_.is_down_now(port_index_);
    auto failure = failure_of(completion.status, completion.vendor_err, path_);
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
    completed_ = completion.wr_id;
}

void QueuePair::take_word(std::uint32_t immediate, std::uint32_t bytes) {
  if (++receives_owed_ == kReceiveBatch) {
    receives_owed_ = 0;
    if (auto posted = post_receives(); !posted) fail_with(std::move(posted.error()));
  }
  const auto count = immediate >> kCountBits & kCountMask;
  const auto nonsense = [&] {
    fail_with({ErrorKind::corrupt,
               fmt::format("rank {} at {} sent the invalid word {:#010x} over RDMA; {} slices had "
                           "arrived, and {} had been sent",
                           path_.peer, path_.host, immediate, arrived_, pushed_),
               path_.peer});
  };
  if (!take_credits(immediate & kCountMask)) return nonsense();
  switch (static_cast<Word>(immediate >> 2 * kCountBits)) {
    case Word::data:
      if (count != ((arrived_ + 1) & kCountMask) || arrived_ - told_ >= kSlots) return nonsense();
      arrived_bytes_[arrived_++ % kSlots] = bytes;
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

bool QueuePair::take_credits(std::uint32_t count) {
  const auto more = (count - static_cast<std::uint32_t>(credited_)) & kCountMask;
  if (more > pushed_ - credited_) return false;
  credited_ += more;
  return true;
}

ibv_send_wr QueuePair::request_of(Word word, std::uint64_t count, bool is_signalled) {
  ibv_send_wr request{};
  request.wr_id = ++posted_;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  const auto counted = [](std::uint64_t all) {
    return static_cast<std::uint32_t>(all) & kCountMask;
  };
  request.imm_data = htonl(static_cast<std::uint32_t>(word) << 2 * kCountBits |
                           counted(count) << kCountBits | counted(popped_));
  told_ = popped_;
  if (is_signalled) request.send_flags |= IBV_SEND_SIGNALED;
  return request;
}

void QueuePair::to_same_place(ibv_send_wr& request, const Slots& slots, std::uint64_t address) {
  request.wr.rdma.remote_addr =
      slots.peer_base + (address - reinterpret_cast<std::uint64_t>(slots.memory->data()));
  request.wr.rdma.rkey = slots.peer_key;
}

void QueuePair::post(ibv_send_wr& first) {
  ibv_send_wr* bad = nullptr;
  if (pair_ == nullptr) return;  // revoked
  if (const int code = ibv_post_send(pair_, &first, &bad); code != 0)
    fail_with(failure_to_post("to send", code, path_));
}

void QueuePair::see_off() {
  const bool has_data = posted_ != completed_ && pushed_ != credited_;
  say(Word::leaves, kBothEnds);
  const auto patience = peer_->is_silent.load(std::memory_order_relaxed) ? kPatienceForSilence
                        : has_data                                       ? kPatienceForData
                                                                         : kPatienceForLeave;
  const auto begun = std::chrono::steady_clock::now();
  while (!failure_ && left_ != kBothEnds && completed_ != posted_) {
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
  // A forked child does not own it.
  if (process_ != getpid()) return;
  if (--links_ == 0) return this->end();
  if (!failure_ && left_ != kBothEnds) say(Word::leaves, static_cast<std::uint32_t>(end));
}

void QueuePair::end() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  waiter_.reset();
  if (completion_group_) completion_group_->remove(*this);
  completion_group_.reset();
  if (is_confirmed_.exchange(false) && !failure_ && left_ != kBothEnds) see_off();
}

QueuePair::~QueuePair() {
  if (process_ != getpid()) return;
  const auto& library = devices_.library();
  end();
  if (pair_ != nullptr) library.destroy_qp(pair_);
  if (completions_ != nullptr) library.destroy_cq(completions_);
  if (domain_ != nullptr) devices_.alarms_of(port_index_).remove(alarm_);
  if (channel_ != nullptr) library.destroy_comp_channel(channel_);
  for (const auto* const slots : {&out_, &in_})
    if (slots->registration != nullptr) library.dereg_mr(slots->registration);
}

}  // namespace ccoll::verbs

// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "rdma/state.hpp"

namespace ccoll::testing::rdma {
namespace {

/// Drops events that are not yet taken; taken ones must be acknowledged first.
template <typename Concerns>
void forget_events(Lock& lock, std::size_t& untold, Concerns concerns) {
  auto& events = state().events;
  for (auto each = events.begin(); each != events.end();) {
    if (!concerns(*each)) {
      ++each;
      continue;
    }
    untold--;
    for (auto& context : state().contexts)
      if (take_ring(context.async_fd)) break;
    each = events.erase(each);
  }
  insist(state().acknowledged.wait_for(lock, std::chrono::seconds(20), [&] { return untold == 0; }),
         "an event was never acknowledged");
}

/// The attributes that the specification requires for a state, and its predecessor.
struct Way {
  ibv_qp_state from, to;
  int wanted;
};
constexpr Way kWays[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC},
};

}  // namespace

ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) {
  const Lock lock(state().mutex);
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  auto& made = state().registrations.emplace_back();
  made.access = access;
  made.base.context = domain->context;
  made.base.pd = domain;
  made.base.addr = address;
  made.base.length = bytes;
  made.base.lkey = made.base.rkey = ++state().last_key;
  return &made.base;
}

ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                      std::uint64_t address, int file, int access) {
  constexpr std::uint64_t kPage = 4096;
  struct stat found {};
  // The pages are the device's: offsets within them must match.
  const bool fits = fstat(file, &found) == 0 && bytes > 0 && offset % kPage == address % kPage &&
                    offset + bytes <= static_cast<std::uint64_t>(found.st_size);
  void* const view = fits ? mmap(nullptr, offset % kPage + bytes, PROT_READ | PROT_WRITE,
                                 MAP_SHARED, file, static_cast<off_t>(offset - offset % kPage))
                          : MAP_FAILED;
  if (view == MAP_FAILED) {
    errno = EINVAL;
    return nullptr;
  }
  ibv_mr* const made = reg_mr(domain, reinterpret_cast<void*>(address), bytes, access);
  const Lock lock(state().mutex);
  if (made == nullptr)
    munmap(view, offset % kPage + bytes);
  else
    whole(state().registrations, made).view = static_cast<std::byte*>(view) + offset % kPage;
  return made;
}

int dereg_mr(ibv_mr* registration) {
  const Lock lock(state().mutex);
  const auto& ended = whole(state().registrations, registration);
  if (ended.view != nullptr) {
    const auto within = reinterpret_cast<std::uint64_t>(ended.view) % 4096;
    munmap(ended.view - within, within + registration->length);
  }
  state().registrations.remove_if([&](const auto& each) { return &each.base == registration; });
  return 0;
}

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  const Lock lock(state().mutex);
  auto& channel = state().channels.emplace_back();
  channel.base.context = context;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) == 0) {
    channel.base.fd = ends[0];
    channel.doorbell = ends[1];
    return &channel.base;
  }
  state().channels.pop_back();
  return nullptr;
}

int destroy_comp_channel(ibv_comp_channel* base) {
  const Lock lock(state().mutex);
  for (const auto& queue : state().queues)
    insist(queue.base.channel != base, "a channel is destroyed whose queue is there");
  for (const int end : {base->fd, whole(state().channels, base).doorbell}) close(end);
  state().channels.remove_if([&](const auto& each) { return &each.base == base; });
  return 0;
}

ibv_cq* create_cq(ibv_context* context, int entries, void* whose, ibv_comp_channel* channel, int) {
  const Lock lock(state().mutex);
  auto& queue = state().queues.emplace_back();
  queue.base.context = context;
  queue.base.channel = channel;
  queue.base.cq_context = whose;
  queue.base.cqe = entries;
  return &queue.base;
}

int resize_cq(ibv_cq* base, int entries) {
  const Lock lock(state().mutex);
  if (whole(state().queues, base).done.size() > static_cast<std::size_t>(entries)) return EINVAL;
  base->cqe = entries;
  return 0;
}

int destroy_cq(ibv_cq* base) {
  Lock lock(state().mutex);
  Queue& queue = whole(state().queues, base);
  for (const auto& pair : state().pairs)
    if (pair.base.send_cq == base || pair.base.recv_cq == base) return EBUSY;
  forget_events(lock, queue.untold, [&](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == base;
  });
  insist(queue.unacknowledged == 0, "a queue is destroyed, an event of it not acknowledged");
  if (base->channel != nullptr) {
    auto& channel = whole(state().channels, base->channel);
    std::erase_if(channel.events,
                  [&](ibv_cq* each) { return each == base && take_ring(channel.base.fd); });
  }
  state().queues.remove_if([&](const auto& each) { return &each.base == base; });
  return 0;
}

int get_cq_event(ibv_comp_channel* base, ibv_cq** queue, void** whose) {
  if (!take_ring(base->fd)) return -1;
  const Lock lock(state().mutex);
  Channel& channel = whole(state().channels, base);
  if (channel.events.empty()) return -1;
  *queue = channel.events.front();
  channel.events.pop_front();
  *whose = (*queue)->cq_context;
  whole(state().queues, *queue).unacknowledged++;
  return 0;
}

void ack_cq_events(ibv_cq* base, unsigned count) {
  const Lock lock(state().mutex);
  Queue& queue = whole(state().queues, base);
  insist(queue.unacknowledged >= count, "more events are acknowledged than came");
  queue.unacknowledged -= count;
}

ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  const Lock lock(state().mutex);
  insist(attributes->qp_type == IBV_QPT_RC, "it has reliable connections only");
  auto& pair = state().pairs.emplace_back();
  pair.most = attributes->cap;
  pair.base.context = domain->context;
  pair.base.qp_context = attributes->qp_context;
  pair.base.pd = domain;
  pair.base.send_cq = attributes->send_cq;
  pair.base.recv_cq = attributes->recv_cq;
  pair.base.qp_num = ++state().last_number;
  pair.base.qp_type = attributes->qp_type;
  return &pair.base;
}

int modify_qp(ibv_qp* base, ibv_qp_attr* attributes, int mask) {
  const Lock lock(state().mutex);
  Pair& pair = whole(state().pairs, base);
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  if (attributes->qp_state == IBV_QPS_ERR) {
    to_error(pair);
    return 0;
  }
  const auto* const way = std::ranges::find_if(kWays, [&](const Way& each) {
    return each.from == pair.state && each.to == attributes->qp_state;
  });
  if (way == std::end(kWays) || (mask & way->wanted) != way->wanted) return EINVAL;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) pair.access = attributes->qp_access_flags;
  if ((mask & IBV_QP_PORT) != 0) pair.port = attributes->port_num;
  if (pair.port < 1 || pair.port > state().ports) return EINVAL;
  if (way->to == IBV_QPS_RTR) {
    if (attributes->ah_attr.is_global == 0) return EINVAL;  // RoCE requires global addresses
    if (attributes->ah_attr.port_num != pair.port) return EINVAL;
    pair.peer = attributes->dest_qp_num;
    pair.first_awaited = attributes->rq_psn;
  } else if (way->to == IBV_QPS_RTS) {
    pair.first_sent = attributes->sq_psn;
  }
  pair.state = base->state = way->to;
  return 0;
}

int destroy_qp(ibv_qp* base) {
  Lock lock(state().mutex);
  Pair& pair = whole(state().pairs, base);
  forget_events(lock, pair.untold, [&](const ibv_async_event& event) {
    return is_of_pair(event.event_type) && event.element.qp == base;
  });
  for (auto* const queue : {base->send_cq, base->recv_cq})
    std::erase_if(whole(state().queues, queue).done,
                  [&](const Done& done) { return done.wc.qp_num == base->qp_num; });
  state().pairs.remove_if([&](const auto& each) { return &each.base == base; });
  return 0;
}

}  // namespace ccoll::testing::rdma

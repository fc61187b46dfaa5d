// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "rdma/device.hpp"
#include "rdma/state.hpp"

namespace ccoll::testing::rdma {
namespace {

void push(Queue& queue, const Done& done) {
  if (queue.done.size() >= static_cast<std::size_t>(queue.base.cqe)) {
    if (!std::exchange(queue.has_overrun, true)) tell_queue(queue, IBV_EVENT_CQ_ERR);
    return;
  }
  queue.done.push_back(done);
  if (!std::exchange(queue.is_armed, false)) return;
  Channel& channel = whole(state().channels, queue.base.channel);
  channel.events.push_back(&queue.base);
  ring(channel.doorbell);
}

/// The valid part of a failed completion; the rest must not be read.
Done failed(const Pair& pair, std::uint64_t id, ibv_wc_status status) {
  Done done;
  std::memset(&done.wc, 0xa5, sizeof done.wc);
  done.wc.wr_id = id;
  done.wc.status = status;
  done.wc.vendor_err = 0x5a;
  done.wc.qp_num = pair.base.qp_num;
  return done;
}

void complete_send(Pair& pair, const Send& send, ibv_wc_status status) {
  auto& queue = whole(state().queues, pair.base.send_cq);
  Done done = failed(pair, send.request.wr_id, status);
  done.is_send = true;
  done.serial = send.serial;
  if (status != IBV_WC_SUCCESS) {
    push(queue, done);
    return to_error(pair);
  }
  if ((send.request.send_flags & IBV_SEND_SIGNALED) == 0) return;
  done.wc = {};
  done.wc.wr_id = send.request.wr_id;
  done.wc.opcode = IBV_WC_RDMA_WRITE;
  done.wc.qp_num = pair.base.qp_num;
  if (pair.is_late)
    pair.late.push_back(done);
  else
    push(queue, done);
}

/// The device's address for memory that allows this access; null if it does not.
std::byte* place_of(std::uint32_t key, std::uint64_t address, std::uint64_t bytes, int access) {
  for (const auto& each : state().registrations) {
    auto* const begin = static_cast<std::byte*>(each.base.addr);
    const auto at = address - reinterpret_cast<std::uint64_t>(begin);
    if (each.base.rkey != key) continue;
    if ((each.access & access) != access || at + bytes < at || at + bytes > each.base.length)
      return nullptr;
    return (each.view != nullptr ? each.view : begin) + at;
  }
  return nullptr;
}

Pair* peer_of(const Pair& pair) {
  for (Pair& each : state().pairs)
    if (each.base.qp_num == pair.peer && each.peer == pair.base.qp_num &&
        (each.state == IBV_QPS_RTR || each.state == IBV_QPS_RTS) &&
        each.first_awaited == pair.first_sent)
      return &each;
  return nullptr;
}

/// Where the data went, or why it did not.
ibv_wc_status carry(Pair& pair, const Send& send) {
  std::vector<std::byte> bytes = send.inline_bytes;
  if ((send.request.send_flags & IBV_SEND_INLINE) == 0) {
    for (const auto& part : send.parts) {
      const auto* const begin = place_of(part.lkey, part.addr, part.length, 0);
      if (begin == nullptr) return IBV_WC_LOC_PROT_ERR;
      bytes.insert(bytes.end(), begin, begin + part.length);
    }
  }
  Pair* const peer = peer_of(pair);
  if (peer == nullptr) return IBV_WC_RETRY_EXC_ERR;
  const auto& place = send.request.wr.rdma;
  auto* const to = place_of(place.rkey, place.remote_addr, bytes.size(), IBV_ACCESS_REMOTE_WRITE);
  if (!bytes.empty() && ((peer->access & IBV_ACCESS_REMOTE_WRITE) == 0 || to == nullptr)) {
    to_error(*peer);
    tell_pair(*peer, IBV_EVENT_QP_ACCESS_ERR);
    return IBV_WC_REM_ACCESS_ERR;
  }
  const bool has_word = send.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (has_word && peer->receives.empty()) {
    state().not_ready++;
    return IBV_WC_RNR_RETRY_EXC_ERR;
  }
  if (!bytes.empty()) std::ranges::copy(bytes, to);
  state().sent[pair.port]++;
  if (!has_word) return IBV_WC_SUCCESS;
  Done done;
  done.wc.wr_id = peer->receives.front();
  peer->receives.pop_front();
  done.wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  done.wc.byte_len = static_cast<std::uint32_t>(bytes.size());
  done.wc.imm_data = send.request.imm_data;
  done.wc.wc_flags = IBV_WC_WITH_IMM;
  done.wc.qp_num = peer->base.qp_num;
  done.wc.src_qp = pair.base.qp_num;
  push(whole(state().queues, peer->base.recv_cq), done);
  return IBV_WC_SUCCESS;
}

int take(Pair& pair, const ibv_send_wr& request) {
  if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) return EINVAL;
  if (request.opcode != IBV_WR_RDMA_WRITE && request.opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
    return EOPNOTSUPP;
  if (pair.held.size() >= pair.most.max_send_wr) return ENOMEM;
  if (static_cast<std::uint32_t>(request.num_sge) > pair.most.max_send_sge) return EINVAL;
  Send send;
  send.request = request;
  send.parts.assign(request.sg_list, request.sg_list + request.num_sge);
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    for (const auto& part : send.parts) {
      const auto* const begin = reinterpret_cast<const std::byte*>(part.addr);
      send.inline_bytes.insert(send.inline_bytes.end(), begin, begin + part.length);
    }
    if (send.inline_bytes.size() > pair.most.max_inline_data) return EINVAL;
  }
  send.serial = ++pair.serial;
  pair.held.push_back(send.serial);
  if (pair.state == IBV_QPS_ERR)
    complete_send(pair, send, IBV_WC_WR_FLUSH_ERR);
  else if (!state().is_plugged)
    pair.waiting.push_back(std::move(send));
  else
    complete_send(pair, send, carry(pair, send));
  return 0;
}

}  // namespace

void to_error(Pair& pair) {
  if (std::exchange(pair.state, IBV_QPS_ERR) == IBV_QPS_ERR) return;
  auto& receives = whole(state().queues, pair.base.recv_cq);
  for (const auto id : pair.receives) push(receives, failed(pair, id, IBV_WC_WR_FLUSH_ERR));
  pair.receives.clear();
  for (const auto waiting = std::exchange(pair.waiting, {}); const Send& send : waiting)
    complete_send(pair, send, IBV_WC_WR_FLUSH_ERR);
}

int post_send(ibv_qp* base, ibv_send_wr* request, ibv_send_wr** bad) {
  const Lock lock(state().mutex);
  Pair& pair = whole(state().pairs, base);
  for (; request != nullptr; request = request->next) {
    const int code = take(pair, *request);
    *bad = request;
    if (code != 0) return code;
  }
  return 0;
}

int post_recv(ibv_qp* base, ibv_recv_wr* request, ibv_recv_wr** bad) {
  const Lock lock(state().mutex);
  Pair& pair = whole(state().pairs, base);
  for (; request != nullptr; request = request->next) {
    *bad = request;
    if (pair.state == IBV_QPS_RESET) return EINVAL;
    if (pair.receives.size() >= pair.most.max_recv_wr) return ENOMEM;
    if (pair.state == IBV_QPS_ERR)
      push(whole(state().queues, pair.base.recv_cq),
           failed(pair, request->wr_id, IBV_WC_WR_FLUSH_ERR));
    else
      pair.receives.push_back(request->wr_id);
  }
  return 0;
}

int poll_cq(ibv_cq* base, int most, ibv_wc* places) {
  const Lock lock(state().mutex);
  Queue& queue = whole(state().queues, base);
  if (queue.has_overrun) return -1;
  int count = 0;
  for (; count < most && !queue.done.empty(); count++) {
    const Done done = queue.done.front();
    queue.done.pop_front();
    places[count] = done.wc;
    if (!done.is_send) continue;
    for (Pair& pair : state().pairs)
      while (pair.base.qp_num == done.wc.qp_num && !pair.held.empty() &&
             pair.held.front() <= done.serial)
        pair.held.pop_front();
  }
  return count;
}

int req_notify_cq(ibv_cq* base, int) {
  const Lock lock(state().mutex);
  Queue& queue = whole(state().queues, base);
  insist(queue.base.channel != nullptr, "a queue without a channel is armed");
  queue.is_armed = true;
  return 0;
}

std::uint64_t times_not_ready() {
  const Lock lock(state().mutex);
  return state().not_ready;
}

void confirm_late(std::size_t number) {
  const Lock lock(state().mutex);
  std::next(state().pairs.begin(), static_cast<std::ptrdiff_t>(number))->is_late = true;
}

void confirm_all() {
  const Lock lock(state().mutex);
  for (Pair& pair : state().pairs) {
    pair.is_late = false;
    for (const auto late = std::exchange(pair.late, {}); const Done& done : late)
      push(whole(state().queues, pair.base.send_cq), done);
  }
}

void plug(bool in, bool too_late) {
  const Lock lock(state().mutex);
  state().is_plugged = in;
  if (!in) return;
  for (Pair& pair : state().pairs)
    for (auto waiting = std::exchange(pair.waiting, {}); const Send& send : waiting) {
      auto status = too_late ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
      if (pair.state == IBV_QPS_ERR)
        status = IBV_WC_WR_FLUSH_ERR;
      else if (!too_late)
        status = carry(pair, send);
      complete_send(pair, send, status);
    }
}

}  // namespace ccoll::testing::rdma

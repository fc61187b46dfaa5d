// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The state of the device of device.hpp, and its functions; only for its own files.

#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <mutex>
#include <vector>

#include "rdma/device.hpp"

namespace ccoll::testing::rdma {

struct Done {
  ibv_wc wc{};
  bool is_send = false;
  std::uint64_t serial = 0;  ///< serial number of the completed send
};

struct Channel {
  ibv_comp_channel base{};  ///< a pipe's descriptor, never writable, as a device's
  int doorbell = -1;        ///< the pipe's other end
  std::deque<ibv_cq*> events;
};

struct Queue {
  ibv_cq base{};
  std::deque<Done> done;
  bool is_armed = false, has_overrun = false;
  std::size_t unacknowledged = 0, untold = 0;
};

struct Send {
  ibv_send_wr request{};
  std::vector<ibv_sge> parts;
  std::vector<std::byte> inline_bytes;
  std::uint64_t serial = 0;
};

struct Pair {
  ibv_qp base{};
  ibv_qp_cap most{};
  ibv_qp_state state = IBV_QPS_RESET;
  std::uint32_t peer = 0, first_sent = 0, first_awaited = 0;
  unsigned access = 0;
  std::size_t port = 0;
  std::deque<std::uint64_t> receives;  // wr_id
  std::deque<std::uint64_t> held;      // serials of sends whose place in the queue is taken
  std::deque<Send> waiting;            // until the cable is plugged in
  bool is_late = false;                // acknowledges arrivals late:
  std::deque<Done> late;
  std::uint64_t serial = 0;
  std::size_t untold = 0;
};

struct Registration {
  ibv_mr base{};
  int access = 0;
  std::byte* view = nullptr;  ///< for a dma-buf: the device's mapping of base.addr
};

/// The state of all contexts.
struct State {
  std::mutex mutex;
  std::condition_variable acknowledged;
  ibv_device device{};
  std::list<ibv_context> contexts;
  std::list<ibv_pd> domains;
  std::list<Channel> channels;
  std::list<Queue> queues;
  std::list<Pair> pairs;
  std::list<Registration> registrations;
  std::deque<ibv_async_event> events;
  std::size_t taken = 0;  ///< events taken but not acknowledged
  std::uint32_t last_number = 100, last_key = 7000;
  std::uint64_t not_ready = 0;
  bool is_plugged = true;
  ibv_port_state port = IBV_PORT_ACTIVE;
  std::uint8_t ports = 1;
  std::array<std::uint64_t, 1 + kMostPorts> sent{};  ///< by port, from 1
  bool is_present = true;
  std::atomic<bool> is_opening = false, holds_opening = false;
};

State& state();

using Lock = std::unique_lock<std::mutex>;

[[noreturn]] inline void misused(const char* how) {
  std::fprintf(stderr, "the RDMA device was misused: %s\n", how);
  std::abort();
}

inline void insist(bool condition, const char* what) {
  if (!condition) misused(what);
}

template <typename T, typename Base>
T& whole(std::list<T>& all, Base* base) {
  for (T& each : all)
    if (&each.base == base) return each;
  misused("it is not there any more");
}

inline void ring(int fd) {
  const std::uint64_t one = 1;
  insist(write(fd, &one, sizeof one) == sizeof one, "a bell takes no more");
}

inline bool take_ring(int fd) {
  std::uint64_t one = 0;
  return read(fd, &one, sizeof one) == sizeof one;
}

inline bool is_of_pair(ibv_event_type type) {
  return (type >= IBV_EVENT_QP_FATAL && type <= IBV_EVENT_PATH_MIG_ERR) ||
         type == IBV_EVENT_QP_LAST_WQE_REACHED;
}
/// Raises an event; the caller holds the lock.
void tell_event(const ibv_async_event& event, ibv_context& context);
void tell_queue(Queue& queue, ibv_event_type type);
void tell_pair(Pair& pair, ibv_event_type type);
/// Flushes its queues; the caller holds the lock.
void to_error(Pair& pair);

// Same as libibverbs' functions of these names.

int post_send(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** bad);
int post_recv(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** bad);
int poll_cq(ibv_cq* queue, int most, ibv_wc* places);
int req_notify_cq(ibv_cq* queue, int);

ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access);
ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                      std::uint64_t address, int file, int access);
int dereg_mr(ibv_mr* registration);
ibv_comp_channel* create_comp_channel(ibv_context* context);
int destroy_comp_channel(ibv_comp_channel* channel);
ibv_cq* create_cq(ibv_context* context, int entries, void* whose, ibv_comp_channel* channel, int);
int resize_cq(ibv_cq* queue, int entries);
int destroy_cq(ibv_cq* queue);
int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** whose);
void ack_cq_events(ibv_cq* queue, unsigned count);
ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes);
int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
int destroy_qp(ibv_qp* pair);

}  // namespace ccoll::testing::rdma

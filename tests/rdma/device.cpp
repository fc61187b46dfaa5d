// SPDX-License-Identifier: Apache-2.0
#include "rdma/device.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "rdma/state.hpp"

namespace ccoll::testing::rdma {
namespace {

ibv_device** get_device_list(int* count) {
  const Lock lock(state().mutex);
  const bool is_present = state().is_present;
  if (count != nullptr) *count = is_present ? 1 : 0;
  return new ibv_device* [2] { is_present ? &state().device : nullptr, nullptr };
}

void free_device_list(ibv_device** list) { delete[] list; }
const char* get_device_name(ibv_device* device) { return device->name; }

ibv_context* open_device(ibv_device* device) {
  for (state().is_opening = true; state().holds_opening;) usleep(1000);
  const Lock lock(state().mutex);
  ibv_context& context = state().contexts.emplace_back();
  context.device = device;
  context.ops.post_send = post_send;
  context.ops.post_recv = post_recv;
  context.ops.poll_cq = poll_cq;
  context.ops.req_notify_cq = req_notify_cq;
  context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  return &context;
}

int close_device(ibv_context* context) {
  const Lock lock(state().mutex);
  for (const auto& domain : state().domains)
    insist(domain.context != context, "a device is closed whose domain is there");
  close(context->async_fd);
  state().contexts.remove_if([&](const auto& each) { return &each == context; });
  return 0;
}

int query_device(ibv_context*, ibv_device_attr* attributes) {
  const Lock lock(state().mutex);
  *attributes = {};
  attributes->phys_port_cnt = state().ports;
  attributes->max_qp = 1000;
  attributes->max_cqe = 100'000;
  return 0;
}

int query_port(ibv_context*, std::uint8_t, _compat_ibv_port_attr* compatible) {
  auto* const attributes = reinterpret_cast<ibv_port_attr*>(compatible);
  const Lock lock(state().mutex);
  attributes->state = state().port;
  attributes->max_mtu = attributes->active_mtu = IBV_MTU_4096;
  attributes->gid_tbl_len = 8;
  attributes->active_width = 2;
  attributes->active_speed = 32;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

/// Like a RoCE port with one address: the link-local one and the interface's, each once per version
/// of RoCE.
int query_gid(ibv_context*, std::uint8_t, int index, ibv_gid* gid) {
  static constexpr std::uint8_t kLocal[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2};
  static constexpr std::uint8_t kIpv4[16] = {0, 0, 0,    0,    0,   0, 0, 0,
                                             0, 0, 0xff, 0xff, 127, 0, 0, 1};
  *gid = {};
  if (index < 4) std::memcpy(gid->raw, index < 2 ? kLocal : kIpv4, sizeof gid->raw);
  return 0;
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                 ibv_gid_entry* entry, std::uint32_t, std::size_t) {
  if (index >= 4) return ENODATA;
  *entry = {};
  query_gid(context, 1, static_cast<int>(index), &entry->gid);
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = index % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  return 0;
}

const char* port_state_str(ibv_port_state state) {
  return state == IBV_PORT_ACTIVE ? "PORT_ACTIVE" : "PORT_DOWN";
}

ibv_pd* alloc_pd(ibv_context* context) {
  const Lock lock(state().mutex);
  auto& domain = state().domains.emplace_back();
  domain.context = context;
  return &domain;
}

int dealloc_pd(ibv_pd* domain) {
  const Lock lock(state().mutex);
  state().domains.remove_if([&](const auto& each) { return &each == domain; });
  return 0;
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
  if (!take_ring(context->async_fd)) return -1;
  const Lock lock(state().mutex);
  if (state().events.empty()) return -1;
  *event = state().events.front();
  state().events.pop_front();
  state().taken++;
  return 0;
}

void ack_async_event(ibv_async_event* event) {
  const Lock lock(state().mutex);
  const auto type = event->event_type;
  if (type == IBV_EVENT_CQ_ERR)
    whole(state().queues, event->element.cq).untold--;
  else if (is_of_pair(type))
    whole(state().pairs, event->element.qp).untold--;
  state().taken--;
  state().acknowledged.notify_all();
}

struct Entry {
  std::string_view name;
  void* function;
};

template <typename Function>
Entry named(std::string_view name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

const auto& entries() {
  static const std::vector<Entry> kEntries = {
      named("ibv_get_device_list", get_device_list),
      named("ibv_free_device_list", free_device_list),
      named("ibv_get_device_name", get_device_name),
      named("ibv_open_device", open_device),
      named("ibv_close_device", close_device),
      named("ibv_query_device", query_device),
      named("ibv_query_port", query_port),
      named("ibv_query_gid", query_gid),
      named("_ibv_query_gid_ex", query_gid_ex),
      named("ibv_port_state_str", port_state_str),
      named("ibv_alloc_pd", alloc_pd),
      named("ibv_dealloc_pd", dealloc_pd),
      named("ibv_reg_mr", reg_mr),
      named("ibv_reg_dmabuf_mr", reg_dmabuf_mr),
      named("ibv_dereg_mr", dereg_mr),
      named("ibv_create_comp_channel", create_comp_channel),
      named("ibv_destroy_comp_channel", destroy_comp_channel),
      named("ibv_create_cq", create_cq),
      named("ibv_resize_cq", resize_cq),
      named("ibv_destroy_cq", destroy_cq),
      named("ibv_get_cq_event", get_cq_event),
      named("ibv_ack_cq_events", ack_cq_events),
      named("ibv_create_qp", create_qp),
      named("ibv_modify_qp", modify_qp),
      named("ibv_destroy_qp", destroy_qp),
      named("ibv_get_async_event", get_async_event),
      named("ibv_ack_async_event", ack_async_event),
  };
  return kEntries;
}

}  // namespace

State& state() {
  // Threads may still run while the process exits.
  static auto* const made = [] {
    auto* const all = new State;
    std::strcpy(all->device.name, "fake0");
    return all;
  }();
  return *made;
}

void tell_event(const ibv_async_event& event, ibv_context& context) {
  state().events.push_back(event);
  ring(context.async_fd);
}

void tell_queue(Queue& queue, ibv_event_type type) {
  ibv_async_event event{};
  event.element.cq = &queue.base;
  event.event_type = type;
  queue.untold++;
  tell_event(event, *queue.base.context);
}

void tell_pair(Pair& pair, ibv_event_type type) {
  ibv_async_event event{};
  event.element.qp = &pair.base;
  event.event_type = type;
  pair.untold++;
  tell_event(event, *pair.base.context);
}

Objects objects() {
  const Lock lock(state().mutex);
  return {state().pairs.size(), state().queues.size(), state().channels.size(),
          state().registrations.size()};
}

std::size_t exported_memories() {
  const Lock lock(state().mutex);
  std::size_t count = 0;
  for (const auto& each : state().registrations) count += each.view != nullptr ? 1 : 0;
  return count;
}

std::uint64_t times_sent(std::size_t port) {
  const Lock lock(state().mutex);
  return state().sent[port];
}

void tell(ibv_event_type type, int port) {
  const Lock lock(state().mutex);
  ibv_async_event event{};
  event.element.port_num = port;
  event.event_type = type;
  tell_event(event, state().contexts.back());
}

void tell_of_pair(ibv_event_type type, std::size_t number) {
  const Lock lock(state().mutex);
  tell_pair(*std::next(state().pairs.begin(), static_cast<std::ptrdiff_t>(number)), type);
}

void tell_of_queue(ibv_event_type type, std::size_t number) {
  const Lock lock(state().mutex);
  const auto pair = std::next(state().pairs.begin(), static_cast<std::ptrdiff_t>(number));
  tell_queue(whole(state().queues, pair->base.recv_cq), type);
}

std::size_t untold() {
  const Lock lock(state().mutex);
  return state().events.size() + state().taken;
}

void set_present(bool is_present) {
  const Lock lock(state().mutex);
  state().is_present = is_present;
}

void hold_opening(bool hold) {
  state().is_opening = false;
  state().holds_opening = hold;
}
bool is_opening() { return state().is_opening; }

void set_port(ibv_port_state now) {
  const Lock lock(state().mutex);
  state().port = now;
}

void set_ports(std::uint8_t count) {
  const Lock lock(state().mutex);
  state().ports = count;
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const auto& each : entries()) all.push_back(each.name);
  return all;
}

void* entry(std::string_view name) {
  for (const auto& each : entries())
    if (each.name == name) return each.function;
  return nullptr;
}

}  // namespace ccoll::testing::rdma

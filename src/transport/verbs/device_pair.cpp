// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device_pair.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "system/file_descriptor.hpp"

namespace ccoll::verbs {
namespace {

constexpr std::uint32_t kPacketMask = (1U << 24) - 1;
/// Bytes requested to travel inside the work request; devices grant less or more.
constexpr std::uint32_t kInlineAsked = 256;

Status refused(const char* what, const Path& path) {
  const int code = errno;
  return fail(ErrorKind::exhausted, "{} on {} failed: {}{}", what, path.device, std::strerror(code),
              code == ENOMEM ? " (can enough memory be locked? see ulimit -l)" : "");
}

}  // namespace

net::Writer& write(net::Writer& writer, const QueuePairAddress& address) {
  writer.number(address.number).number(address.first_packet).number(address.lid);
  writer.number(address.mtu);
  for (const std::uint8_t byte : address.gid) writer.number(byte);
  return writer.number(address.key).number(address.base);
}

QueuePairAddress read_queue_pair_address(net::Reader& reader) {
  QueuePairAddress address;
  address.number = reader.number<std::uint32_t>();
  address.first_packet = reader.number<std::uint32_t>();
  address.lid = reader.number<std::uint16_t>();
  address.mtu = reader.number<std::uint8_t>();
  for (std::uint8_t& byte : address.gid) byte = reader.number<std::uint8_t>();
  address.key = reader.number<std::uint32_t>();
  address.base = reader.number<std::uint64_t>();
  return address;
}

DevicePair::~DevicePair() {
  if (is_own()) close();
}

void DevicePair::close() {
  const auto& library = devices_.library();
  destroy_pair();
  if (completions_ != nullptr) library.destroy_cq(std::exchange(completions_, nullptr));
  if (domain_ != nullptr) devices_.alarms_of(port_index_).remove(alarm_);
  if (channel_ != nullptr) library.destroy_comp_channel(std::exchange(channel_, nullptr));
}

void DevicePair::destroy_pair() {
  if (pair_ != nullptr) devices_.library().destroy_qp(std::exchange(pair_, nullptr));
}

Status DevicePair::create(const PortChoice& choice, Path path, std::uint32_t sends,
                          std::uint32_t receives) {
  const auto& library = devices_.library();
  const Port& port = devices_.ports()[choice.port];
  path_ = std::move(path);
  path_.device = fmt::format("{} port {}", port.device, port.number);
  port_ = port.number;
  port_index_ = choice.port;
  devices_.alarms_of(port_index_).add(alarm_);
  is_global_ = port.layer == LinkLayer::ethernet;
  gid_index_ = choice.gid_index;
  domain_ = devices_.domain_of(choice.port);
  registrations_ = &devices_.registrations_of(choice.port);
  {
    const StandardStreamsTaken taken;
    channel_ = library.create_comp_channel(domain_->context);
  }
  if (channel_ == nullptr) return refused("creating a completion channel", path_);
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  completions_ =
      library.create_cq(domain_->context, static_cast<int>(receives + sends), &alarm_, channel_, 0);
  if (completions_ == nullptr) return refused("creating a completion queue", path_);
  CCOLL_TRY(create_pair(sends, receives));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port_;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  CCOLL_TRY(modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                   "initialized"));
  for (std::uint32_t posted = 0; posted < receives; posted += kReceiveBatch)
    CCOLL_TRY(post_receives());
  address_ = {
      pair_->qp_num, std::random_device{}() & kPacketMask, port.lid, port.mtu, choice.gid, 0, 0};
  return {};
}

Status DevicePair::post_receives() {
  // No buffers: writes go to the slots.
  std::array<ibv_recv_wr, kReceiveBatch> requests{};
  for (std::size_t i = 1; i < requests.size(); i++) requests[i - 1].next = &requests[i];
  ibv_recv_wr* bad = nullptr;
  if (pair_ == nullptr) return {};
  if (const int code = ibv_post_recv(pair_, requests.data(), &bad); code != 0)
    return tl::unexpected(failure_to_post("to receive", code, path_));
  return {};
}

bool DevicePair::arm() {
  // One event at most per arming. Drain old ones, or the next event causes no edge.
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (devices_.library().get_cq_event(channel_, &queue, &context) == 0)
    devices_.library().ack_cq_events(completions_, 1);
  return ibv_req_notify_cq(completions_, 0) == 0;
}

Result<ibv_mr*> DevicePair::register_slots(std::byte* data, std::size_t bytes) const {
  auto* const slots = devices_.library().reg_mr(domain_, data, bytes,
                                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (slots == nullptr) return tl::unexpected(refused("registering memory", path_).error());
  return slots;
}

Status DevicePair::create_pair(std::uint32_t sends, std::uint32_t receives) {
  // Devices differ in their inline limit, and refuse rather than grant less.
  for (std::uint32_t bytes = kInlineAsked;; bytes /= 2) {
    ibv_qp_init_attr attributes{};
    attributes.qp_context = &alarm_;
    attributes.send_cq = attributes.recv_cq = completions_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {.max_send_wr = sends,
                      .max_recv_wr = receives,
                      .max_send_sge = 2,
                      .max_recv_sge = 1,
                      .max_inline_data = bytes};
    pair_ = devices_.library().create_qp(domain_, &attributes);
    if (pair_ != nullptr) {
      most_inline_ = attributes.cap.max_inline_data;
      return {};
    }
    if (bytes == 0) return refused("creating a queue pair", path_);
  }
}

Status DevicePair::modify(ibv_qp_attr& attributes, int mask, const char* what) {
  const int code = devices_.library().modify_qp(pair_, &attributes, mask);
  if (code == 0) return {};
  return fail(ErrorKind::exhausted, "a queue pair of {} to rank {} at {} cannot be {}: {}",
              path_.device, path_.peer, path_.host, what, std::strerror(code));
}

Status DevicePair::connect(const QueuePairAddress& peer) {
  const auto& settings = devices_.settings();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(peer.mtu, address_.mtu));
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.first_packet;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.dlid = peer.lid;
  attributes.ah_attr.sl = settings.service_level;
  attributes.ah_attr.port_num = port_;
  if (is_global_) {
    attributes.ah_attr.is_global = 1;
    std::ranges::copy(peer.gid, attributes.ah_attr.grh.dgid.raw);
    attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
    attributes.ah_attr.grh.hop_limit = 255;
    attributes.ah_attr.grh.traffic_class = settings.traffic_class;
  }
  CCOLL_TRY(modify(attributes,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                   "made ready to receive (is there a route between the two addresses?)"));
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = settings.timeout;
  attributes.retry_cnt = settings.retries;
  attributes.rnr_retry = 7;
  attributes.sq_psn = address_.first_packet;
  return modify(attributes,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "made ready to send");
}

}  // namespace ccoll::verbs

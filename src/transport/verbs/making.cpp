// SPDX-License-Identifier: Apache-2.0
// How queue pairs are made, and each of their directions opened and connected, on the service
// thread.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "system/file_descriptor.hpp"
#include "transport/verbs/queue_pair.hpp"

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

Result<std::shared_ptr<QueuePair>> QueuePair::make(const Devices& devices, const PortChoice& choice,
                                                   std::shared_ptr<Peer> peer) {
  std::shared_ptr<QueuePair> made(new QueuePair(devices, std::move(peer)));
  CCOLL_TRY(made->create(choice));
  return made;
}

Status QueuePair::create(const PortChoice& choice) {
  const auto& library = devices_.library();
  const Port& port = devices_.ports()[choice.port];
  path_ = {peer_->rank, peer_->host, fmt::format("{} port {}", port.device, port.number)};
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
  completions_ = library.create_cq(domain_->context, kReceives + kSends, &alarm_, channel_, 0);
  if (completions_ == nullptr) return refused("creating a completion queue", path_);
  CCOLL_TRY(create_queue_pair());
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port_;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  CCOLL_TRY(modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                   "initialized"));
  for (std::uint32_t posted = 0; posted < kReceives; posted += kReceiveBatch)
    CCOLL_TRY(post_receives());
  address_ = {
      pair_->qp_num, std::random_device{}() & kPacketMask, port.lid, port.mtu, choice.gid, 0, 0};
  return {};
}

bool QueuePair::is_free(End end, std::optional<std::uint32_t> number) {
  std::lock_guard lock(mutex_);
  return !is_over_ && !slots_of(end).memory &&
         (!number || peer_number_.value_or(*number) == *number);
}

Result<QueuePairAddress> QueuePair::open(End end, SlotBudget::Share share) {
  // A shared mapping: after fork(), the device and this process keep the same pages.
  auto memory = Segment::make("ccoll-rdma", kMemoryBytes);
  if (!memory) return tl::unexpected(memory.error());
  (*memory)->close_file();
  std::lock_guard lock(mutex_);
  Slots& slots = slots_of(end);
  slots.share = std::move(share);
  slots.memory = std::move(*memory);
  slots.registration = devices_.library().reg_mr(domain_, slots.memory->data(), kMemoryBytes,
                                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (slots.registration == nullptr)
    return tl::unexpected(refused("registering memory", path_).error());
  auto address = address_;
  address.key = slots.registration->rkey;
  address.base = reinterpret_cast<std::uint64_t>(slots.memory->data());
  return address;
}

Status QueuePair::create_queue_pair() {
  // Devices differ in their inline limit, and refuse rather than grant less.
  for (std::uint32_t bytes = kInlineAsked;; bytes /= 2) {
    ibv_qp_init_attr attributes{};
    attributes.qp_context = &alarm_;
    attributes.send_cq = attributes.recv_cq = completions_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {.max_send_wr = kSends,
                      .max_recv_wr = kReceives,
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

Status QueuePair::modify(ibv_qp_attr& attributes, int mask, const char* what) {
  const int code = devices_.library().modify_qp(pair_, &attributes, mask);
  if (code == 0) return {};
  return fail(ErrorKind::exhausted, "a queue pair of {} to rank {} at {} cannot be {}: {}",
              path_.device, path_.peer, path_.host, what, std::strerror(code));
}

Status QueuePair::connect(End end, const QueuePairAddress& peer) {
  std::lock_guard lock(mutex_);
  if (!peer_number_) {
    peer_number_ = peer.number;
    connected_ = connect_to(peer);
  }
  if (!connected_) return connected_;
  if (*peer_number_ != peer.number)
    return fail(ErrorKind::unsupported, "it answers for another queue pair than before");
  slots_of(end).peer_key = peer.key;
  slots_of(end).peer_base = peer.base;
  return {};
}

Status QueuePair::connect_to(const QueuePairAddress& peer) {
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The device's objects of a queue pair: the pair itself, its completion queue and its channel.
/// They are made, brought from state to state, used and destroyed here. Knows no slots, slices or
/// words.

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/bytes.hpp"
#include "core/result.hpp"
#include "transport/verbs/device/alarms.hpp"
#include "transport/verbs/device/device.hpp"
#include "transport/verbs/device/registration.hpp"
#include "transport/verbs/errors.hpp"

namespace ccoll::verbs {

/// One end's address, as the other end must know it for one direction.
struct QueuePairAddress {
  std::uint32_t number = 0;
  std::uint32_t first_packet = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;
  GidBytes gid{};
  std::uint32_t key = 0;   ///< of the direction's slots
  std::uint64_t base = 0;  ///< their address

  static constexpr std::size_t kBytes = 4 + 4 + 2 + 1 + 16 + 4 + 8;
};
net::Writer& write(net::Writer& writer, const QueuePairAddress& address);
QueuePairAddress read_queue_pair_address(net::Reader& reader);

class DevicePair {
 public:
  /// Receives are posted in batches of this size.
  static constexpr std::uint32_t kReceiveBatch = 4;

  explicit DevicePair(const Devices& devices) : devices_(devices) {}
  ~DevicePair();
  DevicePair(const DevicePair&) = delete;
  DevicePair& operator=(const DevicePair&) = delete;

  /// Makes all of it for so many requests, and posts all receives. `path`: with the peer.
  Status create(const PortChoice& choice, Path path, std::uint32_t sends, std::uint32_t receives);
  /// As created, without slots.
  const QueuePairAddress& address() const { return address_; }
  Status connect(const QueuePairAddress& peer);

  /// Posts kReceiveBatch of them, if there is a pair.
  Status post_receives();
  /// Returns errno's code; 0 if it was posted, or there is no pair.
  int post(ibv_send_wr& first) const {
    ibv_send_wr* bad = nullptr;
    return pair_ == nullptr ? 0 : ibv_post_send(pair_, &first, &bad);
  }
  /// Returns how many completions came; negative if they cannot be read.
  int poll(std::span<ibv_wc> done) const {
    return ibv_poll_cq(completions_, static_cast<int>(done.size()), done.data());
  }
  /// The next completion becomes an event of channel(). False if it cannot.
  bool arm();
  int channel() const { return channel_->fd; }
  /// Returns once the device has let go of all memory; from then on nothing is posted.
  void destroy_pair();
  bool has_pair() const { return pair_ != nullptr; }
  /// Destroys all.
  void close();

  /// Writes up to this many bytes travel inside the request.
  std::uint32_t most_inline() const { return most_inline_; }
  /// Memory of the caller, for one call.
  std::shared_ptr<const Registration> register_memory(const std::byte* data,
                                                      std::size_t bytes) const {
    return Registration::make(devices_.library(), domain_, data, bytes);
  }
  Result<std::shared_ptr<const Registration>> register_memory(const ExportedMemory& memory) const {
    return Registration::make(devices_.library(), domain_, memory);
  }
  /// Memory that is registered with ccoll; null if that memory is not.
  std::shared_ptr<const Registration> find(const std::byte* data, std::size_t bytes) const {
    return registrations_->find(data, bytes);
  }
  /// For slots, until release_slots().
  Result<ibv_mr*> register_slots(std::byte* data, std::size_t bytes) const;
  void release_slots(ibv_mr* slots) const { devices_.library().dereg_mr(slots); }
  bool is_of_domain(const Registration& memory) const { return memory.domain() == domain_; }

  /// False in a forked child, which does not own it.
  bool is_own() const { return process_ == getpid(); }
  Alarm& alarm() { return alarm_; }
  const Settings& settings() const { return devices_.settings(); }
  const Path& path() const { return path_; }
  /// Asks the device whether the port is down.
  const Path& path_now() {
    path_.is_down = devices_.is_down_now(port_index_);
    return path_;
  }

 private:
  Status create_pair(std::uint32_t sends, std::uint32_t receives);
  Status modify(ibv_qp_attr& attributes, int mask, const char* what);

  const Devices& devices_;
  const pid_t process_ = getpid();
  Path path_;
  std::size_t port_index_ = 0;
  Alarm alarm_;
  std::uint8_t port_ = 1;
  bool is_global_ = true;
  int gid_index_ = 0;
  ibv_pd* domain_ = nullptr;
  Registrations* registrations_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_qp* pair_ = nullptr;
  std::uint32_t most_inline_ = 0;
  QueuePairAddress address_;
};

}  // namespace ccoll::verbs

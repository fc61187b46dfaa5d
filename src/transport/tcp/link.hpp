// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The two ends of a TCP stream that carries slices: 32 bytes of SliceHeader, then the payload.
/// With checksums, the payload's CRC32C stands between the two. The header's reserved field then
/// holds a CRC32C over the rest of the header and that field, so a length is verified before use.

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "transport/arrival_board.hpp"
#include "transport/link.hpp"
#include "transport/waiter.hpp"

namespace ccoll::tcp {

/// A connection as the service thread hands it over, with what it has made ready ahead of the
/// link's first call.
struct Connection {
  FileDescriptor socket;
  bool is_watched = false;           ///< the link's waiter watches the socket
  std::vector<std::byte> staging{};  ///< memory for a receiving end
};

/// The link's stream once it is connected, and the link's failure once it has one.
class Stream {
 public:
  Stream(std::uint32_t peer, std::shared_ptr<Delivery<Connection>> delivery,
         std::shared_ptr<Waiter> waiter)
      : peer_(peer), delivery_(std::move(delivery)), waiter_(std::move(waiter)) {
    // A peer may have connected before this end was opened.
    take_over();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// True once connected; takes over the stream if it has just come.
  bool ready() { return connection_.socket.open() || take_over(); }
  /// Whether it has ever been connected.
  bool connected() const { return fd() >= 0 || delivery_->there(); }
  int fd() const { return connection_.socket.number(); }
  std::vector<std::byte>& staging() { return connection_.staging; }
  std::uint32_t peer() const { return peer_; }
  /// For the errno of a system call on this stream: fails the link unless it only would block.
  void broke(int code);
  void closed_by_peer();
  void fail_with(Failure failure);
  /// Sets the failure for the end of the stream; fails at once if nothing is connected.
  void peer_lost(const Failure& why);
  const Failure* failure() const { return failure_ ? &*failure_ : nullptr; }

 private:
  bool take_over();
  /// Fails the link because this process lacks a resource for it.
  void lack(Failure failure);

  const std::uint32_t peer_;
  const std::shared_ptr<Delivery<Connection>> delivery_;
  const std::shared_ptr<Waiter> waiter_;
  Connection connection_;
  std::optional<Failure> lost_;  ///< the failure to report, if the peer is lost
  std::optional<Failure> failure_;
};

/// The header on the wire; its last field is sent only with checksums.
struct WireHeader {
  SliceHeader slice;
  std::uint32_t payload_checksum = 0;
};
inline constexpr std::size_t kPlainHeaderBytes = sizeof(SliceHeader);
inline constexpr std::size_t kCheckedHeaderBytes = kPlainHeaderBytes + sizeof(std::uint32_t);
static_assert(offsetof(WireHeader, payload_checksum) == kPlainHeaderBytes);

/// Memory that a receiving end needs for headers and short slices, and what long ones add.
inline constexpr std::size_t kLeastStaging = 16 << 10;
inline constexpr std::size_t kLongStaging = kLeastStaging + kCommonSliceBytes;

/// Connection attempts beyond the first, counted on the service thread.
using Retries = std::atomic<std::uint64_t>;

class TcpSendLink final : public SendLink {
 public:
  TcpSendLink(std::uint32_t peer, std::shared_ptr<Delivery<Connection>> connection,
              std::shared_ptr<Waiter> waiter, std::shared_ptr<const Retries> retries,
              bool checked = false)
      : stream_(peer, std::move(connection), std::move(waiter)),
        retries_(std::move(retries)),
        header_bytes_(checked ? kCheckedHeaderBytes : kPlainHeaderBytes) {}

  bool has_room() override { return pushed_ - sent_ < kSlots; }
  std::byte* room(std::size_t bytes) override;
  void push(const SliceHeader& header) override;
  void lend(const SliceHeader& header, const std::byte* data, Copier copier) override;
  bool progress() override;
  bool drained() override { return sent_ == pushed_; }
  bool connected() const override { return stream_.connected(); }
  void revoke() override;
  void peer_gone(Departure how, const Failure& why) override {
    if (how == Departure::lost) stream_.fail_with(why);
  }
  const Failure* failure() const override { return stream_.failure(); }
  LinkReport report() const override { return {"tcp", retries_->load() + blocked_times_}; }

 private:
  static constexpr std::size_t kSlots = kLinkSlots;

  struct Slot {
    WireHeader header;
    const std::byte* data = nullptr;
    std::vector<std::byte> copy;
  };
  void enqueue(const SliceHeader& header, const std::byte* data);
  std::size_t gather(std::array<iovec, 2 * kSlots>& parts);
  void advance(std::size_t bytes);

  Stream stream_;
  std::array<Slot, kSlots> slots_;
  std::uint64_t pushed_ = 0;
  std::uint64_t sent_ = 0;      ///< slices that the kernel has taken whole
  std::size_t sent_bytes_ = 0;  ///< of slice `sent_`, header included
  const std::shared_ptr<const Retries> retries_;
  const std::size_t header_bytes_;
  std::uint64_t blocked_times_ = 0;
  bool is_blocked_ = false;  ///< the socket had no room at the last try
};

class TcpReceiveLink final : public ReceiveLink {
 public:
  /// `checked_as`: the link's name for checksum errors; none: slices carry no checksums.
  TcpReceiveLink(std::uint32_t peer, std::shared_ptr<Delivery<Connection>> connection,
                 std::shared_ptr<Waiter> waiter,
                 std::optional<std::string> checked_as = std::nullopt)
      : stream_(peer, std::move(connection), std::move(waiter)),
        checked_as_(std::move(checked_as)),
        header_bytes_(checked_as_ ? kCheckedHeaderBytes : kPlainHeaderBytes) {}

  const SliceHeader* peek() override;
  void offer(std::byte* data, std::size_t bytes) override;
  const View* front() override;
  bool whole() const override { return whole_; }
  bool connected() const override { return stream_.connected(); }
  bool begin_read() override { return true; }
  bool pop() override;
  void revoke() override {}
  /// A goodbye needs no action: the end of the stream comes after everything that was sent.
  void peer_gone(Departure how, const Failure& why) override {
    if (how == Departure::lost) stream_.peer_lost(why);
  }
  const Failure* failure() const override { return stream_.failure(); }
  LinkReport report() const override { return {"tcp", 0}; }

 private:
  std::size_t staged() const { return staged_end_ - staged_begin_; }
  /// Reads available bytes: first to `direct`, then at most `staged_bytes` behind those staged.
  bool read_some(std::byte* direct, std::size_t direct_bytes, std::size_t staged_bytes);
  bool parse_header();
  /// Each returns false, and fails the link, if a checksum does not match.
  bool check_header();
  bool check_payload();
  bool is_same(std::uint32_t found, std::uint32_t expected, const std::string& what);
  void choose_place();
  void make_space(std::size_t bytes);

  Stream stream_;
  const std::optional<std::string> checked_as_;
  const std::size_t header_bytes_;
  std::uint32_t payload_checksum_ = 0;  ///< of the front slice, as sent
  std::uint64_t popped_ = 0;
  /// Bytes read and not yet delivered: [staged_begin_, staged_end_).
  std::vector<std::byte>& staging_ = stream_.staging();
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;

  View view_;
  bool parsed_ = false;               ///< view_.header is the front slice's
  bool placing_ = false;              ///< the place of its payload has been chosen
  bool whole_ = false;                ///< view_ is complete
  std::byte* destination_ = nullptr;  ///< accepted offer for the front slice
  std::size_t placed_ = 0;            ///< bytes of it already there
  std::byte* offered_ = nullptr;
  std::size_t offered_bytes_ = 0;
};

}  // namespace ccoll::tcp

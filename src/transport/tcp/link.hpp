// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The two ends of a TCP stream that carries slices: 32 bytes of SliceHeader, then the payload.

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "core/file_descriptor.hpp"
#include "transport/delivery.hpp"
#include "transport/link.hpp"
#include "transport/waiter.hpp"

namespace ccoll::tcp {

/// The stream once it is there, and the link's failure once it has one.
class Stream {
 public:
  Stream(std::uint32_t peer, std::shared_ptr<Delivery<FileDescriptor>> connection,
         std::shared_ptr<Waiter> waiter)
      : peer_(peer), connection_(std::move(connection)), waiter_(std::move(waiter)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// True once connected; takes over the stream when it has just come.
  bool ready() { return socket_.open() || take_over(); }
  int fd() const { return socket_.number(); }
  std::uint32_t peer() const { return peer_; }
  /// Of a system call on this stream: fails the link unless it would only have blocked.
  void broke(int code);
  void closed_by_peer();
  void fail_with(Failure failure);
  const Failure* failure() const { return failure_ ? &*failure_ : nullptr; }

 private:
  bool take_over();

  const std::uint32_t peer_;
  const std::shared_ptr<Delivery<FileDescriptor>> connection_;
  const std::shared_ptr<Waiter> waiter_;
  FileDescriptor socket_;
  std::optional<Failure> failure_;
};

class TcpSendLink final : public SendLink {
 public:
  TcpSendLink(std::uint32_t peer, std::shared_ptr<Delivery<FileDescriptor>> connection,
              std::shared_ptr<Waiter> waiter)
      : stream_(peer, std::move(connection), std::move(waiter)) {}

  bool has_room() override { return pushed_ - sent_ < kSlots; }
  std::byte* room(std::size_t bytes) override;
  void push(const SliceHeader& header) override;
  void lend(const SliceHeader& header, const std::byte* data) override;
  bool progress() override;
  bool drained() override { return sent_ == pushed_; }
  bool connected() const override { return stream_.fd() >= 0; }
  void revoke() override;
  const Failure* failure() const override { return stream_.failure(); }

 private:
  static constexpr std::size_t kSlots = kLinkSlots;

  struct Slot {
    SliceHeader header;
    const std::byte* data = nullptr;
    std::vector<std::byte> copy;
  };
  void enqueue(const SliceHeader& header, const std::byte* data);
  std::size_t gather(std::array<iovec, 2 * kSlots>& parts);
  void advance(std::size_t bytes);

  Stream stream_;
  std::array<Slot, kSlots> slots_;
  std::uint64_t pushed_ = 0;
  std::uint64_t sent_ = 0;      ///< slices that the kernel has whole
  std::size_t sent_bytes_ = 0;  ///< of slice `sent_`, header included
};

class TcpReceiveLink final : public ReceiveLink {
 public:
  TcpReceiveLink(std::uint32_t peer, std::shared_ptr<Delivery<FileDescriptor>> connection,
                 std::shared_ptr<Waiter> waiter)
      : stream_(peer, std::move(connection), std::move(waiter)) {}

  const SliceHeader* peek() override;
  void offer(std::byte* data, std::size_t bytes) override;
  const View* front() override;
  bool whole() const override { return whole_; }
  bool connected() const override { return stream_.fd() >= 0; }
  bool begin_read() override { return true; }
  bool pop() override;
  const Failure* failure() const override { return stream_.failure(); }

 private:
  std::size_t staged() const { return staged_end_ - staged_begin_; }
  /// Reads what there is: first to `direct`, then at most `staged_bytes` behind what is staged.
  bool read_some(std::byte* direct, std::size_t direct_bytes, std::size_t staged_bytes);
  bool parse_header();
  void choose_place();
  void make_space(std::size_t bytes);

  Stream stream_;
  /// Bytes read and not yet handed out: [staged_begin_, staged_end_).
  std::vector<std::byte> staging_;
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;

  View view_;
  bool parsed_ = false;               ///< view_.header is the front slice's
  bool placing_ = false;              ///< where its payload goes has been chosen
  bool whole_ = false;                ///< view_ is complete
  std::byte* destination_ = nullptr;  ///< accepted offer for the front slice
  std::size_t placed_ = 0;            ///< bytes of it already there
  std::byte* offered_ = nullptr;
  std::size_t offered_bytes_ = 0;
};

}  // namespace ccoll::tcp

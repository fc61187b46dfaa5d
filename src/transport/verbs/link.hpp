// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The two ends of a link over a queue pair, which may also serve the opposite link. If the queue
/// pair cannot be made, both ends use the fallback transport, before any slice has travelled.

#include <chrono>
#include <memory>
#include <optional>

#include "transport/arrival_board.hpp"
#include "transport/fallback.hpp"
#include "transport/verbs/queue_pair.hpp"

namespace ccoll::verbs {

using PairPointer = std::shared_ptr<QueuePair>;
using PairDelivery = Delivery<PairPointer>;

class VerbsSendLink final : public SendLink {
 public:
  VerbsSendLink(const LinkId& id, std::shared_ptr<PairDelivery> delivery,
                std::shared_ptr<Fallback> fallback, std::shared_ptr<Waiter> waiter,
                std::shared_ptr<CompletionGroup> completion_group, bool is_checked)
      : id_(id),
        delivery_(std::move(delivery)),
        fallback_(std::move(fallback)),
        waiter_(std::move(waiter)),
        completion_group_(std::move(completion_group)),
        is_checked_(is_checked) {}
  ~VerbsSendLink() override;

  bool has_room() override;
  std::byte* room(std::size_t bytes) override;
  void push(const SliceHeader& header) override;
  void lend(const SliceHeader& header, const std::byte* data, Copier copier) override;
  void announce(const std::byte* data, std::size_t bytes,
                const std::shared_ptr<const DirectMemory>& memory) override;
  Result<std::shared_ptr<const DirectMemory>> make_direct(const ExportedMemory& memory) override;
  bool progress() override;
  bool drained() override {
    if (pair_) [[likely]]
      return pair_->drained();
    return !fallback_link_ || fallback_link_->drained();
  }
  void revoke() override;
  void peer_gone(Departure how, const Failure& why) override;
  bool connected() const override {
    return pair_ || (fallback_link_ && fallback_link_->connected());
  }
  const Failure* failure() const override;

 private:
  /// Whether the queue pair is there; takes it over if it has just come.
  bool settle();
  /// Adds the checksum, if slices carry them.
  SliceHeader sealed(SliceHeader header, const std::byte* data) const;

  const LinkId id_;
  const std::shared_ptr<PairDelivery> delivery_;
  const std::shared_ptr<Fallback> fallback_;
  const std::shared_ptr<Waiter> waiter_;
  const std::shared_ptr<CompletionGroup> completion_group_;
  const bool is_checked_;  ///< slices carry checksums
  PairPointer pair_;
  std::unique_ptr<SendLink> fallback_link_;  ///< link of the fallback
  bool fallback_works_ = false;
  mutable std::optional<Failure> failure_;
};

class VerbsReceiveLink final : public ReceiveLink {
 public:
  /// `fallback_link`: the same link by the fallback, or null. `checked_as`: the link's name for
  /// checksum errors; none: slices carry no checksums.
  VerbsReceiveLink(const LinkId& id, std::shared_ptr<PairDelivery> delivery,
                   std::unique_ptr<ReceiveLink> fallback_link, std::shared_ptr<Waiter> waiter,
                   std::shared_ptr<CompletionGroup> completion_group,
                   std::optional<std::string> checked_as);
  ~VerbsReceiveLink() override;

  const SliceHeader* peek() override;
  void offer(std::byte* data, std::size_t bytes) override;
  void announce(std::byte* data, std::size_t bytes,
                const std::shared_ptr<const DirectMemory>& memory) override;
  Result<std::shared_ptr<const DirectMemory>> make_direct(const ExportedMemory& memory) override;
  const View* front() override;
  bool whole() const override;
  bool connected() const override {
    return pair_ || (fallback_link_ && fallback_link_->connected());
  }
  bool begin_read() override { return pair_ || fallback_link_->begin_read(); }
  bool pop() override;
  void revoke() override;
  void peer_gone(Departure how, const Failure& why) override;
  const Failure* failure() const override;

 private:
  /// The peer's goodbye, and the time by which the device must have delivered all earlier slices.
  struct Goodbye {
    Failure why;
    std::chrono::steady_clock::time_point until;
    bool is_over() const { return std::chrono::steady_clock::now() >= until; }
  };

  bool settle();
  /// Whether a slice has arrived; polls for it.
  bool look();
  /// The fault of the front slice, if it has one.
  std::optional<Failure> fault_of(const std::optional<View>& front) const;

  const LinkId id_;
  const std::shared_ptr<PairDelivery> delivery_;
  const std::shared_ptr<Waiter> waiter_;
  const std::shared_ptr<CompletionGroup> completion_group_;
  const std::optional<std::string> checked_as_;
  std::uint64_t popped_ = 0;
  std::unique_ptr<ReceiveLink> fallback_link_;  ///< in use if it connects first
  PairPointer pair_;
  View view_;
  bool is_seen_ = false;               ///< view_ is the front slice
  bool is_offered_ = false;            ///< offer() was called for the front slice
  std::uint64_t announced_bytes_ = 0;  ///< sum over all announcements
  std::optional<Goodbye> goodbye_;
  mutable std::optional<Failure> failure_;
};

}  // namespace ccoll::verbs

// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <new>
#include <utility>
#include <vector>

#include "gpu/cuda/stream_hold.hpp"
#include "gpu/staging/device_to_host.hpp"
#include "gpu/staging/host_to_device.hpp"
#include "gpu/staging/leases.hpp"
#include "gpu/staging/packing.hpp"
#include "gpu/staging/row_copies.hpp"
#include "kernels/device/launch.hpp"

namespace ccoll::device {
namespace {

/// The least bytes that a block of a launch copies, and the most blocks. These are small, so that
/// there is room for one wherever there is room for any (block_budget.hpp).
constexpr std::uint64_t kBytesPerBlock = 16 << 10, kMostBlocks = 128;
constexpr std::uint32_t kThreadsOfBlock = 32;

class StagedStreamOp final : public StreamOp,
                             public CopySteps,
                             public std::enable_shared_from_this<StagedStreamOp> {
 public:
  StagedStreamOp(std::shared_ptr<Leases> leases, const StreamOpRequest& request)
      : leases_(std::move(leases)),
        stream_(request.stream),
        parts_(request.parts.begin(), request.parts.end()),
        flushes_(request.flushes) {
    marks_.is_captured = request.is_captured;
    for (const Placement& part : parts_) place_bytes_ = std::max(place_bytes_, part.bytes());
    const bool has_room_for_two = place_bytes_ <= leases_->ring_bytes() / 2;
    places_ = std::min<std::size_t>(parts_.size(), has_room_for_two ? 2 : 1);
  }
  StagedStreamOp(const StagedStreamOp&) = delete;
  StagedStreamOp& operator=(const StagedStreamOp&) = delete;
  ~StagedStreamOp() override {
    if (lease_.words != nullptr) leases_->give_back(std::move(lease_));
  }

  /// Must be called once.
  Status take_lease(const StreamOpRequest& request) {
    const auto plan = PiecePlan::of(request.lifted, request.landed, leases_->piece_bytes());
    CCOLL_CHECK(plan.steps == 0 || parts_.size() == 1, "{} parts", parts_.size());
    steps_ = plan.steps;
    blocks_ = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(plan.piece_bytes / kBytesPerBlock, 1, kMostBlocks));
    // A message has at most three orders under way: two of a piece's worth, and a short last one.
    const auto orders = std::min(steps_, 3 * plan.messages);
    const auto staged = places_ * place_bytes_;
    const auto own = staged + staged_bytes(orders * sizeof(CopyOrder));
    if (steps_ > 0 && !plan.are_own) CCOLL_TRY(leases_->take_pieces());
    CCOLL_TRY(device::put(
        leases_->lease(request, own + (plan.are_own ? plan.messages * plan.own_bytes() : 0)),
        lease_));
    if (orders > 0) orders_ = {new (lease_.data + staged) CopyOrder[orders](), orders};
    orders_on_device_ = lease_.data_on_device + staged;
    for (std::size_t part = 0; part < parts_.size(); ++part)
      parts_[part].put(lease_.data + part % places_ * place_bytes_);
    std::size_t messages = 0;
    const auto room = [&] {
      if (!plan.are_own) return PieceRoom(*leases_->pieces());
      const auto at = own + messages++ * plan.own_bytes();
      return PieceRoom({lease_.data + at, lease_.data_on_device + at}, plan.piece_bytes);
    };
    for (std::size_t i = 0; i < request.lifted.size(); ++i) to_host_.emplace_back(*this, room());
    for (std::size_t i = 0; i < request.landed.size(); ++i) to_device_.emplace_back(*this, room());
    return {};
  }

  std::byte* on_host(const void* place, std::size_t part) const override {
    auto* const found = parts_[part].find(place);
    CCOLL_CHECK(found != nullptr);
    return found;
  }
  std::size_t parts_reached() const override {
    return marks_.parts_reached.load(std::memory_order_acquire);
  }
  void end_parts(std::size_t count) override {
    std::atomic_ref(lease_.words->go)
        .store(static_cast<std::uint32_t>(count), std::memory_order_release);
  }
  Status enqueue(std::shared_ptr<StreamListener> listener) override;
  bool reached() const override { return marks_.reached.load(std::memory_order_acquire); }
  bool passed() const override { return marks_.passed.load(std::memory_order_acquire); }
  void release() override;
  Status trouble() const override;

  DeviceToHost* to_host(std::size_t number) override { return &to_host_[number]; }
  HostToDevice* to_device(std::size_t number) override { return &to_device_[number]; }
  Result<std::uint32_t> order(std::span<const OrderedCopy> copies) override;
  bool is_over(std::uint32_t step) const override { return parts_reached() > step; }

 private:
  std::vector<Rows> rows_of(std::size_t part, std::span<const MemoryRange> ranges) const;
  Status put(cudaStream_t stream, StreamHold& hold);
  /// Put the copies of a part's inputs, and of its results once the host has written them.
  Status put_reads(std::size_t part, cudaStream_t stream, StreamHold& hold);
  Status put_writes(std::size_t part, cudaStream_t stream);
  Status put_step(std::uint32_t step, cudaStream_t stream, StreamHold& hold);

  const std::shared_ptr<Leases> leases_;
  const std::optional<cudaStream_t> stream_;
  std::vector<Placement> parts_;   // immutable after take_lease()
  std::uint64_t place_bytes_ = 0;  ///< of the largest part; immutable
  std::size_t places_ = 1;         ///< parts take them in turn; immutable
  const bool flushes_;
  std::deque<StagedDeviceToHost> to_host_;    // immutable after take_lease()
  std::deque<StagedHostToDevice> to_device_;  // immutable after take_lease()
  std::uint64_t steps_ = 0;                   ///< for both; immutable after take_lease()
  std::uint32_t blocks_ = 1;                  ///< of each step; immutable after take_lease()
  std::span<CopyOrder> orders_;            ///< steps use them in turn; immutable after take_lease()
  std::byte* orders_on_device_ = nullptr;  ///< immutable after take_lease()
  std::uint32_t ordered_ = 0;              ///< steps ordered since the stream reached the call
  Lease lease_;                            // immutable after take_lease()
  StreamMarks marks_;
  std::atomic<bool> is_in_stream_{false};
};

class DeviceStaging final : public Staging {
 public:
  explicit DeviceStaging(std::shared_ptr<Leases> leases) : leases_(std::move(leases)) {}

  Result<std::shared_ptr<StreamOp>> stream_op(const StreamOpRequest& request) override {
    const auto stream_op = std::make_shared<StagedStreamOp>(leases_, request);
    CCOLL_TRY(stream_op->take_lease(request));
    return stream_op;
  }
  Result<std::shared_ptr<std::byte>> room(std::uint64_t bytes) override {
    return leases_->room(bytes);
  }
  int device() const override { return leases_->device(); }
  std::uint64_t held_bytes() const override { return leases_->held_bytes(); }
  bool has_block(std::uint64_t bytes) const override { return leases_->has_block(bytes); }
  bool suits_pieces(const StreamOpRequest& request) const override {
    return leases_->may_take_pieces() &&
           PiecePlan::of(request.lifted, request.landed, leases_->piece_bytes()).pays_off();
  }
  Status take_ring() override { return leases_->take_ring(); }
  std::shared_ptr<Leases> leases() override { return leases_; }

 private:
  const std::shared_ptr<Leases> leases_;
};

Status StagedStreamOp::enqueue(std::shared_ptr<StreamListener> listener) {
  const CurrentDevice current(leases_->device());
  CCOLL_TRY(current.status());
  auto hold = std::make_unique<StreamHold>(shared_from_this(), marks_, std::move(listener));
  if (marks_.is_captured) {
    // From here on the graph owns it.
    StreamHold& held = *hold;
    CCOLL_TRY(give_to_graph(*stream_, std::move(hold)));
    return put(*stream_, held);
  }
  const auto status = put(stream_ ? *stream_ : lease_.stream.get(), *hold);
  if (!status) {
    keep_for_ever(std::shared_ptr<StreamHold>(std::move(hold)));
    return fail(status.error().kind,
                "{}; the part of the call that is in the stream may still use its buffers",
                status.error().message);
  }
  is_in_stream_.store(true, std::memory_order_release);
  // From here on its last host function owns it.
  (void)hold.release();
  return {};
}

std::vector<Rows> StagedStreamOp::rows_of(std::size_t part,
                                          std::span<const MemoryRange> ranges) const {
  std::vector<Rows> all;
  for (const MemoryRange& range : ranges) add_rows(all, range, on_host(range.data, part));
  return all;
}

Status StagedStreamOp::put_reads(std::size_t part, cudaStream_t stream, StreamHold& hold) {
  for (const Rows& each : rows_of(part, parts_[part].reads()))
    CCOLL_TRY(copy(each, RowsGo::here, stream));
  if (part > 0) return tell_part_reached(stream, hold);
  if (!stream_) CCOLL_TRY(leases_->in_order(stream));
  CCOLL_TRY(tell_reached(stream, hold));
  return stream_ ? Status() : leases_->has_come(stream);
}

Status StagedStreamOp::put_writes(std::size_t part, cudaStream_t stream) {
  const bool is_last = part + 1 == parts_.size();
  CCOLL_TRY(leases_->wait_for_host(
      lease_, stream,
      {.parts = steps_ + part + 1, .again = is_last && marks_.is_captured, .flushes = flushes_}));
  for (const Rows& each : rows_of(part, parts_[part].writes()))
    CCOLL_TRY(copy(each, RowsGo::there, stream));
  return {};
}

/// Waits until the step is ordered, or the call is over. A step's end is reported like a part's.
Status StagedStreamOp::put_step(std::uint32_t step, cudaStream_t stream, StreamHold& hold) {
  CCOLL_TRY(leases_->wait_for_host(lease_, stream, {.parts = step}));
  const auto at = step % orders_.size() * sizeof(CopyOrder);
  CCOLL_TRY(launch_ordered_copies(reinterpret_cast<const CopyOrder*>(orders_on_device_ + at), step,
                                  {.blocks = blocks_, .threads = kThreadsOfBlock}, stream));
  return tell_part_reached(stream, hold);
}

Result<std::uint32_t> StagedStreamOp::order(std::span<const OrderedCopy> copies) {
  // An earlier step that has the same order may be under way.
  const bool is_free = ordered_ < orders_.size() || is_over(ordered_ + 1 - orders_.size());
  if (ordered_ == steps_ || !is_free)
    return fail(ErrorKind::internal, "more copies than messages of their sizes take: {} of {}",
                ordered_, steps_);
  CopyOrder& order = orders_[++ordered_ % orders_.size()];
  std::ranges::copy(copies, order.copies);
  order.count = static_cast<std::uint32_t>(copies.size());
  std::atomic_ref(order.number).store(ordered_, std::memory_order_release);
  end_parts(ordered_);
  return ordered_;
}

void StagedStreamOp::release() {
  // Steps that nobody needs do nothing; a graph's steps are ordered anew when it runs.
  for (CopyOrder& each : orders_) std::atomic_ref(each.number).store(0, std::memory_order_relaxed);
  ordered_ = 0;
  end_parts(kAllParts);
}

Status StagedStreamOp::put(cudaStream_t stream, StreamHold& hold) {
  CCOLL_TRY(leases_->wait_for_room(lease_, stream));
  if (lease_.packing) CCOLL_TRY(put_together(*lease_.packing, stream));
  // A part's inputs come to the place of a part whose results have been copied by then, so no word
  // is needed between the two. While the host makes a part, the next one's inputs come, or have
  // come.
  std::size_t read = 0;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    for (; read < std::min(part + places_, parts_.size()); ++read)
      CCOLL_TRY(put_reads(read, stream, hold));
    for (std::uint32_t step = 1; step <= steps_; ++step) CCOLL_TRY(put_step(step, stream, hold));
    CCOLL_TRY(put_writes(part, stream));
  }
  if (lease_.packing) CCOLL_TRY(put_apart(*lease_.packing, stream));
  if (lease_.end) {
    CCOLL_TRY(cuda_status(cudaEventRecord(lease_.end.get(), stream), "recording an event"));
  }
  return tell_passed(stream, hold);
}

Status StagedStreamOp::trouble() const {
  if (!is_in_stream_.load(std::memory_order_acquire) || passed()) return {};
  const auto ended = has_happened(lease_.end, leases_->device());
  return ended ? Status() : tl::unexpected(ended.error());
}

}  // namespace

Result<std::shared_ptr<Staging>> make_staging(StagingOptions options) {
  auto leases = Leases::take(std::move(options));
  CCOLL_TRY(leases->open());
  return std::make_shared<DeviceStaging>(std::move(leases));
}

}  // namespace ccoll::device

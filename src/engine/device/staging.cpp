// SPDX-License-Identifier: Apache-2.0
#include "engine/device/staging.hpp"

#include <atomic>
#include <deque>
#include <utility>

#include "engine/device/landing.hpp"
#include "engine/device/leases.hpp"
#include "engine/device/stream_hold.hpp"

namespace ccoll::device {
namespace {

class StagedPassage final : public Passage, public StagedLanding::Owner {
 public:
  StagedPassage(std::shared_ptr<Leases> leases, const PassageRequest& request)
      : leases_(std::move(leases)),
        stream_(request.stream),
        placement_(request.reads, request.writes),
        flushes_(request.flushes) {
    marks_.is_captured = request.is_captured;
  }
  StagedPassage(const StagedPassage&) = delete;
  StagedPassage& operator=(const StagedPassage&) = delete;
  ~StagedPassage() override {
    if (lease_.words != nullptr) leases_->give_back(std::move(lease_));
  }

  /// Once.
  Status take_lease(const PassageRequest& request) {
    const auto staged = placement_.bytes();
    CCOLL_TRY(
        device::put(leases_->lease(request, staged + request.landings * Landing::kBytes), lease_));
    placement_.put(lease_.data);
    for (std::size_t i = 0; i < request.landings; ++i)
      landings_.emplace_back(*this, lease_.data + staged + i * Landing::kBytes);
    return {};
  }

  std::byte* on_host(const void* place) const override {
    auto* const found = placement_.find(place);
    CCOLL_CHECK(found != nullptr);
    return found;
  }
  Status enqueue(std::shared_ptr<StreamListener> listener) override;
  bool reached() const override { return marks_.reached.load(std::memory_order_acquire); }
  bool passed() const override { return marks_.passed.load(std::memory_order_acquire); }
  void release() override { let_go(); }
  Status trouble() const override;

  Landing* landing(std::size_t number) override { return &landings_[number]; }
  int device() const override { return leases_->device(); }
  cudaStream_t landing_stream() const override { return lease_.landings.get(); }
  void takes_off() override { held_by_.fetch_add(1, std::memory_order_relaxed); }
  void landed() noexcept override {
    let_go();
    if (const auto listener = listener_.lock()) listener->landed();
  }

 private:
  /// One copy for each allocation that the range has a part in.
  template <typename Copy>
  Status copy(std::span<const MemoryRange> ranges, Copy copy_one) const;
  Status put(cudaStream_t stream, StreamHold& hold);
  /// The last who holds the stream lets it go on; a graph's is held again from then on.
  void let_go() {
    if (held_by_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    held_by_.store(1, std::memory_order_relaxed);
    std::atomic_ref(lease_.words->go).store(1, std::memory_order_release);
  }

  const std::shared_ptr<Leases> leases_;
  const std::optional<cudaStream_t> stream_;
  Placement placement_;  // immutable after take_lease()
  const bool flushes_;
  std::deque<StagedLanding> landings_;      // immutable after take_lease()
  std::atomic<int> held_by_{1};             ///< the host, and what is about to land
  std::weak_ptr<StreamListener> listener_;  // immutable once it is in a stream
  Lease lease_;                             // immutable after take_lease()
  StreamMarks marks_;
  std::atomic<bool> is_in_stream_{false};
};

class DeviceStaging final : public Staging {
 public:
  explicit DeviceStaging(std::shared_ptr<Leases> leases) : leases_(std::move(leases)) {}

  Result<std::shared_ptr<Passage>> passage(const PassageRequest& request) override {
    const auto passage = std::make_shared<StagedPassage>(leases_, request);
    CCOLL_TRY(passage->take_lease(request));
    return passage;
  }
  int device() const override { return leases_->device(); }
  std::uint64_t held_bytes() const override { return leases_->held_bytes(); }
  Status take_ring() override { return leases_->take_ring(); }
  std::shared_ptr<Leases> leases() override { return leases_; }

 private:
  const std::shared_ptr<Leases> leases_;
};

Status StagedPassage::enqueue(std::shared_ptr<StreamListener> listener) {
  const CurrentDevice current(leases_->device());
  CCOLL_TRY(current.status());
  listener_ = listener;
  auto hold = std::make_unique<StreamHold>(shared_from_this(), marks_, std::move(listener));
  if (marks_.is_captured) {
    // From here on it is the graph's.
    StreamHold& held = *hold;
    CCOLL_TRY(give_to_graph(*stream_, std::move(hold)));
    return put(*stream_, held);
  }
  const auto status = put(stream_ ? *stream_ : lease_.stream.get(), *hold);
  if (!status) {
    keep_for_ever(std::shared_ptr<StreamHold>(std::move(hold)));
    return fail(status.error().kind,
                "{}; what the stream has of the call may still use its buffers",
                status.error().message);
  }
  is_in_stream_.store(true, std::memory_order_release);
  // The last of its host functions has it now.
  (void)hold.release();
  return {};
}

template <typename Copy>
Status StagedPassage::copy(std::span<const MemoryRange> ranges, Copy copy_one) const {
  for (const MemoryRange& range : ranges) {
    for (std::uint64_t done = 0; done < range.bytes;) {
      std::byte* const place = range.data + done;
      const auto bytes = std::min(range.bytes - done, bytes_of_allocation_from(place));
      CCOLL_TRY(cuda_status(copy_one(place, on_host(place), bytes),
                            fmt::format("copying {} bytes between device and host", bytes)));
      done += bytes;
    }
  }
  return {};
}

Status StagedPassage::put(cudaStream_t stream, StreamHold& hold) {
  CCOLL_TRY(leases_->wait_for_room(lease_, stream));
  CCOLL_TRY(copy(placement_.reads(), [&](std::byte* there, std::byte* here, std::uint64_t bytes) {
    return cudaMemcpyAsync(here, there, bytes, cudaMemcpyDefault, stream);
  }));
  if (!stream_) CCOLL_TRY(leases_->in_order(stream));
  CCOLL_TRY(tell_reached(stream, hold));
  if (!stream_) CCOLL_TRY(leases_->has_come(stream));
  CCOLL_TRY(leases_->wait_for_host(lease_, stream, !lease_.end, flushes_));
  CCOLL_TRY(copy(placement_.writes(), [&](std::byte* there, std::byte* here, std::uint64_t bytes) {
    return cudaMemcpyAsync(there, here, bytes, cudaMemcpyDefault, stream);
  }));
  if (lease_.end) {
    CCOLL_TRY(cuda_status(cudaEventRecord(lease_.end.get(), stream), "recording an event"));
  }
  return tell_passed(stream, hold);
}

Status StagedPassage::trouble() const {
  if (!is_in_stream_.load(std::memory_order_acquire) || passed()) return {};
  const auto ended = has_happened(lease_.end, leases_->device());
  return ended ? Status() : tl::unexpected(ended.error());
}

}  // namespace

Result<bool> is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const auto error = cudaStreamGetCaptureInfo(stream, &status, nullptr);
  if (error == cudaErrorStreamCaptureImplicit) {
    (void)cudaGetLastError();
    return fail(ErrorKind::invalid_argument,
                "the default stream cannot be used while a stream that waits for it is captured: "
                "expected another stream, or one made with cudaStreamNonBlocking to be captured");
  }
  CCOLL_TRY(cuda_status(error, "asking whether a stream is captured"));
  if (status == cudaStreamCaptureStatusInvalidated)
    return fail(ErrorKind::invalid_argument, "the stream's capture has failed before");
  return status == cudaStreamCaptureStatusActive;
}

std::optional<int> device_of_stream(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return {};
  int device = 0;
  if (cudaStreamGetDevice(stream, &device) == cudaSuccess) return device;
  (void)cudaGetLastError();  // drivers before 12.8 have no such call
  return {};
}

Result<std::shared_ptr<Staging>> make_staging(StagingOptions options) {
  auto leases = Leases::take(std::move(options));
  CCOLL_TRY(leases->open());
  return std::make_shared<DeviceStaging>(std::move(leases));
}

}  // namespace ccoll::device

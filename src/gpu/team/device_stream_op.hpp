// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The common part of stream operations that devices make: where the device finds the call's
/// buffers, and how far the stream has come. Needs CUDA's headers: only sources include this.
///
/// When the stream reaches the call, host buffers are copied to pinned memory, which the device
/// reads and writes in their place. Two events show how far the stream of an uncaptured call is, so
/// it holds host functions only if there is something to copy. These functions hold the call's
/// pinned memory until its stream has passed, even if everyone else has let go of it. Then they
/// give it back: later calls may wait for it in their streams.

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include "gpu/cuda/stream_hold.hpp"
#include "gpu/device_way.hpp"
#include "gpu/program/lower.hpp"
#include "gpu/staging/leases.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

/// The request to lower a program from, for buffers that are in place nowhere.
LowerRequest lowering_of(const ProgramRequest& request);

class DeviceStreamOp : public StreamOp, public std::enable_shared_from_this<DeviceStreamOp> {
 public:
  DeviceStreamOp(std::shared_ptr<Leases> leases, const StreamOpRequest& request);
  DeviceStreamOp(const DeviceStreamOp&) = delete;
  DeviceStreamOp& operator=(const DeviceStreamOp&) = delete;
  ~DeviceStreamOp() override;
  /// Must be called before anything else, once.
  Status take_lease(const StreamOpRequest& request);

  bool is_made_by_device() const override { return true; }
  bool is_looked_at() const override { return !marks_.is_captured; }
  void count_as_reached(bool does) override { early_.store(does, std::memory_order_release); }
  bool reached() const override;
  bool passed() const override;
  Status trouble() const override;
  std::byte* on_host(const void* place, std::size_t part) const override;
  void release() override {}

 protected:
  cudaStream_t stream() const { return stream_ ? *stream_ : lease_.stream.get(); }
  /// Whether all of it is in the stream.
  bool is_in_stream() const { return is_in_stream_.load(std::memory_order_acquire); }
  bool is_captured() const { return marks_.is_captured; }
  int device() const { return leases_->device(); }
  Leases& leases() const { return *leases_; }
  StreamMarks& marks() { return marks_; }
  /// Where the device finds the input and the output.
  std::byte* input() const { return input_; }
  std::byte* output() const { return output_; }
  /// Put what comes before the call, and behind it, into its stream. If the call is captured, the
  /// graph must hold this operation by then.
  Status put_before();
  Status put_behind();
  /// For a captured call: its stream waits each time until the host lets it go on.
  Status put_wait_for_host();
  void let_continue() { std::atomic_ref(lease_.words->go).store(1, std::memory_order_release); }
  /// Replaces put_behind() if nobody makes the call: its stream needs no more room, and no buffers
  /// once it has passed what is in it.
  void put_off();

 private:
  using CopyOfHost = void (*)(DeviceStreamOp& stream_op) noexcept;
  /// A copy that the host makes for a captured call's stream, each time.
  struct CapturedCopy {
    DeviceStreamOp* stream_op = nullptr;
    CopyOfHost run = nullptr;
  };

  /// Makes the stream call `run`.
  Status put_copy(CopyOfHost run);
  static void copy_in(DeviceStreamOp& stream_op) noexcept;
  static void copy_out(DeviceStreamOp& stream_op) noexcept;
  bool is_in_pinned_memory() const { return lease_.data != nullptr; }
  Status put_end();
  /// Where a copied input goes.
  std::uint64_t copied_input_at() const { return placement_.bytes(); }
  Status put_input_copy();  ///< for an input in device memory

  const std::shared_ptr<Leases> leases_;
  const std::optional<cudaStream_t> stream_;
  Placement placement_;             // immutable after take_lease()
  Lease lease_;                     // immutable after take_lease()
  const MemoryRange copied_input_;  ///< an input that is copied whole, where it lies
  const bool has_host_input_;       ///< that input is in host memory
  std::byte* input_;                // immutable after take_lease()
  std::byte* output_;               // immutable after take_lease()
  CapturedCopy captured_in_, captured_out_;
  mutable StreamMarks marks_;  ///< of an uncaptured call, as far as it has been polled
  std::atomic<bool> early_{false};
  std::atomic<bool> is_begun_{false};      ///< set by put_before()
  std::atomic<bool> is_in_stream_{false};  ///< all of it is
  std::atomic<bool> is_off_{false};        ///< set by put_off()
};

}  // namespace ccoll::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the passages of calls that devices make have in common: where the device finds the call's
/// buffers, and how far the stream has come. Needs CUDA's headers: only sources include this.
///
/// Buffers of the host are copied, when the stream comes there, to pinned memory, which the device
/// reads and writes in their place. Of a call that is not captured two events tell how far its
/// stream is, so that no function of the host stands in it unless there is something to copy. Those
/// functions hold the call's pinned memory until its stream has passed it, whoever else lets go of
/// it before, and give it back then: calls behind it may wait for that in their streams.

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

/// What a program is lowered from, for buffers that are in place nowhere.
LowerRequest lowering_of(const ProgramRequest& request);

class DeviceStreamOp : public StreamOp, public std::enable_shared_from_this<DeviceStreamOp> {
 public:
  DeviceStreamOp(std::shared_ptr<Leases> leases, const StreamOpRequest& request);
  DeviceStreamOp(const DeviceStreamOp&) = delete;
  DeviceStreamOp& operator=(const DeviceStreamOp&) = delete;
  ~DeviceStreamOp() override;
  /// Before anything else, once.
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
  /// All of it.
  bool is_in_stream() const { return is_in_stream_.load(std::memory_order_acquire); }
  bool is_captured() const { return marks_.is_captured; }
  int device() const { return leases_->device(); }
  Leases& leases() const { return *leases_; }
  StreamMarks& marks() { return marks_; }
  /// Where the device finds the input and the output.
  std::byte* input() const { return input_; }
  std::byte* output() const { return output_; }
  /// What comes before the call in its stream, and behind it. Of a captured one the graph holds
  /// this passage by then.
  Status put_before();
  Status put_behind();
  /// Of a captured call: its stream waits until the host lets it go on, each time.
  Status put_wait_for_host();
  void let_go_on() { std::atomic_ref(lease_.words->go).store(1, std::memory_order_release); }
  /// Instead of put_behind(), of a call that nobody makes: its stream needs no room any more, and
  /// none of its buffers once it has passed what is in it.
  void put_off();

 private:
  using CopyOfHost = void (*)(DeviceStreamOp& stream_op) noexcept;
  /// What the stream of a captured call is to copy by the host, each time.
  struct CapturedCopy {
    DeviceStreamOp* stream_op = nullptr;
    CopyOfHost run = nullptr;
  };

  /// Has the stream call it.
  Status put_copy(CopyOfHost run);
  static void copy_in(DeviceStreamOp& stream_op) noexcept;
  static void copy_out(DeviceStreamOp& stream_op) noexcept;
  bool is_in_pinned_memory() const { return lease_.data != nullptr; }
  Status put_end();
  /// Where a copied input goes.
  std::uint64_t copied_input_at() const { return placement_.bytes(); }
  Status put_input_copy();  ///< of a device

  const std::shared_ptr<Leases> leases_;
  const std::optional<cudaStream_t> stream_;
  Placement placement_;             // immutable after take_lease()
  Lease lease_;                     // immutable after take_lease()
  const MemoryRange copied_input_;  ///< of an input that is copied whole, where it lies
  const bool has_host_input_;       ///< that is memory of the host
  std::byte* input_;                // immutable after take_lease()
  std::byte* output_;               // immutable after take_lease()
  CapturedCopy captured_in_, captured_out_;
  mutable StreamMarks marks_;  ///< of what is not captured, as far as it has been looked at
  std::atomic<bool> early_{false};
  std::atomic<bool> is_begun_{false};      ///< put_before() has
  std::atomic<bool> is_in_stream_{false};  ///< all of it
  std::atomic<bool> is_off_{false};        ///< put_off() has
};

}  // namespace ccoll::device

// SPDX-License-Identifier: Apache-2.0
#include "gpu/team/device_stream_op.hpp"

#include <cstring>

#include "gpu/staging/packing.hpp"

namespace ccoll::device {
namespace {

/// One copy that the host makes for a stream.
struct Copy {
  std::shared_ptr<DeviceStreamOp> stream_op;
  void (*run)(DeviceStreamOp& stream_op) noexcept;
};

void CUDART_CB run_once(void* argument) {
  const InListener here;
  const std::unique_ptr<Copy> copy(static_cast<Copy*>(argument));
  copy->run(*copy->stream_op);
}

}  // namespace

LowerRequest lowering_of(const ProgramRequest& request) {
  LowerRequest lowering;
  lowering.problem = request.problem;
  lowering.choice = request.choice;
  lowering.schedule = request.schedule;
  lowering.type = request.type;
  lowering.op = request.op;
  return lowering;
}

DeviceStreamOp::DeviceStreamOp(std::shared_ptr<Leases> leases, const StreamOpRequest& request)
    : leases_(std::move(leases)),
      stream_(request.stream),
      placement_(request.parts.front()),
      copied_input_{request.input, request.copied_input},
      has_host_input_(request.copied_input > 0 && !device_of(request.input)),
      input_(request.input),
      output_(request.output) {
  marks_.is_captured = request.is_captured;
}

DeviceStreamOp::~DeviceStreamOp() {
  if (lease_.words == nullptr) return;
  // This may be one of CUDA's threads, so nothing here calls CUDA.
  const bool is_over = marks_.is_captured || marks_.passed.load(std::memory_order_acquire);
  is_over ? leases_->give_back(std::move(lease_)) : leases_->give_back_later(std::move(lease_));
}

Status DeviceStreamOp::take_lease(const StreamOpRequest& request) {
  const auto bytes = placement_.bytes() + staged_bytes(copied_input_.bytes);
  CCOLL_TRY(put(leases_->lease(request, bytes), lease_));
  placement_.put(lease_.data);
  for (std::byte** const buffer : {&input_, &output_}) {
    auto* const here = *buffer == nullptr ? nullptr : placement_.find(*buffer);
    if (here != nullptr) *buffer = lease_.data_on_device + (here - lease_.data);
  }
  if (copied_input_.bytes > 0) input_ = lease_.data_on_device + copied_input_at();
  return {};
}

bool DeviceStreamOp::reached() const {
  if (early_.load(std::memory_order_acquire) || marks_.reached.load(std::memory_order_acquire))
    return true;
  if (marks_.is_captured || !is_begun_.load(std::memory_order_acquire)) return false;
  // trouble() reports errors.
  const bool has_come = has_happened(lease_.begin, device()).value_or(false);
  if (has_come) marks_.reached.store(true, std::memory_order_release);
  return has_come;
}

bool DeviceStreamOp::passed() const {
  if (marks_.passed.load(std::memory_order_acquire)) return true;
  if (marks_.is_captured || !is_in_stream_.load(std::memory_order_acquire)) return false;
  const bool is_over = has_happened(lease_.end, device()).value_or(false);
  if (is_over) marks_.passed.store(true, std::memory_order_release);
  return is_over;
}

Status DeviceStreamOp::trouble() const {
  const bool may_ask = !marks_.is_captured && is_in_stream_.load(std::memory_order_acquire);
  if (!may_ask || marks_.passed.load(std::memory_order_acquire)) return {};
  const auto ended = has_happened(lease_.end, device());
  return ended ? Status() : tl::unexpected(ended.error());
}

std::byte* DeviceStreamOp::on_host(const void* /*place*/, std::size_t /*part*/) const {
  CCOLL_CHECK(false, "of a call that the device makes nothing is on the host");
  return nullptr;
}

Status DeviceStreamOp::put_before() {
  if (!is_captured()) {
    CCOLL_TRY(cuda_status(cudaEventRecord(lease_.begin.get(), stream()), "recording an event"));
    is_begun_.store(true, std::memory_order_release);
  }
  CCOLL_TRY(leases_->wait_for_room(lease_, stream()));
  if (lease_.packing) CCOLL_TRY(put_together(*lease_.packing, stream()));
  if (copied_input_.bytes > 0 && !has_host_input_) CCOLL_TRY(put_input_copy());
  // The copy also holds the memory until there is room in it.
  const bool holds = !is_captured() && is_in_pinned_memory();
  const bool reads = !placement_.reads().empty() || (copied_input_.bytes > 0 && has_host_input_);
  return holds || reads ? put_copy(&copy_in) : Status();
}

Status DeviceStreamOp::put_input_copy() {
  return cuda_status(cudaMemcpyAsync(lease_.data + copied_input_at(), copied_input_.data,
                                     copied_input_.bytes, cudaMemcpyDefault, stream()),
                     "copying an input that shares memory with the output");
}

Status DeviceStreamOp::put_wait_for_host() {
  return leases_->wait_for_host(lease_, stream(), {.again = true});
}

Status DeviceStreamOp::put_behind() {
  if (lease_.packing) CCOLL_TRY(put_apart_on_device(*lease_.packing, stream()));
  if (is_captured()) return placement_.writes().empty() ? Status() : put_copy(&copy_out);
  return put_end();
}

Status DeviceStreamOp::put_end() {
  if (is_in_pinned_memory()) CCOLL_TRY(put_copy(&copy_out));
  CCOLL_TRY(cuda_status(cudaEventRecord(lease_.end.get(), stream()), "recording an event"));
  is_in_stream_.store(true, std::memory_order_release);
  return {};
}

void DeviceStreamOp::put_off() {
  // A graph has all of a captured call. A call that was put off before stays so.
  if (is_captured()) marks_.passed.store(true, std::memory_order_release);
  if (is_captured() || is_off_.exchange(true, std::memory_order_acq_rel)) return;
  const CurrentDevice current(device());
  auto put = current.status();
  if (put) put = put_end();
  // The stream's part of the call may still use the buffers.
  if (!put) keep_for_ever(shared_from_this());
  // No copy follows, so nobody else's part of the ring is touched.
  std::atomic_ref(lease_.words->room).store(1, std::memory_order_release);
}

Status DeviceStreamOp::put_copy(CopyOfHost run) {
  if (is_captured()) {
    // The graph holds this operation as long as it may run.
    auto& copies = run == &copy_in ? captured_in_ : captured_out_;
    copies = {this, run};
    return put_function(
        stream(),
        [](void* argument) {
          const InListener here;
          auto& copy = *static_cast<CapturedCopy*>(argument);
          copy.run(*copy.stream_op);
        },
        &copies);
  }
  auto copy = std::make_unique<Copy>(shared_from_this(), run);
  CCOLL_TRY(put_function(stream(), &run_once, copy.get()));
  (void)copy.release();
  return {};
}

void DeviceStreamOp::copy_in(DeviceStreamOp& stream_op) noexcept {
  if (stream_op.is_off_.load(std::memory_order_acquire)) return;
  for (const MemoryRange& range : stream_op.placement_.reads())
    std::memcpy(stream_op.placement_.find(range.data), range.data, range.bytes);
  const MemoryRange& input = stream_op.copied_input_;
  if (input.bytes > 0 && stream_op.has_host_input_)
    std::memcpy(stream_op.lease_.data + stream_op.copied_input_at(), input.data, input.bytes);
}

void DeviceStreamOp::copy_out(DeviceStreamOp& stream_op) noexcept {
  if (!stream_op.is_off_.load(std::memory_order_acquire)) {
    for (const MemoryRange& range : stream_op.placement_.writes())
      std::memcpy(range.data, stream_op.placement_.find(range.data), range.bytes);
    if (stream_op.lease_.packing) apart_on_host(*stream_op.lease_.packing);
  }
  if (!stream_op.is_captured()) stream_op.marks_.passed.store(true, std::memory_order_release);
}

}  // namespace ccoll::device

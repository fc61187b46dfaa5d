// SPDX-License-Identifier: Apache-2.0
#pragma once

/// torch.distributed's calls of a process group, made by ccoll's operations.

#include <torch/headeronly/version.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "group.hpp"

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14
#define CCOLL_SINCE_2_14 override
#else
#define CCOLL_SINCE_2_14
#endif

namespace ccoll::plugin {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

inline constexpr const char* kName = "ccoll";

/// Newer names of torch (all_gather_single) end in the older ones (_allgather_base), which every
/// version has.
class Backend final : public c10d::Backend {
 public:
  explicit Backend(std::shared_ptr<Group> group);
  ~Backend() override;

  Group& group() { return *group_; }

  const std::string getBackendName() const override { return kName; }
  /// torch forgets a batch in which a call raised: every later collective of the group would be
  /// left undone in silence. So it makes calls one by one, which costs nothing here.
  bool supportsCoalescing() const override { return false; }
  bool supportsSplitting() const override { return true; }
  bool supportsShrinking() const override { return true; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  c10::intrusive_ptr<c10d::Backend> split(const StorePointer& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<std::int64_t>& excluded, int flags,
                                           const c10::intrusive_ptr<Options>& options) override;

#ifdef C10D_BACKEND_HAS_WINDOW
  c10::intrusive_ptr<c10d::Window> new_window(const std::optional<Tensor>& tensor) override;
#endif
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  WorkPointer reconfigure(const c10d::ReconfigureOptions& options) override;
#endif

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(Tensor& output, Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(Tensor& output, Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer gather_into_tensor(Tensor& output, Tensor& input,
                                 const c10d::GatherOptions& options) CCOLL_SINCE_2_14;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer alltoall_base(Tensor& output, Tensor& input, std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  void startCoalescing() override;
  WorkPointer endCoalescing() override;

  void setGroupUid(const std::string& name) override;
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return group_->sequence(); }
  void enableCollectivesTiming() override { group_->enable_timing(); }
  void setTimeout(std::chrono::milliseconds timeout) override { group_->set_timeout(timeout); }
  c10d::ErrorType getError() override;
  void eagerConnectSingleDevice(at::Device device) override { group_->connect(device); }
  void shutdown() override { group_->close(); }
  void abort() override { group_->abort("the process group was aborted"); }

 private:
  /// Calls between startCoalescing and endCoalescing of one thread. They begin at once: a batch
  /// that torch does not end, as a call in it has raised, then keeps nothing back.
  struct Batch {
    std::thread::id thread = std::this_thread::get_id();
    std::vector<c10::intrusive_ptr<Work>> works = {};
  };

  template <typename Call>
  c10::intrusive_ptr<Work> begin(c10d::OpType type, Mode mode, Arguments arguments, Call&& call,
                                 int lane = Streams::kCollectives);
  WorkPointer gather_lists(const std::vector<const Tensors*>& outputs, const Tensors& inputs,
                           const c10d::AllgatherOptions& options);
  WorkPointer message(c10d::OpType type, Arguments arguments, const Tensors& tensors, int peer,
                      int tag);
  /// Once, in a group that shrink_group has made.
  void mend_name();
  bool is_root(std::int64_t root) const { return root == rank_; }

  const std::shared_ptr<Group> group_;
  std::atomic<int> shrinks_{0};
  std::atomic<bool> is_misnamed_{false};
  std::atomic<bool> has_batch_{false};
  std::mutex batch_mutex_;
  std::unique_ptr<Batch> batch_;
};

/// Rank 0 waits for all, until the limit has passed, and tells everybody how it ended. It goes
/// through the store, and so works in a broken group.
void monitored_barrier(Group& group, std::chrono::milliseconds limit, bool wait_all_ranks);

/// Refuses what all_reduce_sparse cannot do.
void check_sparse(const char* call, const Tensor& tensor, const c10d::ReduceOp& op);
/// Sums a COO tensor in place: the entries of all ranks are gathered everywhere, and added up
/// there.
void all_reduce_sparse(Communicator& on, const Tensor& tensor, const CallOptions& options);

}  // namespace ccoll::plugin

// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include "backend.hpp"

namespace ccoll::plugin {
namespace {

constexpr const char* kTitle = "ccoll:all_reduce";

/// Everybody's rows of a tensor, of which rank r has entries[r], one after another.
Tensor gather_rows(Communicator& on, const Tensor& own, const std::vector<std::int64_t>& entries,
                   const CallOptions& options) {
  std::int64_t all = 0;
  for (const auto each : entries) all += each;
  auto shape = own.sizes().vec();
  shape[0] = all;
  auto gathered = at::empty(shape, own.options());
  std::vector<Tensor> blocks;
  all = 0;
  for (const auto each : entries) {
    blocks.push_back(gathered.narrow(0, all, each));
    all += each;
  }
  Arguments arguments(kTitle);
  on.all_gather_v(arguments.read(own), arguments.write(blocks), options);
  return gathered;
}

}  // namespace

void check_sparse(const char* call, const Tensor& tensor, const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::SUM)
    refuse(call, "sparse tensors are summed; there is no other reduction of them");
  if (tensor.layout() != at::kSparse)
    refuse(call, "a sparse tensor of layout " + c10::str(tensor.layout()) +
                     ": expected torch.sparse_coo");
}

void all_reduce_sparse(Communicator& on, const Tensor& tensor, const CallOptions& options) {
  const at::NoGradGuard guard;
  const auto own = tensor.coalesce();
  const auto indices = own.indices().t().contiguous();
  const auto values = own.values().contiguous();
  const std::int64_t mine = indices.size(0);
  std::vector<std::int64_t> entries(static_cast<std::size_t>(on.size()));
  on.all_gather(std::span(&mine, 1), entries, options);
  const auto all_indices = gather_rows(on, indices, entries, options);
  const auto all_values = gather_rows(on, values, entries, options);
  tensor.copy_(at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes()).coalesce());
}

}  // namespace ccoll::plugin

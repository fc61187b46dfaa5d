// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <array>

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

/// FNV-1a, as _sparse.py has it: ranks of both ways compare them.
std::int64_t shape_of(const Tensor& tensor) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::int64_t number) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x100000001b3;
  };
  add(tensor.sparse_dim());
  for (const auto size : tensor.sizes()) add(size);
  return static_cast<std::int64_t>(hash >> 1);
}

}  // namespace

void check_sparse(const char* call, const Tensor& tensor, const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::SUM)
    refuse(call, "sparse tensors are summed; there is no other reduction of them");
  if (tensor.layout() != at::kSparse)
    refuse(call, "a sparse tensor of layout " + c10::str(tensor.layout()) +
                     ": expected torch.sparse_coo");
  if (!tensor.is_cpu())
    refuse(call, "a sparse tensor on " + tensor.device().str() + ": expected one on the CPU");
  if (tensor.scalar_type() == at::kBool)
    refuse(call, "sparse tensors of bool have no sum: give ones of integers");
}

void all_reduce_sparse(Communicator& on, const Tensor& tensor, const CallOptions& options) {
  const at::NoGradGuard guard;
  const auto own = tensor.coalesce();
  const auto indices = own.indices().t().contiguous();
  const auto values = own.values().contiguous();
  const std::array<std::int64_t, 2> mine{indices.size(0), shape_of(own)};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(on.size()));
  on.all_gather(std::span(mine), all, options);
  std::vector<std::int64_t> entries;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    if (all[i + 1] != all[1])
      refuse(Arguments(kTitle).call(),
             "sparse tensors of one shape and as many sparse dimensions are expected: those of "
             "ranks 0 and " +
                 std::to_string(i / 2) + " differ; this rank's is " + as_tuple(own.sizes()) +
                 " with " + std::to_string(own.sparse_dim()));
    entries.push_back(all[i]);
  }
  const auto all_indices = gather_rows(on, indices, entries, options);
  const auto all_values = gather_rows(on, values, entries, options);
  tensor.copy_(at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes()).coalesce());
}

}  // namespace ccoll::plugin

// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include "backend.hpp"

namespace ccoll::plugin {
namespace {

constexpr const char* kTitle = "ccoll:all_reduce";

template <typename Call>
void run(Group& group, Arguments arguments, Call&& call) {
  group.begin(c10d::OpType::_ALLREDUCE_SPARSE, std::move(arguments), call, false)->wait(kNoTimeout);
}

/// Everybody's rows of a tensor, of which rank r has entries[r], one after another.
Tensor gather_rows(Group& group, const Tensor& own, const std::vector<std::int64_t>& entries,
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
  const auto read = arguments.read(own);
  const auto write = arguments.write(blocks);
  run(group, std::move(arguments), [&](Communicator& on, Operations& begun) {
    begun.push_back(on.all_gather_v_async(read, write, options));
  });
  return gathered;
}

}  // namespace

void all_reduce_sparse(Group& group, const Tensor& tensor, const c10d::AllreduceOptions& options) {
  Arguments arguments(kTitle);
  if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
    refuse(arguments.call(), "sparse tensors are summed; there is no other reduction of them");
  if (tensor.layout() != at::kSparse)
    refuse(arguments.call(), "a sparse tensor of layout " + c10::str(tensor.layout()) +
                                 ": expected torch.sparse_coo");
  const at::NoGradGuard guard;
  const CallOptions limit{.timeout = group.limit(options.timeout)};
  const auto own = tensor.coalesce();
  const auto indices = own.indices().t().contiguous();
  const auto values = own.values().contiguous();
  auto counts = at::empty({group.membership().size}, at::kLong);
  const auto read = arguments.read(at::full({1}, indices.size(0), at::kLong));
  const auto write = arguments.write(counts);
  run(group, std::move(arguments), [&](Communicator& on, Operations& begun) {
    begun.push_back(on.all_gather_async(read, write, limit));
  });
  const auto* const first = counts.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> entries(first, first + counts.numel());
  const auto all_indices = gather_rows(group, indices, entries, limit);
  const auto all_values = gather_rows(group, values, entries, limit);
  tensor.copy_(at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes()).coalesce());
}

}  // namespace ccoll::plugin

// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"

#include <ATen/ATen.h>

#include <algorithm>

namespace ccoll::plugin {
namespace {

using c10d::OpType;

std::string times(int size, const char* whose) { return std::to_string(size) + " times " + whose; }

}  // namespace

Backend::Backend(std::shared_ptr<Group> group)
    : c10d::Backend(group->membership().rank, group->membership().size), group_(std::move(group)) {}

Backend::~Backend() { group_->close(); }

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions() {
  auto options = c10::make_intrusive<Options>(kName, group_->timeout());
  options->group_name = group_->membership().name;
  return options;
}

#ifdef C10D_BACKEND_HAS_WINDOW
c10::intrusive_ptr<c10d::Window> Backend::new_window(const std::optional<Tensor>&) {
  C10_THROW_ERROR(NotImplementedError,
                  "ccoll: new_window: there are no windows with put and signal; use isend and "
                  "irecv, or batch_isend_irecv");
}
#endif

#ifdef C10D_BACKEND_HAS_RECONFIGURE
namespace {
[[noreturn]] void refuse_other_ranks(const char* call) {
  C10_THROW_ERROR(NotImplementedError,
                  std::string("ccoll: ") + call +
                      ": a group cannot be given other ranks; shrink_group makes one of the ranks "
                      "that are left, and destroy_process_group with init_process_group makes one "
                      "of any ranks");
}
}  // namespace

c10d::ReconfigureHandle Backend::get_reconfigure_handle() const {
  refuse_other_ranks("get_reconfigure_handle");
}

WorkPointer Backend::reconfigure(const c10d::ReconfigureOptions&) {
  refuse_other_ranks("reconfigure");
}
#endif

void Backend::setGroupUid(const std::string& name) {
  c10d::Backend::setGroupUid(name);
  group_->rename(name);
}

c10d::ErrorType Backend::getError() {
  const auto kind = group_->error_kind();
  if (!kind) return c10d::ErrorType::SUCCESS;
  if (*kind == ErrorKind::timed_out) return c10d::ErrorType::TIMEOUT;
  return *kind == ErrorKind::peer_lost ? c10d::ErrorType::REMOTE_ERROR
                                       : c10d::ErrorType::COMM_ERROR;
}

template <typename Call>
c10::intrusive_ptr<Work> Backend::begin(OpType type, Mode mode, Arguments arguments, Call&& call,
                                        int lane) {
  mend_name();
  auto work = group_->begin(type, mode, std::move(arguments), std::forward<Call>(call), lane);
  if (has_batch_) {
    const std::lock_guard lock(batch_mutex_);
    if (batch_ && batch_->thread == std::this_thread::get_id()) batch_->works.push_back(work);
  }
  return work;
}

// Reductions

WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  Arguments arguments("ccoll:all_reduce");
  const auto& tensor = only(arguments.call(), tensors);
  if (tensor.is_sparse()) return allreduce_sparse(tensors, options);
  const auto block = arguments.both(tensor);
  const auto op = reduction_of(arguments.call(), options.reduceOp, tensor.scalar_type());
  return begin(OpType::ALLREDUCE, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
    on.either(
        on.limited(options.timeout),
        [&](const CallOptions& with) { on->all_reduce(block, op, with); },
        [&](const CallOptions& with) { return on->all_reduce_async(block, op, with); });
  });
}

WorkPointer Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  Arguments arguments("ccoll:all_reduce");
  const auto& tensor = only(arguments.call(), tensors);
  check_sparse(arguments.call(), tensor, options.reduceOp);
  arguments.add_output(tensor);
  return begin(OpType::_ALLREDUCE_SPARSE, Mode::blocking, std::move(arguments), [&](Calls& on) {
    all_reduce_sparse(on.communicator(), tensor, on.limited(options.timeout));
  });
}

WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& options) {
  Arguments arguments("ccoll:all_reduce_coalesced");
  struct OfType {
    at::ScalarType type;
    Reduction op;
    std::vector<BufferPair> pairs;
  };
  std::vector<OfType> types;  // one call for each
  for (const auto& tensor : tensors) {
    const auto type = tensor.scalar_type();
    auto found = std::find_if(types.begin(), types.end(),
                              [type](const OfType& each) { return each.type == type; });
    if (found == types.end()) {
      const auto op = reduction_of(arguments.call(), options.reduceOp, type);
      found = types.insert(found, OfType{type, op, {}});
    }
    found->pairs.emplace_back(arguments.both(tensor));
  }
  return begin(OpType::ALLREDUCE_COALESCED, mode_of(options.asyncOp), std::move(arguments),
               [&](Calls& on) {
                 for (const auto& each : types)
                   on.either(
                       on.limited(options.timeout),
                       [&](const CallOptions& with) { on->all_reduce(each.pairs, each.op, with); },
                       [&](const CallOptions& with) {
                         return on->all_reduce_async(each.pairs, each.op, with);
                       });
               });
}

WorkPointer Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Arguments arguments("ccoll:reduce");
  const auto& tensor = only(arguments.call(), tensors);
  const auto op = reduction_of(arguments.call(), options.reduceOp, tensor.scalar_type());
  Block output;
  ConstBlock input;
  if (is_root(options.rootRank)) {
    input = output = arguments.both(tensor);
  } else {
    input = arguments.read(tensor);
    arguments.add_output(tensor);
  }
  return begin(OpType::REDUCE, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
    on.either(
        on.limited(options.timeout),
        [&](const CallOptions& with) {
          on->reduce(input, output, op, static_cast<int>(options.rootRank), with);
        },
        [&](const CallOptions& with) {
          return on->reduce_async(input, output, op, static_cast<int>(options.rootRank), with);
        });
  });
}

WorkPointer Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& options) {
  Arguments arguments("ccoll:reduce_scatter");
  const auto* const call = arguments.call();
  const auto& output = only(call, outputs);
  const auto& blocks = only(call, inputs);
  check_one_for_each(call, blocks.size(), size_);
  check_same_type(call, output, blocks);
  const auto write = arguments.write(output);
  const auto read = arguments.read(blocks);
  const auto op = reduction_of(call, options.reduceOp, output.scalar_type());
  return begin(OpType::REDUCE_SCATTER, mode_of(options.asyncOp), std::move(arguments),
               [&](Calls& on) {
                 on.add(on->reduce_scatter_v_async(read, write, op, on.limited(options.timeout)));
               });
}

WorkPointer Backend::_reduce_scatter_base(Tensor& output, Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  Arguments arguments("ccoll:reduce_scatter_single");
  const auto* const call = arguments.call();
  struct Part {
    ConstBlock read;
    Block write;
    Reduction op;
  };
  c10::SmallVector<Part, 1> parts;
  check_pairs(call, outputs, inputs);
  for (std::size_t i = 0; i < outputs.size(); i++) {
    check_size(call, inputs[i], outputs[i].numel() * size_, times(size_, "the output's"));
    parts.push_back({arguments.read(inputs[i]), arguments.write(outputs[i]),
                     reduction_of(call, options.reduceOp, outputs[i].scalar_type())});
  }
  return begin(OpType::_REDUCE_SCATTER_BASE, mode_of(options.asyncOp), std::move(arguments),
               [&](Calls& on) {
                 for (const auto& each : parts)
                   on.either(
                       on.limited(options.timeout),
                       [&](const CallOptions& with) {
                         on->reduce_scatter(each.read, each.write, each.op, with);
                       },
                       [&](const CallOptions& with) {
                         return on->reduce_scatter_async(each.read, each.write, each.op, with);
                       });
               });
}

// One to all, all to one, all to all

WorkPointer Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Arguments arguments("ccoll:broadcast");
  const auto block = arguments.both(only(arguments.call(), tensors));
  return begin(OpType::BROADCAST, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
    on.either(
        on.limited(options.timeout),
        [&](const CallOptions& with) {
          on->broadcast(block, static_cast<int>(options.rootRank), with);
        },
        [&](const CallOptions& with) {
          return on->broadcast_async(block, static_cast<int>(options.rootRank), with);
        });
  });
}

WorkPointer Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& options) {
  only("all_gather", inputs);
  return gather_lists({&only("all_gather", outputs)}, inputs, options);
}

WorkPointer Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  // outputs[r][i] is rank r's inputs[i].
  check_one_for_each("all_gather_coalesced", outputs.size(), size_);
  std::vector<Tensors> lists(inputs.size());
  for (const auto& of_rank : outputs) {
    if (of_rank.size() != inputs.size())
      refuse("all_gather_coalesced", std::to_string(inputs.size()) +
                                         " outputs are expected for each rank, as many as inputs, "
                                         "not " +
                                         std::to_string(of_rank.size()));
    for (std::size_t i = 0; i < inputs.size(); i++) lists[i].push_back(of_rank[i]);
  }
  std::vector<const Tensors*> pointers;
  for (const auto& each : lists) pointers.push_back(&each);
  return gather_lists(pointers, inputs, options);
}

WorkPointer Backend::gather_lists(const std::vector<const Tensors*>& outputs, const Tensors& inputs,
                                  const c10d::AllgatherOptions& options) {
  Arguments arguments("ccoll:all_gather");
  std::vector<std::pair<ConstBlock, std::vector<Block>>> parts;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    check_one_for_each(arguments.call(), outputs[i]->size(), size_);
    check_same_type(arguments.call(), inputs[i], *outputs[i]);
    parts.emplace_back(arguments.read(inputs[i]), arguments.write(*outputs[i]));
  }
  return begin(OpType::ALLGATHER, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
    for (const auto& [read, write] : parts)
      on.add(on->all_gather_v_async(read, write, on.limited(options.timeout)));
  });
}

WorkPointer Backend::_allgather_base(Tensor& output, Tensor& input,
                                     const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPointer Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  Arguments arguments("ccoll:all_gather_single");
  const auto* const call = arguments.call();
  c10::SmallVector<std::pair<ConstBlock, Block>, 1> parts;
  check_pairs(call, outputs, inputs);
  for (std::size_t i = 0; i < outputs.size(); i++) {
    check_size(call, outputs[i], inputs[i].numel() * size_, times(size_, "the input's"));
    parts.emplace_back(arguments.read(inputs[i]), arguments.write(outputs[i]));
  }
  return begin(
      OpType::_ALLGATHER_BASE, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
        for (const auto& [read, write] : parts)
          on.either(
              on.limited(options.timeout),
              [&](const CallOptions& with) { on->all_gather(read, write, with); },
              [&](const CallOptions& with) { return on->all_gather_async(read, write, with); });
      });
}

WorkPointer Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                            const c10d::GatherOptions& options) {
  Arguments arguments("ccoll:gather");
  const auto* const call = arguments.call();
  const auto& input = only(call, inputs);
  const auto read = arguments.read(input);
  std::vector<Block> write;
  if (is_root(options.rootRank)) {
    const auto& list = only(call, outputs);
    check_one_for_each(call, list.size(), size_);
    check_same_type(call, input, list);
    write = arguments.write(list);
  }
  return begin(OpType::GATHER, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
    on.add(on->gather_v_async(read, write, static_cast<int>(options.rootRank),
                              on.limited(options.timeout)));
  });
}

WorkPointer Backend::gather_into_tensor(Tensor& output, Tensor& input,
                                        const c10d::GatherOptions& options) {
  Arguments arguments("ccoll:gather_single");
  const auto* const call = arguments.call();
  const auto read = arguments.read(input);
  Block write;
  if (is_root(options.rootRank)) {
    check_same_type(call, output, input);
    check_size(call, output, input.numel() * size_, times(size_, "the input's"));
    write = arguments.write(output);
  }
  return begin(OpType::GATHER, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
    on.either(
        on.limited(options.timeout),
        [&](const CallOptions& with) {
          on->gather(read, write, static_cast<int>(options.rootRank), with);
        },
        [&](const CallOptions& with) {
          return on->gather_async(read, write, static_cast<int>(options.rootRank), with);
        });
  });
}

WorkPointer Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ScatterOptions& options) {
  Arguments arguments("ccoll:scatter");
  const auto* const call = arguments.call();
  const auto& output = only(call, outputs);
  std::vector<ConstBlock> read;
  if (is_root(options.rootRank)) {
    const auto& list = only(call, inputs);
    check_one_for_each(call, list.size(), size_);
    check_same_type(call, output, list);
    read = arguments.read(list);
  }
  const auto write = arguments.write(output);
  return begin(OpType::SCATTER, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
    on.add(on->scatter_v_async(read, write, static_cast<int>(options.rootRank),
                               on.limited(options.timeout)));
  });
}

WorkPointer Backend::alltoall_base(Tensor& output, Tensor& input,
                                   std::vector<std::int64_t>& output_splits,
                                   std::vector<std::int64_t>& input_splits,
                                   const c10d::AllToAllOptions& options) {
  Arguments arguments("ccoll:all_to_all_single");
  const auto* const call = arguments.call();
  if (!output.is_contiguous() || !input.is_contiguous())
    refuse(call, "Tensors must be contiguous: input strides " + as_tuple(input.strides()) +
                     " of shape " + as_tuple(input.sizes()) + ", output " +
                     as_tuple(output.strides()) + " of " + as_tuple(output.sizes()));
  check_same_type(call, output, input);
  const auto counts = counts_of(call, input, input_splits, size_);
  const auto output_counts = counts_of(call, output, output_splits, size_);
  const auto write = arguments.write(output);
  const auto read = arguments.read(input);
  if (input_splits.empty() && output_splits.empty())
    check_size(call, output, input.numel(), "as many as the input's");
  // Also where all blocks are equal: other ranks may have given splits.
  const auto read_blocks = cut(read, input, counts);
  const auto write_blocks = cut(write, output, output_counts);
  return begin(
      OpType::ALLTOALL_BASE, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
        on.either(
            on.limited(options.timeout),
            [&](const CallOptions& with) { on->all_to_all_v(read_blocks, write_blocks, with); },
            [&](const CallOptions& with) {
              return on->all_to_all_v_async(read_blocks, write_blocks, with);
            });
      });
}

WorkPointer Backend::alltoall(Tensors& outputs, Tensors& inputs,
                              const c10d::AllToAllOptions& options) {
  Arguments arguments("ccoll:all_to_all");
  const auto* const call = arguments.call();
  check_one_for_each(call, outputs.size(), size_);
  check_one_for_each(call, inputs.size(), size_);
  check_same_type(call, outputs.front(), outputs);
  check_same_type(call, outputs.front(), inputs);
  const auto write = arguments.write(outputs);
  const auto read = arguments.read(inputs);
  return begin(OpType::ALLTOALL, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
    on.add(on->all_to_all_v_async(read, write, on.limited(options.timeout)));
  });
}

WorkPointer Backend::barrier(const c10d::BarrierOptions& options) {
  Arguments arguments("ccoll:barrier");
  if (options.device) arguments.place_on(*options.device);
  // torch names the CPU where a group has both devices; the barrier stands for both.
  if (arguments.device().is_cpu()) group_->drain();
  return begin(OpType::BARRIER, mode_of(options.asyncOp), std::move(arguments), [&](Calls& on) {
    on.either(
        on.limited(options.timeout), [&](const CallOptions& with) { on->barrier(with); },
        [&](const CallOptions& with) { return on->barrier_async(with); });
  });
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const bool is_unset = options.timeout == c10d::kUnsetTimeout;
  // 0 is no default here.
  monitored_barrier(*group_, is_unset ? group_->timeout() : options.timeout, wait_all_ranks);
}

// Messages

WorkPointer Backend::send(Tensors& tensors, int to, int tag) {
  return message(OpType::SEND, Arguments("ccoll:send"), tensors, to, tag);
}

WorkPointer Backend::recv(Tensors& tensors, int from, int tag) {
  return message(OpType::RECV, Arguments("ccoll:recv"), tensors, from, tag);
}

WorkPointer Backend::recvAnysource(Tensors& tensors, int tag) {
  return message(OpType::RECVANYSOURCE, Arguments("ccoll:recv"), tensors, kAnyRank, tag);
}

WorkPointer Backend::message(OpType type, Arguments arguments, const Tensors& tensors, int peer,
                             int tag) {
  const auto& tensor = only(arguments.call(), tensors);
  if (type == OpType::SEND) {
    const auto read = arguments.read(tensor);
    arguments.add_output(tensor);
    return begin(
        type, Mode::message, std::move(arguments),
        [&](Calls& on) {
          on.add(on->send_async(read, peer, tag, on.limited(c10d::kUnsetTimeout)));
        },
        Streams::sends_to(peer));
  }
  const auto write = arguments.write(tensor);
  return begin(
      type, Mode::message, std::move(arguments),
      [&](Calls& on) { on.add(on->recv_async(write, peer, tag, on.limited(c10d::kUnsetTimeout))); },
      Streams::receives_from(peer));
}

// torch forgets a group whose startCoalescing raises: every later call would be left undone in
// silence.
void Backend::startCoalescing() {
  const std::lock_guard lock(batch_mutex_);
  batch_ = std::make_unique<Batch>();
  has_batch_ = true;
}

WorkPointer Backend::endCoalescing() {
  std::unique_ptr<Batch> batch;
  {
    const std::lock_guard lock(batch_mutex_);
    batch.swap(batch_);
    has_batch_ = false;
  }
  TORCH_CHECK(batch, "ccoll: end_coalescing: there is no batch");
  if (batch->works.size() == 1) return batch->works.front();
  const Origin origin{rank_, OpType::COALESCED, nullptr, group_->sequence(), {}};
  return Work::of_all(origin, std::move(batch->works), group_->keeper());
}

}  // namespace ccoll::plugin

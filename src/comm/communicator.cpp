// SPDX-License-Identifier: Apache-2.0
// The public face of collectives: arguments checked, operations begun and waited for, failures
// thrown.
#include "ccoll/communicator.hpp"

#include "comm/arguments.hpp"
#include "comm/call_group.hpp"
#include "comm/implementation.hpp"
#include "comm/operation.hpp"

namespace ccoll {
namespace {

using Implementation = Communicator::Implementation;

Result<Work> begin(const std::shared_ptr<Implementation>& communicator, Call call,
                   const CallOptions& options) {
  CCOLL_TRY(check_arguments(call, communicator->rank(), communicator->size()));
  auto algorithm = algorithm_named(options.algorithm, call.kind);
  if (!algorithm) return tl::unexpected(algorithm.error());
  call.algorithm = *algorithm;
  CCOLL_TRY(check_order(call, communicator->size()));
  call.timeout = options.timeout;
  call.label = options.label;
  // First: what is thrown after the operation has begun would free the buffers that it has.
  const auto state = std::make_shared<Work::State>();
  state->communicator = communicator;
  state->operations.resize(1);
  auto operation = communicator->begin_as_owner(call);
  if (!operation) return tl::unexpected(operation.error());
  state->operations[0] = std::move(*operation);
  communicator->progress_as_owner();
  return Work(state);
}

// A call holds its communicator by a pointer of its own: another thread may close it meanwhile.

Work start(std::shared_ptr<Implementation> communicator, const Call& call,
           const CallOptions& options) {
  Implementation::Owner owner(*communicator);
  return communicator->begun_or_throw(begin(communicator, call, options), options);
}

/// Begins and waits without letting go of the owner flag in between; in a group, only begins.
void run(std::shared_ptr<Implementation> communicator, const Call& call,
         const CallOptions& options) {
  if (call_group::is_open()) return call_group::add(start(communicator, call, options));
  Implementation::Owner owner(*communicator);
  auto work = communicator->alone_as_owner(call).and_then(
      [&] { return begin(communicator, call, options); });
  const auto begun = communicator->begun_or_throw(std::move(work), options);
  value_or_throw(communicator->finish_as_owner(begun.state()));
}

struct Buffers {
  const void* input;
  void* output;
  std::size_t count;
  DataType type;
};

Call call(Kind kind, const Buffers& buffers, const Reduction& op = ReduceOp::sum, int root = 0) {
  Call made;
  made.kind = kind;
  made.input = buffers.input;
  made.output = buffers.output;
  made.count = buffers.count;
  made.type = buffers.type;
  made.op = op;
  made.root = static_cast<Rank>(root);
  return made;
}

/// An idempotent all_reduce of one byte, which the communicator has.
Call barrier_call() {
  return call(Kind::barrier, {nullptr, nullptr, 1, DataType::uint8}, ReduceOp::max);
}

}  // namespace

void Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type,
                              const Reduction& op, const CallOptions& options) {
  run(implementation_, call(Kind::all_reduce, {input, output, count, type}, op), options);
}

Work Communicator::all_reduce_async(const void* input, void* output, std::size_t count,
                                    DataType type, const Reduction& op,
                                    const CallOptions& options) {
  return start(implementation_, call(Kind::all_reduce, {input, output, count, type}, op), options);
}

void Communicator::reduce(const void* input, void* output, std::size_t count, DataType type,
                          const Reduction& op, int root, const CallOptions& options) {
  run(implementation_, call(Kind::reduce, {input, output, count, type}, op, root), options);
}

Work Communicator::reduce_async(const void* input, void* output, std::size_t count, DataType type,
                                const Reduction& op, int root, const CallOptions& options) {
  return start(implementation_, call(Kind::reduce, {input, output, count, type}, op, root),
               options);
}

void Communicator::broadcast(const void* input, void* output, std::size_t count, DataType type,
                             int root, const CallOptions& options) {
  run(implementation_, call(Kind::broadcast, {input, output, count, type}, ReduceOp::sum, root),
      options);
}

Work Communicator::broadcast_async(const void* input, void* output, std::size_t count,
                                   DataType type, int root, const CallOptions& options) {
  return start(implementation_,
               call(Kind::broadcast, {input, output, count, type}, ReduceOp::sum, root), options);
}

void Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type,
                              const CallOptions& options) {
  run(implementation_, call(Kind::all_gather, {input, output, count, type}), options);
}

Work Communicator::all_gather_async(const void* input, void* output, std::size_t count,
                                    DataType type, const CallOptions& options) {
  return start(implementation_, call(Kind::all_gather, {input, output, count, type}), options);
}

void Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType type,
                                  const Reduction& op, const CallOptions& options) {
  run(implementation_, call(Kind::reduce_scatter, {input, output, count, type}, op), options);
}

Work Communicator::reduce_scatter_async(const void* input, void* output, std::size_t count,
                                        DataType type, const Reduction& op,
                                        const CallOptions& options) {
  return start(implementation_, call(Kind::reduce_scatter, {input, output, count, type}, op),
               options);
}

void Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType type,
                              const CallOptions& options) {
  run(implementation_, call(Kind::all_to_all, {input, output, count, type}), options);
}

Work Communicator::all_to_all_async(const void* input, void* output, std::size_t count,
                                    DataType type, const CallOptions& options) {
  return start(implementation_, call(Kind::all_to_all, {input, output, count, type}), options);
}

void Communicator::gather(const void* input, void* output, std::size_t count, DataType type,
                          int root, const CallOptions& options) {
  run(implementation_, call(Kind::gather, {input, output, count, type}, ReduceOp::sum, root),
      options);
}

Work Communicator::gather_async(const void* input, void* output, std::size_t count, DataType type,
                                int root, const CallOptions& options) {
  return start(implementation_,
               call(Kind::gather, {input, output, count, type}, ReduceOp::sum, root), options);
}

void Communicator::scatter(const void* input, void* output, std::size_t count, DataType type,
                           int root, const CallOptions& options) {
  run(implementation_, call(Kind::scatter, {input, output, count, type}, ReduceOp::sum, root),
      options);
}

Work Communicator::scatter_async(const void* input, void* output, std::size_t count, DataType type,
                                 int root, const CallOptions& options) {
  return start(implementation_,
               call(Kind::scatter, {input, output, count, type}, ReduceOp::sum, root), options);
}

void Communicator::barrier(const CallOptions& options) {
  run(implementation_, barrier_call(), options);
}

Work Communicator::barrier_async(const CallOptions& options) {
  return start(implementation_, barrier_call(), options);
}

std::string Communicator::transport_to(int peer) const {
  if (peer < 0 || peer >= size())
    raise({ErrorKind::invalid_argument,
           fmt::format("transport_to: rank {} is not one of {} ranks", peer, size()),
           std::nullopt});
  return value_or_throw(implementation_->transport_to(static_cast<Rank>(peer)));
}

std::string Communicator::algorithm_for(std::string_view operation, std::size_t count,
                                        DataType type, const CallOptions& options) const {
  const auto kind = value_or_throw(kind_named(operation));
  const auto asked = value_or_throw(algorithm_named(options.algorithm, kind));
  const auto problem = implementation_->problem_of(kind, count, 0);
  const auto chosen =
      choose(problem, size_of(type), implementation_->costs(), implementation_->forced(asked));
  return std::string(to_string(chosen.choice.algorithm));
}

std::string Communicator::explain(std::string_view operation, std::size_t count, DataType type,
                                  const CallOptions& options) const {
  const auto kind = value_or_throw(kind_named(operation));
  const auto asked = value_or_throw(algorithm_named(options.algorithm, kind));
  return ccoll::explain(implementation_->problem_of(kind, count, 0), type, implementation_->costs(),
                        implementation_->forced(asked));
}

void Communicator::require_equal(std::string_view call, std::size_t in, std::size_t out) const {
  if (in != out)
    raise(implementation_->named(
        {ErrorKind::invalid_argument,
         fmt::format("{}: the input has {} elements, the output {}; they must be equal", call, in,
                     out),
         std::nullopt}));
}

void Communicator::require_blocks(std::string_view call, std::size_t whole,
                                  std::size_t block) const {
  const auto ranks = static_cast<std::size_t>(size());
  if (whole == block * ranks) return;
  raise(implementation_->named({ErrorKind::invalid_argument,
                                fmt::format("{}: {} elements are not {} ranks times {}; use {}_v",
                                            call, whole, ranks, block, call),
                                std::nullopt}));
}

std::size_t Communicator::divided(std::string_view call, std::size_t whole) const {
  const auto ranks = static_cast<std::size_t>(size());
  if (whole % ranks != 0)
    raise(implementation_->named({ErrorKind::invalid_argument,
                                  fmt::format("{}: {} elements do not divide by {} ranks; use {}_v",
                                              call, whole, ranks, call),
                                  std::nullopt}));
  return whole / ranks;
}

}  // namespace ccoll

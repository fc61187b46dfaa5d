// SPDX-License-Identifier: Apache-2.0
// The public face: arguments checked, operations begun and waited for, failures thrown.
#include "ccoll/communicator.hpp"

#include <array>
#include <span>

#include "comm/arguments.hpp"
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
  auto operation = communicator->begin_as_owner(call);
  if (!operation) return tl::unexpected(operation.error());
  communicator->progress_as_owner();
  return Work(std::make_shared<Work::State>(Work::State{communicator, {std::move(*operation)}}));
}

template <std::size_t N>
Result<Work> begin(const std::shared_ptr<Implementation>& communicator,
                   std::array<Message, N> messages, const CallOptions& options) {
  for (auto& message : messages) message.timeout = options.timeout;
  CCOLL_TRY(check_arguments(messages, communicator->size()));
  auto operations = communicator->begin_as_owner(messages);
  if (!operations) return tl::unexpected(operations.error());
  communicator->progress_as_owner();
  return Work(std::make_shared<Work::State>(Work::State{communicator, std::move(*operations)}));
}

template <typename Asked>
Work start(const std::shared_ptr<Implementation>& communicator, const Asked& asked,
           const CallOptions& options) {
  Implementation::Owner owner(*communicator);
  return value_or_throw(begin(communicator, asked, options));
}

/// Begins and waits without letting go of the owner flag in between.
template <typename Asked>
void run(const std::shared_ptr<Implementation>& communicator, const Asked& asked,
         const CallOptions& options) {
  Implementation::Owner owner(*communicator);
  const auto work = value_or_throw(begin(communicator, asked, options));
  communicator->wait_as_owner(work.state(), Clock::time_point::max());
  if (const auto* failure = work.state().failure()) raise(*failure);
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

Message message_to(const void* data, std::size_t count, DataType type, int to) {
  Message message;
  message.what = QueueKey::What::send;
  message.input = data;
  message.count = count;
  message.type = type;
  message.peer = static_cast<Rank>(to);
  return message;
}

Message message_from(void* data, std::size_t count, DataType type, int from) {
  Message message;
  message.what = QueueKey::What::recv;
  message.output = data;
  message.count = count;
  message.type = type;
  message.peer = static_cast<Rank>(from);
  return message;
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

void Communicator::send(const void* data, std::size_t count, DataType type, int to,
                        const CallOptions& options) {
  run(implementation_, std::array{message_to(data, count, type, to)}, options);
}

Work Communicator::send_async(const void* data, std::size_t count, DataType type, int to,
                              const CallOptions& options) {
  return start(implementation_, std::array{message_to(data, count, type, to)}, options);
}

void Communicator::recv(void* data, std::size_t count, DataType type, int from,
                        const CallOptions& options) {
  run(implementation_, std::array{message_from(data, count, type, from)}, options);
}

Work Communicator::recv_async(void* data, std::size_t count, DataType type, int from,
                              const CallOptions& options) {
  return start(implementation_, std::array{message_from(data, count, type, from)}, options);
}

void Communicator::send_recv(const void* data_out, std::size_t count_out, int to, void* data_in,
                             std::size_t count_in, int from, DataType type,
                             const CallOptions& options) {
  run(implementation_,
      std::array{message_to(data_out, count_out, type, to),
                 message_from(data_in, count_in, type, from)},
      options);
}

Work Communicator::send_recv_async(const void* data_out, std::size_t count_out, int to,
                                   void* data_in, std::size_t count_in, int from, DataType type,
                                   const CallOptions& options) {
  return start(implementation_,
               std::array{message_to(data_out, count_out, type, to),
                          message_from(data_in, count_in, type, from)},
               options);
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
    raise({ErrorKind::invalid_argument,
           fmt::format("{}: the input has {} elements, the output {}; they must be equal", call, in,
                       out),
           std::nullopt});
}

void Communicator::require_blocks(std::string_view call, std::size_t whole,
                                  std::size_t block) const {
  const auto ranks = static_cast<std::size_t>(size());
  if (whole == block * ranks) return;
  raise({ErrorKind::invalid_argument,
         fmt::format("{}: {} elements are not {} ranks times {}; use {}_v", call, whole, ranks,
                     block, call),
         std::nullopt});
}

std::size_t Communicator::divided(std::string_view call, std::size_t whole) const {
  const auto ranks = static_cast<std::size_t>(size());
  if (whole % ranks != 0)
    raise({ErrorKind::invalid_argument,
           fmt::format("{}: {} elements do not divide by {} ranks; use {}_v", call, whole, ranks,
                       call),
           std::nullopt});
  return whole / ranks;
}

}  // namespace ccoll

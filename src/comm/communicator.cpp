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

Result<Work> begin(const std::shared_ptr<Implementation>& communicator, const Call& call,
                   std::string_view algorithm) {
  CCOLL_TRY(check_arguments(call, communicator->rank(), communicator->size()));
  auto chosen = algorithm_named(algorithm, call.kind);
  if (!chosen) return tl::unexpected(chosen.error());
  auto asked = call;
  asked.algorithm = *chosen;
  auto operation = communicator->begin_as_owner(asked);
  if (!operation) return tl::unexpected(operation.error());
  communicator->progress_as_owner();
  return Work(std::make_shared<Work::State>(Work::State{communicator, {std::move(*operation)}}));
}

Result<Work> begin(const std::shared_ptr<Implementation>& communicator,
                   std::span<const Message> messages) {
  CCOLL_TRY(check_arguments(messages, communicator->size()));
  auto operations = communicator->begin_as_owner(messages);
  if (!operations) return tl::unexpected(operations.error());
  communicator->progress_as_owner();
  return Work(std::make_shared<Work::State>(Work::State{communicator, std::move(*operations)}));
}

/// Begins and, for a blocking call, waits without letting go of the owner flag in between.
template <typename... Arguments>
Work start(const std::shared_ptr<Implementation>& communicator, const Arguments&... arguments) {
  Implementation::Owner owner(*communicator);
  return value_or_throw(begin(communicator, arguments...));
}

template <typename... Arguments>
void run(const std::shared_ptr<Implementation>& communicator, const Arguments&... arguments) {
  Implementation::Owner owner(*communicator);
  const auto work = value_or_throw(begin(communicator, arguments...));
  communicator->wait_as_owner(work.state(), Clock::time_point::max());
  if (const auto* failure = work.state().failure()) raise(*failure);
}

Message message_to(const void* data, std::size_t count, DataType type, int to,
                   const CallOptions& options) {
  return {QueueKey::What::send, data, nullptr, count, type, static_cast<Rank>(to), options.timeout};
}

Message message_from(void* data, std::size_t count, DataType type, int from,
                     const CallOptions& options) {
  return {QueueKey::What::recv,    nullptr,        data, count, type,
          static_cast<Rank>(from), options.timeout};
}

}  // namespace

void Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type,
                              ReduceOp op, const CallOptions& options) {
  run(implementation_,
      Call{Kind::all_reduce, input, output, count, type, op, 0, {}, options.timeout},
      options.algorithm);
}

Work Communicator::all_reduce_async(const void* input, void* output, std::size_t count,
                                    DataType type, ReduceOp op, const CallOptions& options) {
  return start(implementation_,
               Call{Kind::all_reduce, input, output, count, type, op, 0, {}, options.timeout},
               options.algorithm);
}

void Communicator::reduce(const void* input, void* output, std::size_t count, DataType type,
                          ReduceOp op, int root, const CallOptions& options) {
  run(implementation_,
      Call{Kind::reduce,
           input,
           output,
           count,
           type,
           op,
           static_cast<Rank>(root),
           {},
           options.timeout},
      options.algorithm);
}

Work Communicator::reduce_async(const void* input, void* output, std::size_t count, DataType type,
                                ReduceOp op, int root, const CallOptions& options) {
  return start(implementation_,
               Call{Kind::reduce,
                    input,
                    output,
                    count,
                    type,
                    op,
                    static_cast<Rank>(root),
                    {},
                    options.timeout},
               options.algorithm);
}

void Communicator::broadcast(const void* input, void* output, std::size_t count, DataType type,
                             int root, const CallOptions& options) {
  run(implementation_,
      Call{Kind::broadcast,
           input,
           output,
           count,
           type,
           ReduceOp::sum,
           static_cast<Rank>(root),
           {},
           options.timeout},
      options.algorithm);
}

Work Communicator::broadcast_async(const void* input, void* output, std::size_t count,
                                   DataType type, int root, const CallOptions& options) {
  return start(implementation_,
               Call{Kind::broadcast,
                    input,
                    output,
                    count,
                    type,
                    ReduceOp::sum,
                    static_cast<Rank>(root),
                    {},
                    options.timeout},
               options.algorithm);
}

void Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type,
                              const CallOptions& options) {
  run(implementation_,
      Call{Kind::all_gather, input, output, count, type, ReduceOp::sum, 0, {}, options.timeout},
      options.algorithm);
}

Work Communicator::all_gather_async(const void* input, void* output, std::size_t count,
                                    DataType type, const CallOptions& options) {
  return start(
      implementation_,
      Call{Kind::all_gather, input, output, count, type, ReduceOp::sum, 0, {}, options.timeout},
      options.algorithm);
}

void Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType type,
                                  ReduceOp op, const CallOptions& options) {
  run(implementation_,
      Call{Kind::reduce_scatter, input, output, count, type, op, 0, {}, options.timeout},
      options.algorithm);
}

Work Communicator::reduce_scatter_async(const void* input, void* output, std::size_t count,
                                        DataType type, ReduceOp op, const CallOptions& options) {
  return start(implementation_,
               Call{Kind::reduce_scatter, input, output, count, type, op, 0, {}, options.timeout},
               options.algorithm);
}

void Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType type,
                              const CallOptions& options) {
  run(implementation_,
      Call{Kind::all_to_all, input, output, count, type, ReduceOp::sum, 0, {}, options.timeout},
      options.algorithm);
}

Work Communicator::all_to_all_async(const void* input, void* output, std::size_t count,
                                    DataType type, const CallOptions& options) {
  return start(
      implementation_,
      Call{Kind::all_to_all, input, output, count, type, ReduceOp::sum, 0, {}, options.timeout},
      options.algorithm);
}

void Communicator::gather(const void* input, void* output, std::size_t count, DataType type,
                          int root, const CallOptions& options) {
  run(implementation_,
      Call{Kind::gather,
           input,
           output,
           count,
           type,
           ReduceOp::sum,
           static_cast<Rank>(root),
           {},
           options.timeout},
      options.algorithm);
}

Work Communicator::gather_async(const void* input, void* output, std::size_t count, DataType type,
                                int root, const CallOptions& options) {
  return start(implementation_,
               Call{Kind::gather,
                    input,
                    output,
                    count,
                    type,
                    ReduceOp::sum,
                    static_cast<Rank>(root),
                    {},
                    options.timeout},
               options.algorithm);
}

void Communicator::scatter(const void* input, void* output, std::size_t count, DataType type,
                           int root, const CallOptions& options) {
  run(implementation_,
      Call{Kind::scatter,
           input,
           output,
           count,
           type,
           ReduceOp::sum,
           static_cast<Rank>(root),
           {},
           options.timeout},
      options.algorithm);
}

Work Communicator::scatter_async(const void* input, void* output, std::size_t count, DataType type,
                                 int root, const CallOptions& options) {
  return start(implementation_,
               Call{Kind::scatter,
                    input,
                    output,
                    count,
                    type,
                    ReduceOp::sum,
                    static_cast<Rank>(root),
                    {},
                    options.timeout},
               options.algorithm);
}

void Communicator::barrier(const CallOptions& options) {
  run(implementation_,
      Call{Kind::barrier,
           nullptr,
           nullptr,
           1,
           DataType::uint8,
           ReduceOp::max,
           0,
           {},
           options.timeout},
      options.algorithm);
}

Work Communicator::barrier_async(const CallOptions& options) {
  return start(implementation_,
               Call{Kind::barrier,
                    nullptr,
                    nullptr,
                    1,
                    DataType::uint8,
                    ReduceOp::max,
                    0,
                    {},
                    options.timeout},
               options.algorithm);
}

void Communicator::send(const void* data, std::size_t count, DataType type, int to,
                        const CallOptions& options) {
  run(implementation_, std::array{message_to(data, count, type, to, options)});
}

Work Communicator::send_async(const void* data, std::size_t count, DataType type, int to,
                              const CallOptions& options) {
  return start(implementation_, std::array{message_to(data, count, type, to, options)});
}

void Communicator::recv(void* data, std::size_t count, DataType type, int from,
                        const CallOptions& options) {
  run(implementation_, std::array{message_from(data, count, type, from, options)});
}

Work Communicator::recv_async(void* data, std::size_t count, DataType type, int from,
                              const CallOptions& options) {
  return start(implementation_, std::array{message_from(data, count, type, from, options)});
}

void Communicator::send_recv(const void* data_out, std::size_t count_out, int to, void* data_in,
                             std::size_t count_in, int from, DataType type,
                             const CallOptions& options) {
  run(implementation_, std::array{message_to(data_out, count_out, type, to, options),
                                  message_from(data_in, count_in, type, from, options)});
}

Work Communicator::send_recv_async(const void* data_out, std::size_t count_out, int to,
                                   void* data_in, std::size_t count_in, int from, DataType type,
                                   const CallOptions& options) {
  return start(implementation_, std::array{message_to(data_out, count_out, type, to, options),
                                           message_from(data_in, count_in, type, from, options)});
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

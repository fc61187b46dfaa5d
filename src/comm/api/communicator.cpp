// SPDX-License-Identifier: Apache-2.0
// The public face of collectives: arguments checked, operations begun and waited for, failures
// thrown.
#include "ccoll/communicator.hpp"

#include <utility>
#include <variant>

#include "comm/api/roads.hpp"
#include "comm/api/session.hpp"
#include "comm/call/arguments.hpp"
#include "comm/call/extent.hpp"
#include "comm/call/reductions.hpp"
#include "comm/progress/operation.hpp"
#include "comm/progress/owner.hpp"

namespace ccoll {
namespace {

/// Adds the options to the call; fails if it cannot have them.
Status take_options(const Session& communicator, Call& call, const CallOptions& options) {
  auto algorithm = algorithm_named(options.algorithm, {call.kind, call.ragged()});
  if (!algorithm) return tl::unexpected(algorithm.error());
  call.algorithm = *algorithm;
  CCOLL_TRY(
      check_order(call, communicator.self().size(), communicator.planner().is_deterministic()));
  CCOLL_TRY(check_timeout(to_string(call.kind), options.timeout));
  call.timeout = options.timeout;
  call.label = options.label;
  return {};
}

/// A collective that can be made.
struct CheckedCall {
  const std::shared_ptr<Session> communicator;
  Call call;
  const CallOptions& options;

  bool is_for_stream() const { return options.stream || communicator->streams().are_for(call); }

  Work in_stream_of_group() { return by_stream(Until::done); }

  Work by_stream(Until until) {
    if (until == Until::done && !options.stream && options.unfinished == nullptr) {
      value(communicator->streams().run(call));
      return {};
    }
    auto work = value(communicator->streams().begin(std::move(call), options.stream));
    if (until == Until::done && options.unfinished != nullptr) *options.unfinished = work;
    return work;
  }

  Work by_queue(Until until) {
    auto& calls = communicator->calls();
    const Owner owned(communicator->progress(), communicator->under_way());
    const bool waits = until == Until::done && options.unfinished == nullptr;
    if (until == Until::done && !waits) value(calls.alone(owned, call));
    Work work(value(waits ? calls.run(owned, call) : calls.begin(owned, call)));
    if (!waits) communicator->progress().round(owned);
    if (until == Until::begun) return work;
    if (!waits) *options.unfinished = work;
    calls.remember(owned, call,
                   std::static_pointer_cast<CollectiveOperation>(work.state().operations.front()));
    return work;
  }

  template <typename T>
  T value(Result<T> result) const {
    return communicator->self().value_or_raise(std::move(result), options.label);
  }
};

/// A collective as its caller asks for it.
struct CollectiveRequest {
  using Buffers = std::variant<Blocks, BlockLists, BufferPairs>;
  const std::shared_ptr<Session>& communicator;
  Outline outline;
  Buffers buffers;
  const CallOptions& options;

  CollectiveRequest(const std::shared_ptr<Session>& made_by, Kind kind, Buffers asked_buffers,
                    const Reduction& op, const CallOptions& asked_options, int root = 0)
      : communicator(made_by),
        outline{kind, op, static_cast<Rank>(root), made_by->self().rank(), made_by->self().size()},
        buffers(std::move(asked_buffers)),
        options(asked_options) {}

  bool at_once() const {
    // The Work of an earlier call may hold on to an operation that can be repeated.
    if (options.unfinished != nullptr) *options.unfinished = Work();
    const auto* const blocks = std::get_if<Blocks>(&buffers);
    if (blocks == nullptr || call_group::is_open()) return false;
    if (communicator->streams().are_for(blocks->input.data, blocks->output.data)) return false;
    return communicator->calls().repeat(outline, *blocks, options);
  }

  CheckedCall checked() const {
    // Another thread may close the communicator meanwhile.
    const auto held = communicator;
    auto made = std::visit([&](const auto& blocks) { return call_of(outline, blocks); }, buffers);
    auto call = held->self().value_or_raise(std::move(made), options.label);
    held->self().value_or_raise(take_options(*held, call, options), options.label);
    return {held, std::move(call), options};
  }
};

/// A barrier is an idempotent all_reduce, by max, of one byte that the communicator has.
const Block kBarrier{nullptr, 1, DataType::uint8};

/// A question to algorithm_for or explain, and the costs for its answer.
struct Question {
  Problem problem;
  DataType type;
  Forced forced;
  CostTable costs;
  std::string remark;  ///< how such calls are made, in a line; may be empty
};

/// The call that is asked about, with root 0 if it has one; or why it would be refused.
Result<Call> imagined_call(const Session& communicator, std::string_view operation,
                           std::size_t count, DataType type, const CallOptions& options) {
  const auto collective = collective_named(operation);
  if (!collective) return tl::unexpected(collective.error());
  CCOLL_TRY(check_type(operation, type));
  const auto kind = collective->kind;
  Call made;
  made.kind = kind;
  made.count = kind == Kind::barrier ? kBarrier.count : count;
  made.type = kind == Kind::barrier ? kBarrier.type : type;
  if (kind == Kind::barrier) made.op = ReduceOp::max;
  if (collective->ragged) made.block_counts.assign(communicator.self().size(), count);
  if (collective->ragged && kind == Kind::all_to_all) made.output_counts = made.block_counts;
  CCOLL_TRY(check_values(made, communicator.self().size()));
  CCOLL_TRY(take_options(communicator, made, options));
  return made;
}

Result<Question> question(const Session& communicator, std::string_view operation,
                          std::size_t count, DataType type, const CallOptions& options) {
  const auto asked = imagined_call(communicator, operation, count, type, options);
  if (!asked) return tl::unexpected(asked.error());
  auto problem = communicator.planner().problem_of(*asked);
  auto forced = communicator.planner().forced(asked->algorithm);
  forced.order = order_of(asked->op, asked->type, communicator.planner().is_deterministic());
  if (!communicator.device_programs().has_way() || !suits_devices(*asked)) {
    std::string rounded;
    if (asked->ragged() && !sizes_are_private(problem) && problem.count != count)
      rounded = fmt::format("planned as if its blocks had {} elements\n", problem.count);
    return Question{std::move(problem), asked->type, forced, communicator.planner().costs(),
                    std::move(rounded)};
  }
  const auto& pick = communicator.device_programs().pick();
  const auto limits = device_limits(pick.way).front();
  return Question{std::move(problem), asked->type, limited(forced, limits),
                  device_costs(pick.way, communicator.self().size(), pick.gpus, limits),
                  fmt::format("made by GPUs, by {} ({}); costs are estimates, not measurements; "
                              "slices are smaller where memory is short\n",
                              to_string(pick.way), pick.why)};
}

}  // namespace

const std::shared_ptr<Session>& Communicator::session() const {
  if (!session_)
    raise({ErrorKind::aborted, "the communicator was closed, or moved from", std::nullopt});
  return session_;
}

void Communicator::all_reduce(const ConstBlock& input, const Block& output, const Reduction& op,
                              const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::all_reduce, Blocks{input, output}, op, options));
}

Work Communicator::all_reduce_async(const ConstBlock& input, const Block& output,
                                    const Reduction& op, const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::all_reduce, Blocks{input, output}, op, options),
                Until::begun);
}

void Communicator::all_reduce(const Block& buffer, const Reduction& op,
                              const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::all_reduce, Blocks{buffer, buffer}, op, options));
}

Work Communicator::all_reduce_async(const Block& buffer, const Reduction& op,
                                    const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::all_reduce, Blocks{buffer, buffer}, op, options),
                Until::begun);
}

void Communicator::reduce(const ConstBlock& input, const Block& output, const Reduction& op,
                          int root, const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::reduce, Blocks{input, output}, op, options, root));
}

Work Communicator::reduce_async(const ConstBlock& input, const Block& output, const Reduction& op,
                                int root, const CallOptions& options) {
  return submit(
      CollectiveRequest(session(), Kind::reduce, Blocks{input, output}, op, options, root),
      Until::begun);
}

void Communicator::broadcast(const ConstBlock& input, const Block& output, int root,
                             const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::broadcast, Blocks{input, output}, ReduceOp::sum,
                           options, root));
}

Work Communicator::broadcast_async(const ConstBlock& input, const Block& output, int root,
                                   const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::broadcast, Blocks{input, output}, ReduceOp::sum,
                                  options, root),
                Until::begun);
}

void Communicator::broadcast(const Block& buffer, int root, const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::broadcast, Blocks{buffer, buffer}, ReduceOp::sum,
                           options, root));
}

Work Communicator::broadcast_async(const Block& buffer, int root, const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::broadcast, Blocks{buffer, buffer}, ReduceOp::sum,
                                  options, root),
                Until::begun);
}

void Communicator::all_gather(const ConstBlock& input, const Block& output,
                              const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::all_gather, Blocks{input, output}, ReduceOp::sum,
                           options));
}

Work Communicator::all_gather_async(const ConstBlock& input, const Block& output,
                                    const CallOptions& options) {
  return submit(
      CollectiveRequest(session(), Kind::all_gather, Blocks{input, output}, ReduceOp::sum, options),
      Until::begun);
}

void Communicator::reduce_scatter(const ConstBlock& input, const Block& output, const Reduction& op,
                                  const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::reduce_scatter, Blocks{input, output}, op, options));
}

Work Communicator::reduce_scatter_async(const ConstBlock& input, const Block& output,
                                        const Reduction& op, const CallOptions& options) {
  return submit(
      CollectiveRequest(session(), Kind::reduce_scatter, Blocks{input, output}, op, options),
      Until::begun);
}

void Communicator::all_to_all(const ConstBlock& input, const Block& output,
                              const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::all_to_all, Blocks{input, output}, ReduceOp::sum,
                           options));
}

Work Communicator::all_to_all_async(const ConstBlock& input, const Block& output,
                                    const CallOptions& options) {
  return submit(
      CollectiveRequest(session(), Kind::all_to_all, Blocks{input, output}, ReduceOp::sum, options),
      Until::begun);
}

void Communicator::gather(const ConstBlock& input, const Block& output, int root,
                          const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::gather, Blocks{input, output}, ReduceOp::sum, options,
                           root));
}

Work Communicator::gather_async(const ConstBlock& input, const Block& output, int root,
                                const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::gather, Blocks{input, output}, ReduceOp::sum,
                                  options, root),
                Until::begun);
}

void Communicator::scatter(const ConstBlock& input, const Block& output, int root,
                           const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::scatter, Blocks{input, output}, ReduceOp::sum, options,
                           root));
}

Work Communicator::scatter_async(const ConstBlock& input, const Block& output, int root,
                                 const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::scatter, Blocks{input, output}, ReduceOp::sum,
                                  options, root),
                Until::begun);
}

void Communicator::barrier(const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::barrier, Blocks{kBarrier, kBarrier}, ReduceOp::max,
                           options));
}

Work Communicator::barrier_async(const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::barrier, Blocks{kBarrier, kBarrier},
                                  ReduceOp::max, options),
                Until::begun);
}

void Communicator::all_gather_v(const ConstBlock& input, std::span<const Block> outputs,
                                const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::all_gather, BlockLists{{&input, 1}, outputs},
                           ReduceOp::sum, options));
}

Work Communicator::all_gather_v_async(const ConstBlock& input, std::span<const Block> outputs,
                                      const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::all_gather, BlockLists{{&input, 1}, outputs},
                                  ReduceOp::sum, options),
                Until::begun);
}

void Communicator::reduce_scatter_v(std::span<const ConstBlock> inputs, const Block& output,
                                    const Reduction& op, const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::reduce_scatter, BlockLists{inputs, {&output, 1}}, op,
                           options));
}

Work Communicator::reduce_scatter_v_async(std::span<const ConstBlock> inputs, const Block& output,
                                          const Reduction& op, const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::reduce_scatter, BlockLists{inputs, {&output, 1}},
                                  op, options),
                Until::begun);
}

void Communicator::all_to_all_v(std::span<const ConstBlock> inputs, std::span<const Block> outputs,
                                const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::all_to_all, BlockLists{inputs, outputs}, ReduceOp::sum,
                           options));
}

Work Communicator::all_to_all_v_async(std::span<const ConstBlock> inputs,
                                      std::span<const Block> outputs, const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::all_to_all, BlockLists{inputs, outputs},
                                  ReduceOp::sum, options),
                Until::begun);
}

void Communicator::gather_v(const ConstBlock& input, std::span<const Block> outputs, int root,
                            const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::gather, BlockLists{{&input, 1}, outputs}, ReduceOp::sum,
                           options, root));
}

Work Communicator::gather_v_async(const ConstBlock& input, std::span<const Block> outputs, int root,
                                  const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::gather, BlockLists{{&input, 1}, outputs},
                                  ReduceOp::sum, options, root),
                Until::begun);
}

void Communicator::scatter_v(std::span<const ConstBlock> inputs, const Block& output, int root,
                             const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::scatter, BlockLists{inputs, {&output, 1}},
                           ReduceOp::sum, options, root));
}

Work Communicator::scatter_v_async(std::span<const ConstBlock> inputs, const Block& output,
                                   int root, const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::scatter, BlockLists{inputs, {&output, 1}},
                                  ReduceOp::sum, options, root),
                Until::begun);
}

void Communicator::all_reduce(std::span<const BufferPair> buffers, const Reduction& op,
                              const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::all_reduce, buffers, op, options));
}

Work Communicator::all_reduce_async(std::span<const BufferPair> buffers, const Reduction& op,
                                    const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::all_reduce, buffers, op, options), Until::begun);
}

void Communicator::reduce(std::span<const BufferPair> buffers, const Reduction& op, int root,
                          const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::reduce, buffers, op, options, root));
}

Work Communicator::reduce_async(std::span<const BufferPair> buffers, const Reduction& op, int root,
                                const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::reduce, buffers, op, options, root),
                Until::begun);
}

void Communicator::broadcast(std::span<const BufferPair> buffers, int root,
                             const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::broadcast, buffers, ReduceOp::sum, options, root));
}

Work Communicator::broadcast_async(std::span<const BufferPair> buffers, int root,
                                   const CallOptions& options) {
  return submit(
      CollectiveRequest(session(), Kind::broadcast, buffers, ReduceOp::sum, options, root),
      Until::begun);
}

void Communicator::all_gather(std::span<const BufferPair> buffers, const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::all_gather, buffers, ReduceOp::sum, options));
}

Work Communicator::all_gather_async(std::span<const BufferPair> buffers,
                                    const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::all_gather, buffers, ReduceOp::sum, options),
                Until::begun);
}

void Communicator::reduce_scatter(std::span<const BufferPair> buffers, const Reduction& op,
                                  const CallOptions& options) {
  submit(CollectiveRequest(session(), Kind::reduce_scatter, buffers, op, options));
}

Work Communicator::reduce_scatter_async(std::span<const BufferPair> buffers, const Reduction& op,
                                        const CallOptions& options) {
  return submit(CollectiveRequest(session(), Kind::reduce_scatter, buffers, op, options),
                Until::begun);
}

std::string Communicator::transport_to(int peer) const {
  if (peer < 0 || peer >= size())
    raise(session()->self().for_caller(
        {ErrorKind::invalid_argument,
         no_such_rank("transport_to: rank", peer, session()->self().size()), std::nullopt}));
  return session()->self().value_or_raise(session()->self().transport_to(static_cast<Rank>(peer)));
}

std::string Communicator::algorithm_for(std::string_view operation, std::size_t count,
                                        DataType type, const CallOptions& options) const {
  const auto communicator = session();  // another thread may close it meanwhile
  const auto asked = communicator->self().value_or_raise(
      question(*communicator, operation, count, type, options), options.label);
  const auto chosen = choose(asked.problem, size_of(asked.type), asked.costs, asked.forced);
  return std::string(to_string(chosen.choice.algorithm));
}

std::string Communicator::explain(std::string_view operation, std::size_t count, DataType type,
                                  const CallOptions& options) const {
  const auto communicator = session();
  const auto asked = communicator->self().value_or_raise(
      question(*communicator, operation, count, type, options), options.label);
  return asked.remark + ccoll::explain(asked.problem, asked.type, asked.costs, asked.forced);
}

std::chrono::duration<double, std::nano> Communicator::predicted_time(
    std::string_view operation, std::size_t count, DataType type,
    const CallOptions& options) const {
  const auto communicator = session();
  const auto asked = communicator->self().value_or_raise(
      question(*communicator, operation, count, type, options), options.label);
  const auto chosen = choose(asked.problem, size_of(asked.type), asked.costs, asked.forced);
  const auto one =
      std::ranges::find(chosen.candidates, chosen.choice.algorithm, &Candidate::algorithm);
  return std::chrono::duration<double, std::nano>(
      one == chosen.candidates.end() ? 0 : one->predicted_ns);
}

std::string Communicator::dump() const {
  const auto communicator = session();  // another thread may close it meanwhile
  return communicator->dumps().text();
}

std::string Communicator::error() const {
  const auto communicator = session();  // another thread may close it meanwhile
  return communicator->failures().first_text();
}

std::optional<ErrorKind> Communicator::error_kind() const {
  const auto communicator = session();  // another thread may close it meanwhile
  const auto failure = communicator->failures().first();
  return failure ? std::optional(failure->kind) : std::nullopt;
}

void Communicator::abort(std::string_view reason) {
  const auto communicator = session();  // another thread may close it meanwhile
  communicator->abort(reason);
}

Counters Communicator::counters() const {
  const auto communicator = session();  // another thread may close it meanwhile
  return communicator->counters();
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
// The public face of collectives: arguments checked, operations begun and waited for, failures
// thrown.
#include "ccoll/communicator.hpp"

#include "comm/api/arguments.hpp"
#include "comm/api/call_group.hpp"
#include "comm/api/extent.hpp"
#include "comm/api/implementation.hpp"
#include "comm/progress/operation.hpp"

namespace ccoll {
namespace {

using Implementation = Communicator::Implementation;

/// Adds the options to the call; fails if it cannot have them.
Status take_options(const Implementation& communicator, Call& call, const CallOptions& options) {
  auto algorithm = algorithm_named(options.algorithm, {call.kind, call.ragged()});
  if (!algorithm) return tl::unexpected(algorithm.error());
  call.algorithm = *algorithm;
  CCOLL_TRY(check_order(call, communicator.size(), communicator.planner().is_deterministic()));
  CCOLL_TRY(check_timeout(to_string(call.kind), options.timeout));
  call.timeout = options.timeout;
  call.label = options.label;
  return {};
}

/// Makes the call ready; fails if it cannot be made.
Status complete(const std::shared_ptr<Implementation>& communicator, Call& call,
                const CallOptions& options) {
  const auto in_place = check_arguments(call, communicator->rank(), communicator->size());
  if (!in_place) return tl::unexpected(in_place.error());
  call.in_place = *in_place;
  return take_options(*communicator, call, options);
}

Result<Work> begin(const std::shared_ptr<Implementation>& communicator, Call& call,
                   const CallOptions& options) {
  CCOLL_TRY(complete(communicator, call, options));
  // Allocate first: a throw after the operation has begun would free the buffers that it uses.
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

/// Whether the call takes place in a stream: the one that it names, or one behind the default
/// stream if it has device memory, or if another rank may have some.
bool is_in_stream(const Implementation& communicator, const Call& call,
                  const CallOptions& options) {
  return options.stream || communicator.is_for_streams(call);
}

Work start_in_stream(const std::shared_ptr<Implementation>& communicator, Call call,
                     const CallOptions& options) {
  auto work = complete(communicator, call, options).and_then([&] {
    return communicator->begin_in_stream(std::move(call), options.stream);
  });
  return communicator->begun_or_throw(std::move(work), options);
}

Work start(std::shared_ptr<Implementation> communicator, Call call, const CallOptions& options) {
  if (is_in_stream(*communicator, call, options))
    return start_in_stream(communicator, std::move(call), options);
  Implementation::Owner owner(*communicator);
  return communicator->begun_or_throw(begin(communicator, call, options), options);
}

/// A call made of the caller's blocks; throws if they are wrong.
Call made_or_thrown(const Implementation& communicator, Result<Call> made,
                    const CallOptions& options, const Reduction& op) {
  if (!made) raise(communicator.for_caller(std::move(made.error()), options.label));
  made->op = op;
  return std::move(*made);
}

Call plain(const Implementation& communicator, Kind kind, const ConstBlock& input,
           const Block& output, const CallOptions& options, const Reduction& op = ReduceOp::sum,
           int root = 0) {
  return made_or_thrown(communicator,
                        plain_call(kind, input, output, communicator.rank(), communicator.size(),
                                   static_cast<Rank>(root)),
                        options, op);
}

/// Drops the Work of an earlier call, which may hold on to an operation that can be repeated.
void hand_back_nothing(const CallOptions& options) {
  if (options.unfinished != nullptr) *options.unfinished = Work();
}

/// Begins and waits without releasing the owner flag in between. In a group, or if the caller takes
/// unfinished calls, it only begins.
void run(std::shared_ptr<Implementation> communicator, Call call, const CallOptions& options) {
  hand_back_nothing(options);
  if (options.stream) {
    auto work = start_in_stream(communicator, std::move(call), options);
    if (options.unfinished != nullptr) *options.unfinished = std::move(work);
    return;
  }
  if (call_group::is_open())
    return call_group::add([&] { return start(communicator, std::move(call), options); });
  if (communicator->is_for_streams(call)) {
    if (options.unfinished != nullptr) {
      *options.unfinished = start_in_stream(communicator, std::move(call), options);
      return;
    }
    const auto ended = complete(communicator, call, options).and_then([&] {
      return communicator->run_in_stream(call);
    });
    return communicator->value_or_raise(ended, options.label);
  }
  Implementation::Owner owner(*communicator);
  auto work = communicator->alone_as_owner(call).and_then(
      [&] { return begin(communicator, call, options); });
  const auto begun = communicator->begun_or_throw(std::move(work), options);
  if (options.unfinished != nullptr)
    *options.unfinished = begun;
  else
    communicator->value_or_raise(communicator->finish_as_owner(begun.state()), options.label);
  communicator->remember_as_owner(
      call, std::static_pointer_cast<CollectiveOperation>(begun.state().operations.front()));
}

/// A call on plain blocks. One that is like an earlier call goes the short way.
void run(const std::shared_ptr<Implementation>& member, Kind kind, const ConstBlock& input,
         const Block& output, const CallOptions& options, const Reduction& op = ReduceOp::sum,
         int root = 0) {
  hand_back_nothing(options);
  const auto asked_root = static_cast<Rank>(root);
  if (op.form() == Reduction::Form::plain && !has_options(options) && !call_group::is_open() &&
      !member->is_for_streams(input.data, output.data)) {
    const auto extent =
        fitting_extent(kind, input, output, {asked_root == member->rank(), member->size()});
    if (extent && member->repeat({kind, extent->type, op.op(), asked_root, extent->count,
                                  input.data, output.data},
                                 options.unfinished))
      return;
  }
  run(member, plain(*member, kind, input, output, options, op, root), options);
}

Work start(const std::shared_ptr<Implementation>& member, Kind kind, const ConstBlock& input,
           const Block& output, const CallOptions& options, const Reduction& op = ReduceOp::sum,
           int root = 0) {
  return start(member, plain(*member, kind, input, output, options, op, root), options);
}

Call ragged(const Implementation& communicator, Kind kind, const BlockLists& lists,
            const CallOptions& options, int root = 0, const Reduction& op = ReduceOp::sum) {
  return made_or_thrown(
      communicator,
      ragged_call(kind, lists, communicator.rank(), communicator.size(), static_cast<Rank>(root)),
      options, op);
}

Call coalesced(const Implementation& communicator, Kind kind, std::span<const BufferPair> buffers,
               const CallOptions& options, int root = 0, const Reduction& op = ReduceOp::sum) {
  return made_or_thrown(communicator,
                        coalesced_call(kind, buffers, communicator.rank(), communicator.size(),
                                       static_cast<Rank>(root)),
                        options, op);
}

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
Result<Call> imagined_call(const Implementation& communicator, std::string_view operation,
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
  if (collective->ragged) made.block_counts.assign(communicator.size(), count);
  if (collective->ragged && kind == Kind::all_to_all) made.output_counts = made.block_counts;
  CCOLL_TRY(check_values(made, communicator.size()));
  CCOLL_TRY(take_options(communicator, made, options));
  return made;
}

Result<Question> question(const Implementation& communicator, std::string_view operation,
                          std::size_t count, DataType type, const CallOptions& options) {
  const auto asked = imagined_call(communicator, operation, count, type, options);
  if (!asked) return tl::unexpected(asked.error());
  auto problem = communicator.planner().problem_of(*asked);
  auto forced = communicator.planner().forced(asked->algorithm);
  forced.order = order_of(asked->op, asked->type, communicator.planner().is_deterministic());
  if (!communicator.has_device_way() || !suits_devices(*asked)) {
    std::string rounded;
    if (asked->ragged() && !sizes_are_private(problem) && problem.count != count)
      rounded = fmt::format("planned as if its blocks had {} elements\n", problem.count);
    return Question{std::move(problem), asked->type, forced, communicator.planner().costs(),
                    std::move(rounded)};
  }
  const auto& pick = communicator.device_way();
  const auto limits = device_limits(pick.way).front();
  return Question{std::move(problem), asked->type, limited(forced, limits),
                  device_costs(pick.way, communicator.size(), pick.gpus, limits),
                  fmt::format("made by GPUs, by {} ({}); costs are estimates, not measurements; "
                              "slices are smaller where memory is short\n",
                              to_string(pick.way), pick.why)};
}

}  // namespace

const std::shared_ptr<Communicator::Implementation>& Communicator::implementation() const {
  if (!implementation_)
    raise({ErrorKind::aborted, "the communicator was closed, or moved from", std::nullopt});
  return implementation_;
}

void Communicator::all_reduce(const ConstBlock& input, const Block& output, const Reduction& op,
                              const CallOptions& options) {
  run(implementation(), Kind::all_reduce, input, output, options, op);
}

Work Communicator::all_reduce_async(const ConstBlock& input, const Block& output,
                                    const Reduction& op, const CallOptions& options) {
  return start(implementation(), Kind::all_reduce, input, output, options, op);
}

void Communicator::all_reduce(const Block& buffer, const Reduction& op,
                              const CallOptions& options) {
  run(implementation(), Kind::all_reduce, buffer, buffer, options, op);
}

Work Communicator::all_reduce_async(const Block& buffer, const Reduction& op,
                                    const CallOptions& options) {
  return start(implementation(), Kind::all_reduce, buffer, buffer, options, op);
}

void Communicator::reduce(const ConstBlock& input, const Block& output, const Reduction& op,
                          int root, const CallOptions& options) {
  run(implementation(), Kind::reduce, input, output, options, op, root);
}

Work Communicator::reduce_async(const ConstBlock& input, const Block& output, const Reduction& op,
                                int root, const CallOptions& options) {
  return start(implementation(), Kind::reduce, input, output, options, op, root);
}

void Communicator::broadcast(const ConstBlock& input, const Block& output, int root,
                             const CallOptions& options) {
  run(implementation(), Kind::broadcast, input, output, options, ReduceOp::sum, root);
}

Work Communicator::broadcast_async(const ConstBlock& input, const Block& output, int root,
                                   const CallOptions& options) {
  return start(implementation(), Kind::broadcast, input, output, options, ReduceOp::sum, root);
}

void Communicator::broadcast(const Block& buffer, int root, const CallOptions& options) {
  run(implementation(), Kind::broadcast, buffer, buffer, options, ReduceOp::sum, root);
}

Work Communicator::broadcast_async(const Block& buffer, int root, const CallOptions& options) {
  return start(implementation(), Kind::broadcast, buffer, buffer, options, ReduceOp::sum, root);
}

void Communicator::all_gather(const ConstBlock& input, const Block& output,
                              const CallOptions& options) {
  run(implementation(), Kind::all_gather, input, output, options);
}

Work Communicator::all_gather_async(const ConstBlock& input, const Block& output,
                                    const CallOptions& options) {
  return start(implementation(), Kind::all_gather, input, output, options);
}

void Communicator::reduce_scatter(const ConstBlock& input, const Block& output, const Reduction& op,
                                  const CallOptions& options) {
  run(implementation(), Kind::reduce_scatter, input, output, options, op);
}

Work Communicator::reduce_scatter_async(const ConstBlock& input, const Block& output,
                                        const Reduction& op, const CallOptions& options) {
  return start(implementation(), Kind::reduce_scatter, input, output, options, op);
}

void Communicator::all_to_all(const ConstBlock& input, const Block& output,
                              const CallOptions& options) {
  run(implementation(), Kind::all_to_all, input, output, options);
}

Work Communicator::all_to_all_async(const ConstBlock& input, const Block& output,
                                    const CallOptions& options) {
  return start(implementation(), Kind::all_to_all, input, output, options);
}

void Communicator::gather(const ConstBlock& input, const Block& output, int root,
                          const CallOptions& options) {
  run(implementation(), Kind::gather, input, output, options, ReduceOp::sum, root);
}

Work Communicator::gather_async(const ConstBlock& input, const Block& output, int root,
                                const CallOptions& options) {
  return start(implementation(), Kind::gather, input, output, options, ReduceOp::sum, root);
}

void Communicator::scatter(const ConstBlock& input, const Block& output, int root,
                           const CallOptions& options) {
  run(implementation(), Kind::scatter, input, output, options, ReduceOp::sum, root);
}

Work Communicator::scatter_async(const ConstBlock& input, const Block& output, int root,
                                 const CallOptions& options) {
  return start(implementation(), Kind::scatter, input, output, options, ReduceOp::sum, root);
}

void Communicator::barrier(const CallOptions& options) {
  run(implementation(), Kind::barrier, kBarrier, kBarrier, options, ReduceOp::max);
}

Work Communicator::barrier_async(const CallOptions& options) {
  return start(implementation(), Kind::barrier, kBarrier, kBarrier, options, ReduceOp::max);
}

void Communicator::all_gather_v(const ConstBlock& input, std::span<const Block> outputs,
                                const CallOptions& options) {
  run(implementation(),
      ragged(*implementation(), Kind::all_gather, {{&input, 1}, outputs}, options), options);
}

Work Communicator::all_gather_v_async(const ConstBlock& input, std::span<const Block> outputs,
                                      const CallOptions& options) {
  return start(implementation(),
               ragged(*implementation(), Kind::all_gather, {{&input, 1}, outputs}, options),
               options);
}

void Communicator::reduce_scatter_v(std::span<const ConstBlock> inputs, const Block& output,
                                    const Reduction& op, const CallOptions& options) {
  run(implementation(),
      ragged(*implementation(), Kind::reduce_scatter, {inputs, {&output, 1}}, options, 0, op),
      options);
}

Work Communicator::reduce_scatter_v_async(std::span<const ConstBlock> inputs, const Block& output,
                                          const Reduction& op, const CallOptions& options) {
  return start(
      implementation(),
      ragged(*implementation(), Kind::reduce_scatter, {inputs, {&output, 1}}, options, 0, op),
      options);
}

void Communicator::all_to_all_v(std::span<const ConstBlock> inputs, std::span<const Block> outputs,
                                const CallOptions& options) {
  run(implementation(), ragged(*implementation(), Kind::all_to_all, {inputs, outputs}, options),
      options);
}

Work Communicator::all_to_all_v_async(std::span<const ConstBlock> inputs,
                                      std::span<const Block> outputs, const CallOptions& options) {
  return start(implementation(),
               ragged(*implementation(), Kind::all_to_all, {inputs, outputs}, options), options);
}

void Communicator::gather_v(const ConstBlock& input, std::span<const Block> outputs, int root,
                            const CallOptions& options) {
  run(implementation(),
      ragged(*implementation(), Kind::gather, {{&input, 1}, outputs}, options, root), options);
}

Work Communicator::gather_v_async(const ConstBlock& input, std::span<const Block> outputs, int root,
                                  const CallOptions& options) {
  return start(implementation(),
               ragged(*implementation(), Kind::gather, {{&input, 1}, outputs}, options, root),
               options);
}

void Communicator::scatter_v(std::span<const ConstBlock> inputs, const Block& output, int root,
                             const CallOptions& options) {
  run(implementation(),
      ragged(*implementation(), Kind::scatter, {inputs, {&output, 1}}, options, root), options);
}

Work Communicator::scatter_v_async(std::span<const ConstBlock> inputs, const Block& output,
                                   int root, const CallOptions& options) {
  return start(implementation(),
               ragged(*implementation(), Kind::scatter, {inputs, {&output, 1}}, options, root),
               options);
}

void Communicator::all_reduce(std::span<const BufferPair> buffers, const Reduction& op,
                              const CallOptions& options) {
  run(implementation(), coalesced(*implementation(), Kind::all_reduce, buffers, options, 0, op),
      options);
}

Work Communicator::all_reduce_async(std::span<const BufferPair> buffers, const Reduction& op,
                                    const CallOptions& options) {
  return start(implementation(),
               coalesced(*implementation(), Kind::all_reduce, buffers, options, 0, op), options);
}

void Communicator::reduce(std::span<const BufferPair> buffers, const Reduction& op, int root,
                          const CallOptions& options) {
  run(implementation(), coalesced(*implementation(), Kind::reduce, buffers, options, root, op),
      options);
}

Work Communicator::reduce_async(std::span<const BufferPair> buffers, const Reduction& op, int root,
                                const CallOptions& options) {
  return start(implementation(),
               coalesced(*implementation(), Kind::reduce, buffers, options, root, op), options);
}

void Communicator::broadcast(std::span<const BufferPair> buffers, int root,
                             const CallOptions& options) {
  run(implementation(), coalesced(*implementation(), Kind::broadcast, buffers, options, root),
      options);
}

Work Communicator::broadcast_async(std::span<const BufferPair> buffers, int root,
                                   const CallOptions& options) {
  return start(implementation(),
               coalesced(*implementation(), Kind::broadcast, buffers, options, root), options);
}

void Communicator::all_gather(std::span<const BufferPair> buffers, const CallOptions& options) {
  run(implementation(), coalesced(*implementation(), Kind::all_gather, buffers, options), options);
}

Work Communicator::all_gather_async(std::span<const BufferPair> buffers,
                                    const CallOptions& options) {
  return start(implementation(), coalesced(*implementation(), Kind::all_gather, buffers, options),
               options);
}

void Communicator::reduce_scatter(std::span<const BufferPair> buffers, const Reduction& op,
                                  const CallOptions& options) {
  run(implementation(), coalesced(*implementation(), Kind::reduce_scatter, buffers, options, 0, op),
      options);
}

Work Communicator::reduce_scatter_async(std::span<const BufferPair> buffers, const Reduction& op,
                                        const CallOptions& options) {
  return start(implementation(),
               coalesced(*implementation(), Kind::reduce_scatter, buffers, options, 0, op),
               options);
}

std::string Communicator::transport_to(int peer) const {
  if (peer < 0 || peer >= size())
    raise(implementation()->for_caller(
        {ErrorKind::invalid_argument,
         fmt::format("transport_to: rank {} is not one of {} ranks", peer, size()), std::nullopt}));
  return implementation()->value_or_raise(implementation()->transport_to(static_cast<Rank>(peer)));
}

std::string Communicator::algorithm_for(std::string_view operation, std::size_t count,
                                        DataType type, const CallOptions& options) const {
  const auto communicator = implementation();  // another thread may close it meanwhile
  const auto asked = communicator->value_or_raise(
      question(*communicator, operation, count, type, options), options.label);
  const auto chosen = choose(asked.problem, size_of(asked.type), asked.costs, asked.forced);
  return std::string(to_string(chosen.choice.algorithm));
}

std::string Communicator::explain(std::string_view operation, std::size_t count, DataType type,
                                  const CallOptions& options) const {
  const auto communicator = implementation();
  const auto asked = communicator->value_or_raise(
      question(*communicator, operation, count, type, options), options.label);
  return asked.remark + ccoll::explain(asked.problem, asked.type, asked.costs, asked.forced);
}

std::chrono::duration<double, std::nano> Communicator::predicted_time(
    std::string_view operation, std::size_t count, DataType type,
    const CallOptions& options) const {
  const auto communicator = implementation();
  const auto asked = communicator->value_or_raise(
      question(*communicator, operation, count, type, options), options.label);
  const auto chosen = choose(asked.problem, size_of(asked.type), asked.costs, asked.forced);
  const auto one =
      std::ranges::find(chosen.candidates, chosen.choice.algorithm, &Candidate::algorithm);
  return std::chrono::duration<double, std::nano>(
      one == chosen.candidates.end() ? 0 : one->predicted_ns);
}

std::string Communicator::dump() const {
  const auto communicator = implementation();  // another thread may close it meanwhile
  return communicator->dump();
}

std::string Communicator::error() const {
  const auto communicator = implementation();  // another thread may close it meanwhile
  return communicator->first_error();
}

std::optional<ErrorKind> Communicator::error_kind() const {
  const auto communicator = implementation();  // another thread may close it meanwhile
  const auto failure = communicator->first_failure();
  return failure ? std::optional(failure->kind) : std::nullopt;
}

void Communicator::abort(std::string_view reason) {
  const auto communicator = implementation();  // another thread may close it meanwhile
  communicator->abort(reason);
}

Counters Communicator::counters() const {
  const auto communicator = implementation();  // another thread may close it meanwhile
  return communicator->counters();
}

}  // namespace ccoll

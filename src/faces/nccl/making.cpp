// SPDX-License-Identifier: Apache-2.0
// Turns calls into calls of the C++ interface: one by one, or those of a group together.
#include <algorithm>
#include <exception>
#include <map>
#include <optional>

#include "ccoll/call_group.hpp"
#include "faces/nccl/call.hpp"

namespace ccoll::nccl {
namespace {

CallOptions options_of(const Call& call) {
  CallOptions options;
  if (call.comm->device() != kHost) options.stream = call.stream;
  return options;
}

/// Reads a factor that comes later; one in host memory is there when the call is made.
void resolve(Call& call) {
  if (call.factor == nullptr) return;
  call.op = call.comm->device() == kHost ? Reduction::premultiplied_sum(call.factor, call.type)
                                         : Reduction::premultiplied_sum_at(call.factor, call.type);
  call.factor = nullptr;
}

/// Makes a collective; it only begins if a group of ccoll's is open.
void make_collective(const Call& call) {
  auto& communicator = call.comm->communicator();
  const auto options = options_of(call);
  const auto n = static_cast<std::size_t>(call.comm->size());
  const auto one = call.count;
  const auto all = one * n;
  const bool is_root = call.root == call.comm->rank();
  const auto in = [&](std::size_t count) { return ConstBlock(call.send, count, call.type); };
  const auto out = [&](std::size_t count) { return Block(call.recv, count, call.type); };
  switch (call.what) {
    case What::all_reduce:
      return communicator.all_reduce(in(one), out(one), call.op, options);
    case What::broadcast:
      return communicator.broadcast(is_root ? in(one) : ConstBlock(), out(one), call.root, options);
    case What::reduce:
      return communicator.reduce(in(one), is_root ? out(one) : Block(), call.op, call.root,
                                 options);
    case What::all_gather:
      return communicator.all_gather(in(one), out(all), options);
    case What::reduce_scatter:
      return communicator.reduce_scatter(in(all), out(one), call.op, options);
    case What::all_to_all:
      return communicator.all_to_all(in(all), out(all), options);
    case What::gather:
      return communicator.gather(in(one), is_root ? out(all) : Block(), call.root, options);
    case What::scatter:
      return communicator.scatter(is_root ? in(all) : ConstBlock(), out(one), call.root, options);
    case What::send:
    case What::recv:
      break;
  }
}

/// A message's tag contains its type, and its number among those from its sender to its receiver.
constexpr int kTypeBits = 4;
static_assert(static_cast<int>(kDataTypes.size()) <= 1 << kTypeBits);

MessageRequest request_of(const Call& call) {
  const bool sends = call.what == What::send;
  const int number = call.comm->next_message(call.root, sends);
  const int tag = (number << kTypeBits | static_cast<int>(call.type)) & 0x7fffffff;
  if (sends) return MessageRequest::send({call.send, call.count, call.type}, call.root, tag);
  // The messages of a pair come in their order, and their tags are compared later. In streams they
  // may overtake each other, so the tag must be the right one.
  return MessageRequest::recv({call.recv, call.count, call.type}, call.root,
                              call.comm->device() == kHost ? kAnyTag : tag);
}

/// Aborts, so that the other ranks hear of it: a message that does not fit breaks nothing itself.
[[noreturn]] void refuse_message(const Call& call, const Received& sent) {
  const auto type = static_cast<DataType>(sent.tag & ((1 << kTypeBits) - 1));
  const auto why =
      fmt::format("rank {} sends {} {} ({} bytes), and rank {} receives {} {} ({} bytes)",
                  call.root, sent.bytes / size_of(type), to_string(type), sent.bytes,
                  call.comm->rank(), call.count, to_string(call.type), call.bytes());
  call.comm->communicator().abort(fmt::format("{} {}", why, kMismatchMark));
  refuse(ncclInvalidUsage, "{}", why);
}

void check_received(const Call& call, const Received& sent) {
  const int type = sent.tag & ((1 << kTypeBits) - 1);
  if (sent.bytes != call.bytes() || type != static_cast<int>(call.type)) refuse_message(call, sent);
}

/// Runs a receive. A message that is too long is still there for a probe.
template <typename Receive>
void receive(const Call& call, Receive&& body) {
  auto& communicator = call.comm->communicator();
  try {
    check_received(call, body());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::mismatch || communicator.error_kind()) throw;
    const auto sent = communicator.try_probe(call.root);
    if (!sent) throw;
    refuse_message(call, *sent);
  }
}

void make_message(const Call& call) {
  auto& communicator = call.comm->communicator();
  const auto options = options_of(call);
  const auto request = request_of(call);
  if (call.what == What::send) {
    communicator.send(request.block, request.peer, request.tag, options);
  } else if (options.stream) {
    // The message's size is unknown until the stream has passed it.
    communicator.recv(request.block, request.peer, request.tag, options);
  } else {
    receive(call,
            [&] { return communicator.recv(request.block, request.peer, request.tag, options); });
  }
}

/// The messages of one communicator in a group.
struct Messages {
  std::vector<const Call*> calls;
  std::vector<MessageRequest> requests;
  Work work;
  const Call* failed_call = nullptr;  ///< unknown if null

  /// The call that failed; the whole group if it is unknown which of several did.
  std::string failed_text() const {
    if (failed_call != nullptr) return failed_call->text();
    return calls.size() == 1 ? calls.front()->text() : "ncclGroupEnd";
  }
  void add(const Call& call) {
    calls.push_back(&call);
    requests.push_back(request_of(call));
  }
  /// Waits; throws a misfit if there is one, rather than another failure.
  void finish() {
    std::exception_ptr failed;
    try {
      work.wait();
    } catch (const Error&) {
      failed = std::current_exception();
    }
    std::size_t number = 0;
    for (const auto* call : calls)
      if (call->what == What::recv) look_at(*call, number++, failed != nullptr);
    if (failed) std::rethrow_exception(failed);
  }

 private:
  void look_at(const Call& call, std::size_t number, bool has_failed) {
    failed_call = &call;
    try {
      receive(call, [&] { return work.received(number); });
    } catch (const Error&) {
      if (!has_failed) throw;
    }
    failed_call = nullptr;
  }
};

/// A communicator in a group: it counts as under way, and on a GPU its streams are in order.
class Part {
 public:
  explicit Part(Comm& comm) : comm_(comm), under_way_(comm) {}

  void add(cudaStream_t stream) {
    if (comm_.device() != kHost && std::ranges::find(streams_, stream) == streams_.end())
      streams_.push_back(stream);
  }
  void before() {
    if (streams_.empty()) return;
    const device::Current current(comm_.device());
    comm_.order().before(streams_);
  }
  void after() {
    if (streams_.empty()) return;
    const device::Current current(comm_.device());
    comm_.order().after(streams_);
  }

 private:
  Comm& comm_;
  Comm::UnderWay under_way_;
  std::vector<cudaStream_t> streams_;
};

/// A group's calls, from their beginning to their end.
class Together {
 public:
  explicit Together(std::span<Call> calls) : calls_(calls) {
    for (const auto& call : calls_)
      comms_.try_emplace(call.comm.get(), *call.comm).first->second.add(call.stream);
    check_self_messages();
    for (auto& call : calls_) resolve(call);
    for (auto& [comm, part] : comms_) part.before();
  }

  void run() {
    group_begin();
    begin();
    try {
      group_end();
    } catch (...) {
      note(refusal_of_exception());
    }
    for (auto& [comm, part] : comms_) try_after(part);
    for (auto& [comm, messages] : messages_) finish(messages);
    for (auto& [comm, part] : comms_) comm->look_for_failure();
    if (first_) throw named(std::move(*first_));
  }

 private:
  /// Adds the communicator that has failed, if the group as a whole reports it.
  Refusal named(Refusal refusal) const {
    if (refusal.text.starts_with("ccoll: ")) return refusal;
    const auto failed = std::ranges::find_if(
        comms_, [](const auto& each) { return each.first->async_error() != ncclSuccess; });
    if (failed != comms_.end())
      refusal.text =
          fmt::format("ccoll: ncclGroupEnd on {}: {}", failed->first->text(), refusal.text);
    return refusal;
  }

  void note(Refusal refusal) {
    if (!first_) first_ = std::move(refusal);
  }

  /// Runs a part, and keeps its failure with the call that it is about.
  template <typename Body>
  void attempt(const Call& call, Body&& body) {
    try {
      body();
    } catch (...) {
      note(call.comm->failed_call(call.text()));
    }
  }
  /// The same for messages, which are made together.
  template <typename Body>
  void attempt(const Messages& messages, Body&& body) {
    try {
      body();
    } catch (...) {
      note(messages.calls.front()->comm->failed_call(messages.failed_text()));
    }
  }

  void begin() {
    for (const auto& call : calls_) {
      const device::Current current(call.comm->device());
      attempt(call, [&] {
        if (!call.is_message())
          make_collective(call);
        else if (call.comm->device() == kHost)
          messages_[call.comm.get()].add(call);
        else
          make_message(call);
      });
    }
    for (auto& each : messages_)
      attempt(each.second, [&] {
        each.second.work = each.first->communicator().batch_async(each.second.requests);
      });
  }

  void try_after(Part& part) {
    try {
      part.after();
    } catch (...) {
      note(refusal_of_exception());
    }
  }

  void finish(Messages& messages) {
    attempt(messages, [&] { messages.finish(); });
  }

  /// Each message to oneself needs its counterpart in the same group.
  void check_self_messages() const {
    std::map<const Comm*, int> open;
    for (const auto& call : calls_)
      if (call.is_message() && call.root == call.comm->rank())
        open[call.comm.get()] += call.what == What::send ? 1 : -1;
    for (const auto& [comm, number] : open)
      if (number != 0)
        refuse(ncclInvalidUsage,
               "{}: the group has {} of a rank to itself, but not the matching {}", comm->text(),
               number > 0 ? "the send" : "the receive", number > 0 ? "receive" : "send");
  }

  std::span<Call> calls_;
  std::map<Comm*, Part> comms_;
  std::map<Comm*, Messages> messages_;
  std::optional<Refusal> first_;
};

}  // namespace

void make(Call& call) {
  const Comm::UnderWay under_way(*call.comm);
  try {
    resolve(call);
    const bool is_on_device = call.comm->device() != kHost;
    if (is_on_device) call.comm->order().before({&call.stream, 1});
    if (call.is_message())
      make_message(call);
    else
      make_collective(call);
    if (is_on_device) call.comm->order().after({&call.stream, 1});
  } catch (...) {
    throw call.comm->failed_call(call.text());
  }
}

void make(std::span<Call> calls) { Together(calls).run(); }

}  // namespace ccoll::nccl

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A process group of torch consists of a communicator, its number of calls, and its time
/// limit.

#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "work.hpp"

namespace ccoll::plugin {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

/// A group is made from these.
struct Membership {
  StorePointer store;
  int rank = 0;
  int size = 1;
  std::string name;
  std::string interface;  ///< as UniqueId::create takes it
  std::chrono::milliseconds timeout{0};
  std::optional<at::Device> gpu = {};  ///< where calls are to be made, if not on the CPU
};

/// Whether torch waits for a call at once. The library has a shorter way for such calls.
enum class Mode : std::uint8_t { async, blocking, message };

inline Mode mode_of(bool is_async) { return is_async ? Mode::async : Mode::blocking; }

class Group;

/// The communicator, for one call, and the operations that the call has begun.
class Calls {
 public:
  /// `in`: the call's place in the group's streams; null for tensors on the CPU.
  Calls(const Group& group, Communicator& on, Mode mode, const StreamCall* in = nullptr)
      : group_(group), on_(on), is_blocking_(mode == Mode::blocking && in == nullptr), in_(in) {}

  Communicator* operator->() { return &on_; }
  Communicator& communicator() { return on_; }
  void add(ccoll::Work operation) { begun_.push_back(std::move(operation)); }
  /// `wait` makes the operation by its blocking form, which hands back what is not over soon;
  /// `begin` returns its Work.
  template <typename Wait, typename Begin>
  void either(CallOptions options, Wait&& wait, Begin&& begin) {
    if (!is_blocking_) return add(begin(options));
    ccoll::Work unfinished;
    options.unfinished = &unfinished;
    wait(options);
    add(std::move(unfinished));
  }
  Operations take() { return std::move(begun_); }
  /// The options of an operation, with the limit of the call, which may be unset.
  CallOptions limited(std::chrono::milliseconds asked) const;

 private:
  const Group& group_;
  Communicator& on_;
  const bool is_blocking_;
  const StreamCall* const in_;
  Operations begun_;
};

/// The communicator is made in a thread, as ranks may make their groups in different orders; the
/// first call waits for it. Threads may call at once; their calls begin in one order.
class Group : public std::enable_shared_from_this<Group> {
 public:
  static std::shared_ptr<Group> make(Membership membership);
  /// The same for a communicator that is there.
  static std::shared_ptr<Group> make(Membership membership, Communicator made,
                                     std::string identity);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const Membership& membership() const { return membership_; }

  /// Waits until the communicator is there, or `limit` has passed; throws what went wrong.
  bool is_made(std::chrono::milliseconds limit);
  /// The communicator, where it is there.
  std::shared_ptr<Communicator> made();
  /// Why no call can succeed any more; nothing where one can, and where the group was closed.
  std::optional<ErrorKind> error_kind();
  /// Waits for it.
  std::shared_ptr<Communicator> communicator();
  /// A text that this group has alone, also where another had its name before.
  std::string identity();

  /// Makes a call: call(calls) makes its operations. Collectives of all threads have one order.
  /// Tensors of a GPU have their call in that lane of the group's streams.
  template <typename Call>
  c10::intrusive_ptr<Work> begin(c10d::OpType type, Mode mode, Arguments arguments, Call&& call,
                                 int lane);
  /// Makes the communicator for calls on this device. Waits for the CPU's, not for a GPU's, which
  /// ranks may begin in different orders.
  void connect(at::Device device);
  /// Blocks the host until the caller's stream of the GPU is empty, if calls have used one.
  void drain();

  std::uint64_t sequence() const { return sequence_; }
  std::uint64_t next_monitored() { return ++monitored_; }
  void enable_timing() { has_timing_ = true; }
  std::chrono::milliseconds timeout() const { return timeout_.load(); }
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  /// With the limit of a call, which may be unset. Calls without options are the library's fastest.
  CallOptions limited(std::chrono::milliseconds asked) const {
    if (asked > std::chrono::milliseconds(0)) return {.timeout = asked};
    const auto own = timeout_.load();
    return {.timeout = own == membership_.timeout ? std::chrono::milliseconds(0) : own};
  }
  const std::shared_ptr<Keeper>& keeper() const { return keeper_; }

  /// Leaves; waits 1 s at most, and before that `patience` for calls in streams, whose callers do
  /// not wait. Again, or after abort, it does nothing. In a forked child neither does anything: the
  /// threads that would have to answer are not there.
  void close(std::chrono::milliseconds patience);
  void close() { close(timeout()); }
  void abort(const std::string& reason);
  /// Ends the calls that are under way, on every device.
  void abort_calls(const std::string& reason);
  /// The open group that torch calls so; null where there is none.
  static std::shared_ptr<Group> named(const std::string& name);
  /// torch's name of the group, where it is another than it was made with.
  void rename(const std::string& name);
  /// Ends all groups of the process, before the interpreter ends.
  static void close_all();

 private:
  explicit Group(Membership membership);
  /// The same ranks as a group for tensors of that GPU. The first call with such tensors makes it,
  /// so every rank must make one.
  std::shared_ptr<Group> on(at::Device gpu);
  std::shared_ptr<Group> on_gpu();  ///< null where there is none
  template <typename Call>
  c10::intrusive_ptr<Work> begin_in_stream(c10d::OpType type, Mode mode, Arguments arguments,
                                           Call&& call, int lane);
  Origin origin_of(c10d::OpType type, const Arguments& arguments) const;
  std::uint64_t next_sequence(Mode mode) {
    return mode == Mode::message ? sequence_.load() : ++sequence_;
  }
  /// No call begins from now on. Returns the group for a GPU, null where there is none.
  std::shared_ptr<Group> begin_end();
  static std::shared_ptr<Group> registered(Membership membership);
  void create();
  void await_key(c10d::Store& store) const;
  /// The communicator, which nobody has from now on; a reason aborts it.
  std::shared_ptr<Communicator> give_up(const std::string& reason);
  void leave_registry();
  bool is_parents() const { return process_ != getpid(); }
  [[noreturn]] void throw_closed() const;

  const Membership membership_;
  const pid_t process_ = getpid();
  const std::shared_ptr<Keeper> keeper_ = std::make_shared<Keeper>();
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<bool> has_timing_{false};
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> monitored_{0};
  std::stop_source stop_;

  std::mutex order_;                  ///< held while a collective begins
  std::mutex messages_;               ///< held while a message begins: no collective keeps it back
  std::mutex state_;                  ///< of the rest; never held for long
  std::atomic<bool> is_over_{false};  ///< `create` has ended: published by made_ or failure_
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> is_identified_{false};
  std::shared_ptr<Communicator> made_;
  std::exception_ptr failure_;
  ErrorKind failure_kind_ = ErrorKind::internal;
  std::string identity_;
  std::string name_;               ///< guarded by the registry
  std::shared_ptr<Group> on_gpu_;  ///< as on() made it
  Streams streams_;                ///< guarded by order_
};

inline CallOptions Calls::limited(std::chrono::milliseconds asked) const {
  auto options = group_.limited(asked);
  if (in_ != nullptr) options.stream = in_->native();
  return options;
}

/// A store of torch lets one thread in at a time, also while it waits for a key.
StorePointer own_connection(const StorePointer& store);
/// Not every kind of store can.
void delete_key(c10d::Store& store, const std::string& key);

template <typename Call>
c10::intrusive_ptr<Work> Group::begin(c10d::OpType type, Mode mode, Arguments arguments,
                                      Call&& call, int lane) {
  if (!arguments.device().is_cpu())
    return begin_in_stream(type, mode, std::move(arguments), std::forward<Call>(call), lane);
  const auto on = communicator();
  keeper_->sweep();
  auto origin = origin_of(type, arguments);
  Calls calls(*this, *on, mode);
  {
    const std::lock_guard lock(mode == Mode::message ? messages_ : order_);
    if (is_closed_) throw_closed();
    origin.sequence = next_sequence(mode);
    try {
      call(calls);
    } catch (const Error& error) {
      keeper_->keep(calls.take(), std::move(arguments));  // a part of the call may have begun
      throw_as_torchs(error);
    }
  }
  return Work::make(origin, calls.take(), std::move(arguments), keeper_);
}

template <typename Call>
c10::intrusive_ptr<Work> Group::begin_in_stream(c10d::OpType type, Mode mode, Arguments arguments,
                                                Call&& call, int lane) {
  const auto there = on(arguments.device());
  const auto communicator = there->communicator();
  keeper_->sweep();
  auto origin = origin_of(type, arguments);
  const std::lock_guard lock(there->order_);
  if (there->is_closed_) throw_closed();
  const auto in = there->streams_.begin(arguments.device(), lane);
  origin.sequence = next_sequence(mode);
  Calls calls(*this, *communicator, mode, in.get());
  const auto give_up = [&] {  // a part of the call may have begun
    try {
      in->end();
      if (in->is_captured()) in->hold_back_current();
    } catch (const std::exception&) {  // CUDA itself has failed, which the caller is told already
    }
    keeper_->keep(calls.take(), std::move(arguments), in);
  };
  try {
    call(calls);
    const c10::StreamGuard guard(in->lane());
    arguments.copy_back();
    in->end();
  } catch (const Error& error) {
    give_up();
    throw_as_torchs(error);
  } catch (...) {
    give_up();
    throw;
  }
  return Work::make(origin, calls.take(), std::move(arguments), keeper_, in);
}

}  // namespace ccoll::plugin

// SPDX-License-Identifier: Apache-2.0
#include "group.hpp"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace ccoll::plugin {
namespace {

using std::chrono::milliseconds;

constexpr const char* kKey = "ccoll/unique-id";

/// All groups that are open. Never destroyed: threads may use it until the process ends.
struct Registry {
  std::mutex mutex;
  std::set<Group*> groups;

  std::vector<std::shared_ptr<Group>> open() {
    std::vector<std::shared_ptr<Group>> all;
    for (auto* each : groups)
      if (auto group = each->weak_from_this().lock()) all.push_back(std::move(group));
    return all;
  }
};

Registry& registry() {
  static std::atomic<Registry*> all = [] {
    // A forked child has none of the threads behind the groups, nor one that may hold the mutex.
    pthread_atfork(nullptr, nullptr, [] { all = new Registry; });
    return new Registry;
  }();
  return *all;
}

constexpr std::string_view kDigits = "0123456789abcdef";

std::string hex_of(const UniqueId& id) {
  std::string text;
  for (const auto byte : id.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

UniqueId id_of(const std::string& hex, const std::string& group) {
  UniqueId id;
  TORCH_CHECK(hex.size() == 2 * id.bytes.size(), "ccoll: the store of process group '", group,
              "' has ", hex.size(), " bytes under '", kKey, "': expected ", 2 * id.bytes.size());
  for (std::size_t i = 0; i < id.bytes.size(); i++) {
    const auto high = kDigits.find(hex[2 * i]), low = kDigits.find(hex[2 * i + 1]);
    TORCH_CHECK(high != kDigits.npos && low != kDigits.npos, "ccoll: the store of process group '",
                group, "' has something else than hexadecimal digits under '", kKey, "'");
    id.bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return id;
}

/// FNV-1a, as _core.py has it: ranks of both ways meet under the same keys of the store.
std::string identity_of(const UniqueId& id) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto byte : id.bytes) hash = (hash ^ byte) * 0x100000001b3;
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[hash >> shift & 15];
  return text;
}

double seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

StorePointer own_connection(const StorePointer& store) {
  try {
    return store->clone();
  } catch (const std::exception&) {  // not every kind of store can
    return store;
  }
}

void delete_key(c10d::Store& store, const std::string& key) {
  try {
    store.deleteKey(key);
  } catch (const std::exception&) {  // not every kind of store can
  }
}

std::shared_ptr<Group> Group::registered(Membership membership) {
  std::shared_ptr<Group> group(new Group(std::move(membership)));
  const std::lock_guard lock(registry().mutex);
  registry().groups.insert(group.get());
  return group;
}

std::shared_ptr<Group> Group::make(Membership membership, Communicator made, std::string identity) {
  auto group = registered(std::move(membership));
  group->made_ = std::make_shared<Communicator>(std::move(made));
  group->is_over_ = group->is_identified_ = true;
  group->identity_ = std::move(identity);
  return group;
}

std::shared_ptr<Group> Group::make(Membership membership) {
  auto group = registered(std::move(membership));
  // It may wait for the GIL in a store of Python's, so nobody who may have that waits for it.
  std::thread([group] {
    const Inside here;
    group->create();
  }).detach();
  return group;
}

Origin Group::origin_of(c10d::OpType type, const Arguments& arguments) const {
  Origin origin{membership_.rank, type, at::hasCallbacks() ? arguments.title() : nullptr, 0, {}};
  if (has_timing_) origin.begun = Clock::now();
  return origin;
}

std::shared_ptr<Group> Group::on(at::Device gpu) {
  const std::lock_guard lock(state_);
  if (is_closed_) throw_closed();
  if (!on_gpu_) {
    auto of = membership_;
    of.gpu = gpu;
    of.name += " on a GPU";
    of.store = c10::make_intrusive<c10d::PrefixStore>("gpu/" + membership_.name, of.store);
    on_gpu_ = make(std::move(of));
  }
  if (on_gpu_->membership_.gpu != gpu)
    C10_THROW_ERROR(ValueError, "ccoll: a tensor on " + gpu.str() +
                                    ": this rank of the process group '" + membership_.name +
                                    "' uses " + on_gpu_->membership_.gpu->str() +
                                    "; a rank of a group has one GPU");
  return on_gpu_;
}

void Group::connect(at::Device device) {
  if (device.is_cpu())
    communicator();
  else
    on(device);
}

void Group::drain() {
  if (const auto other = on_gpu()) drain_current_stream(*other->membership_.gpu);
}

std::shared_ptr<Group> Group::begin_end() {
  const std::lock_guard lock(state_);
  is_closed_ = true;
  return on_gpu_;
}

void Group::abort_calls(const std::string& reason) {
  if (const auto other = on_gpu())
    if (const auto communicator = other->made()) communicator->abort(reason);
  communicator()->abort(reason);
}

Group::Group(Membership membership)
    : membership_(std::move(membership)), timeout_(membership_.timeout), name_(membership_.name) {}

Group::~Group() {
  leave_registry();
  if (!is_parents()) return;
  new auto(std::move(made_));  // left as they are: their ends would wait for the parent's threads
  new auto(keeper_);
}

void Group::create() {
  try {
    const auto store = own_connection(membership_.store);
    UniqueId id;
    if (membership_.rank == 0) {
      id = UniqueId::create(membership_.interface);
      store->set(kKey, hex_of(id));
    } else {
      await_key(*store);
      id = id_of(store->get_to_str(kKey), membership_.name);
    }
    {
      const std::lock_guard lock(state_);
      identity_ = identity_of(id);
    }
    is_identified_ = true;
    is_identified_.notify_all();
    auto options = CommunicatorOptions::from_environment();
    options.name = "torch group " + membership_.name;
    options.timeout = options.start_timeout = membership_.timeout;
    options.start_stop = stop_.get_token();
    if (membership_.gpu) options.device.ordinal = membership_.gpu->index();
    auto made = std::make_shared<Communicator>(
        Communicator::create(id, membership_.rank, membership_.size, options));
    // All have read it. A later group of this name in this store must not.
    if (membership_.rank == 0) delete_key(*store, kKey);
    const std::lock_guard lock(state_);
    if (!is_closed_) made_ = std::move(made);
  } catch (const Error& error) {
    const std::lock_guard lock(state_);
    failure_ = as_torchs(error);
    failure_kind_ = error.kind();
  } catch (...) {
    const std::lock_guard lock(state_);
    failure_ = std::current_exception();
  }
  is_over_ = true;
  is_identified_ = true;
  is_identified_.notify_all();
}

void Group::await_key(c10d::Store& store) const {
  // In short turns, so that a group that is closed meanwhile is not waited for.
  const auto deadline = Clock::now() + membership_.timeout;
  while (!store.check({kKey})) {
    if (is_closed_) throw_closed();
    if (Clock::now() > deadline)
      C10_THROW_ERROR(DistBackendError, "ccoll: timed out: rank 0 of the process group '" +
                                            membership_.name + "' did not come within " +
                                            std::to_string(seconds(membership_.timeout)) +
                                            " s (timeout)");
    std::this_thread::sleep_for(milliseconds(2));
  }
}

void Group::throw_closed() const {
  C10_THROW_ERROR(DistBackendError,
                  "ccoll: the process group '" + membership_.name + "' is closed");
}

bool Group::is_made(milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!is_over_ && !is_closed_) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  const std::lock_guard lock(state_);
  if (failure_) std::rethrow_exception(failure_);
  if (!made_) throw_closed();
  return true;
}

std::shared_ptr<Communicator> Group::made() {
  const std::lock_guard lock(state_);
  return made_;
}

std::shared_ptr<Group> Group::on_gpu() {
  const std::lock_guard lock(state_);
  return on_gpu_;
}

std::optional<ErrorKind> Group::error_kind() {
  if (const auto other = on_gpu())
    if (const auto kind = other->error_kind()) return kind;
  std::shared_ptr<Communicator> on;
  {
    const std::lock_guard lock(state_);
    if (failure_) return failure_kind_;
    on = made_;
  }
  try {
    return on ? on->error_kind() : std::nullopt;
  } catch (const Error&) {  // closed meanwhile
    return std::nullopt;
  }
}

std::shared_ptr<Communicator> Group::communicator() {
  for (;;) {
    if (auto there = made()) return there;
    is_made(std::chrono::hours(1));
  }
}

std::string Group::identity() {
  is_identified_.wait(false);
  const std::lock_guard lock(state_);
  if (failure_) std::rethrow_exception(failure_);
  return identity_;
}

void Group::leave_registry() {
  const std::lock_guard lock(registry().mutex);
  registry().groups.erase(this);
}

std::shared_ptr<Communicator> Group::give_up(const std::string& reason) {
  stop_.request_stop();
  leave_registry();
  is_closed_ = true;
  const auto on = made();
  if (!on) return nullptr;
  // No call begins beside the end of a communicator. One that runs would be waited for.
  const std::lock_guard messages(messages_);
  std::unique_lock order(order_, std::try_to_lock);
  if (!reason.empty() || !order) {
    try {
      on->abort(reason.empty() ? "the process group was closed" : reason);
    } catch (const Error&) {  // closed meanwhile by another thread
    }
  }
  if (!order) order.lock();
  const std::lock_guard lock(state_);
  return std::exchange(made_, nullptr);
}

void Group::close(milliseconds patience) {
  if (is_parents()) return;
  if (const auto other = begin_end()) other->close(patience);
  if (membership_.gpu && !error_kind()) {
    const std::unique_lock lock(order_, std::try_to_lock);  // a call that blocks is aborted below
    if (lock) streams_.drain(Clock::now() + patience);
  }
  if (const auto made = give_up({})) {
    try {
      made->close();
      keeper_->clear();
      return;
    } catch (const Error&) {  // told by the call that failed
    }
  }
  keeper_->sweep();  // what is under way is in use
}

void Group::abort(const std::string& reason) {
  if (is_parents()) return;
  if (const auto other = begin_end()) other->abort(reason);
  try {
    if (const auto made = give_up(reason)) made->close();
  } catch (const Error&) {  // that it was aborted, which nobody needs to be told
  }
}

std::shared_ptr<Group> Group::named(const std::string& name) {
  std::vector<std::shared_ptr<Group>> open;  // not ended under the lock
  const std::lock_guard lock(registry().mutex);
  open = registry().open();
  for (const auto& each : open)
    if (each->name_ == name) return each;
  return nullptr;
}

void Group::rename(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  name_ = name;
}

void Group::close_all() {
  std::vector<std::shared_ptr<Group>> open;
  {
    const std::lock_guard lock(registry().mutex);
    open = registry().open();
  }
  for (const auto& each : open) each->close(milliseconds(1000));
  Inside::end();
}

}  // namespace ccoll::plugin

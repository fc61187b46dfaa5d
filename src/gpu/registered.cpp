// SPDX-License-Identifier: Apache-2.0
#include "gpu/registered.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/deadline.hpp"
#include "gpu/cuda/cuda.hpp"
#include "gpu/memory/ipc_memory.hpp"
#include "gpu/memory/registrations.hpp"
#include "gpu/memory/shared_memory.hpp"
#include "gpu/way.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"

namespace ccoll::device {
namespace {

/// Others may be lent the memory as long as this lives.
class Lent final : public Registered {
 public:
  /// `of_user`: null for memory of ccoll::allocate.
  static Result<std::unique_ptr<Registered>> make(std::shared_ptr<Lendable> memory,
                                                  std::shared_ptr<IpcMemory> of_user) {
    CCOLL_TRY(Registrations::of_process().add(memory));
    return std::unique_ptr<Registered>(new Lent(std::move(memory), std::move(of_user)));
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() override {
    if (process_ == getpid()) {
      take_back();
    } else {
      // The memory is the parent's, and CUDA does not work here: it is never destroyed.
      static_cast<void>(new std::shared_ptr<Lendable>(std::move(memory_)));
    }
  }

  std::byte* data() const override { return memory_->data(); }
  bool is_back_within(std::chrono::milliseconds limit) override {
    if (process_ != getpid()) return true;
    take_back();
    return !of_user_ || of_user_->is_closed_by(deadline_after(limit));
  }

 private:
  Lent(std::shared_ptr<Lendable> memory, std::shared_ptr<IpcMemory> of_user)
      : memory_(std::move(memory)), of_user_(std::move(of_user)) {}
  void take_back() {
    if (std::exchange(is_lent_, false)) Registrations::of_process().remove(*memory_);
  }

  std::shared_ptr<Lendable> memory_;
  const std::shared_ptr<IpcMemory> of_user_;
  bool is_lent_ = true;
  const pid_t process_ = getpid();
};

/// The user has been told that some memory is not lent.
struct NotLent {
  std::atomic<bool> is_told{false};
};

void tell_not_lent(const IpcMemory& memory) {
  if (Runtime::one<NotLent>().is_told.exchange(true)) return;
  log().warn(
      "registered memory of GPU {} is copied as if it were not registered, because other processes "
      "cannot map it: {}; other memory may be affected, too, without a further warning",
      memory.device(), memory.why_not());
}

Result<int> chosen(std::optional<int> device) {
  int current = 0;
  int count = 0;
  CCOLL_TRY(cuda_status(cudaGetDeviceCount(&count), "asking how many GPUs there are"));
  CCOLL_TRY(cuda_status(cudaGetDevice(&current), "asking for the current GPU"));
  const int number = device.value_or(current);
  if (number >= 0 && number < count) return number;
  return fail(ErrorKind::invalid_argument, "GPU {} given, there are {}", number, count);
}

}  // namespace

Result<std::unique_ptr<Registered>> Registered::make(std::optional<int> device,
                                                     std::uint64_t bytes) {
  const auto number = chosen(device);
  CCOLL_TRY(number);
  auto memory = SharedMemory::make(*number, bytes);
  CCOLL_TRY(memory);
  CCOLL_TRY((*memory)->open_to_peers());
  return Lent::make(std::move(*memory), nullptr);
}

Result<std::unique_ptr<Registered>> Registered::of_user(std::byte* data, std::uint64_t bytes) {
  const auto device = device_of(data);
  if (!device) {
    return fail(ErrorKind::invalid_argument, "{} given, an address of a GPU's memory expected{}",
                fmt::ptr(data), is_cuda_in_use() ? "" : " (this process has not used CUDA yet)");
  }
  const auto memory = IpcMemory::make(*device, data, bytes);
  CCOLL_TRY(memory);
  auto made = Lent::make(*memory, *memory);
  if (made && !(*memory)->why_not().empty()) tell_not_lent(**memory);
  return made;
}

Registrations& Registrations::of_process() { return Runtime::one<Registrations>(); }

Status Registrations::add(std::shared_ptr<Lendable> memory) {
  const auto known = known_.lock();
  const End end = memory->data() + memory->size();
  const auto next = known->by_end.upper_bound(memory->data());
  if (next != known->by_end.end() && next->second->data() < end) {
    return fail(ErrorKind::invalid_argument,
                "some of it is registered already: {} bytes at {} and {} bytes at {}",
                memory->size(), fmt::ptr(memory->data()), next->second->size(),
                fmt::ptr(next->second->data()));
  }
  known->by_end[end] = std::move(memory);
  return {};
}

void Registrations::remove(const Lendable& memory) {
  std::vector<std::shared_ptr<Watcher>> told;
  std::shared_ptr<Lendable> removed;
  {
    const auto known = known_.lock();
    const auto found = known->by_end.find(memory.data() + memory.size());
    removed = std::move(found->second);
    known->by_end.erase(found);
    std::erase_if(known->watchers, [](const auto& each) { return each.expired(); });
    for (const auto& each : known->watchers)
      if (auto watcher = each.lock()) told.push_back(std::move(watcher));
  }
  // The lock is not held: the last reference to a watcher may be dropped here.
  for (const auto& watcher : told) watcher->withdraw(memory.id());
}

std::shared_ptr<Lendable> Registrations::find(const std::byte* data, std::uint64_t bytes) const {
  const auto known = known_.lock();
  const auto next = known->by_end.upper_bound(data);
  if (next == known->by_end.end()) return nullptr;
  const Lendable& memory = *next->second;
  const bool is_in = data >= memory.data() &&
                     bytes <= memory.size() - static_cast<std::uint64_t>(data - memory.data());
  return is_in ? next->second : nullptr;
}

std::shared_ptr<Lendable> Registrations::find(std::uint64_t id) const {
  const auto known = known_.lock();
  for (const auto& [end, memory] : known->by_end)
    if (memory->id() == id) return memory;
  return nullptr;
}

void Registrations::watch(const std::weak_ptr<Watcher>& watcher) {
  const auto known = known_.lock();
  std::erase_if(known->watchers, [](const auto& each) { return each.expired(); });
  known->watchers.push_back(watcher);
}

}  // namespace ccoll::device

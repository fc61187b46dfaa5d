// SPDX-License-Identifier: Apache-2.0
#include "engine/device/registered.hpp"

#include <unistd.h>

#include <utility>

#include "engine/device/cuda.hpp"
#include "engine/device/registrations.hpp"

namespace ccoll::device {
namespace {

class Allocated final : public Registered {
 public:
  explicit Allocated(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {
    Registrations::of_process().add(memory_);
  }
  Allocated(const Allocated&) = delete;
  Allocated& operator=(const Allocated&) = delete;
  ~Allocated() override {
    if (process_ == getpid()) {
      Registrations::of_process().remove(*memory_);
    } else {
      // It is the parent's: nothing of CUDA works here. Never destroyed.
      static_cast<void>(new std::shared_ptr<SharedMemory>(std::move(memory_)));
    }
  }

  std::byte* data() const override { return memory_->data(); }

 private:
  std::shared_ptr<SharedMemory> memory_;
  const pid_t process_ = getpid();
};

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
  return std::make_unique<Allocated>(std::move(*memory));
}

// Never destroyed: the program's own memory may end later at exit.
Registrations& Registrations::of_process() {
  static auto& instance = *new Registrations;
  return instance;
}

void Registrations::add(std::shared_ptr<SharedMemory> memory) {
  const std::lock_guard lock(mu_);
  const End end = memory->data() + memory->size();
  by_end_[end] = std::move(memory);
}

void Registrations::remove(const SharedMemory& memory) {
  std::vector<std::shared_ptr<Watcher>> told;
  {
    const std::lock_guard lock(mu_);
    by_end_.erase(memory.data() + memory.size());
    std::erase_if(watchers_, [](const auto& each) { return each.expired(); });
    for (const auto& each : watchers_)
      if (auto watcher = each.lock()) told.push_back(std::move(watcher));
  }
  // Without the lock: the last reference to one may be dropped here.
  for (const auto& watcher : told) watcher->withdraw(memory.id());
}

std::shared_ptr<SharedMemory> Registrations::find(const std::byte* data,
                                                  std::uint64_t bytes) const {
  const std::lock_guard lock(mu_);
  const auto next = by_end_.upper_bound(data);
  if (next == by_end_.end()) return nullptr;
  const SharedMemory& memory = *next->second;
  const bool is_in = data >= memory.data() &&
                     bytes <= memory.size() - static_cast<std::uint64_t>(data - memory.data());
  return is_in ? next->second : nullptr;
}

void Registrations::watch(const std::weak_ptr<Watcher>& watcher) {
  const std::lock_guard lock(mu_);
  std::erase_if(watchers_, [](const auto& each) { return each.expired(); });
  watchers_.push_back(watcher);
}

}  // namespace ccoll::device

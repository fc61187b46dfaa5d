// SPDX-License-Identifier: Apache-2.0
#include "ccoll/memory.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "gpu/registered.hpp"
#include "system/segment.hpp"
#include "transport/registered_memory.hpp"

namespace ccoll {

struct Memory::State {
  std::byte* data;
  std::size_t bytes;
  std::shared_ptr<Segment> segment;  ///< if it is the host's, and ours to free
  std::uint32_t number;
  std::unique_ptr<device::Registered> of_gpu = nullptr;  ///< if it is not the host's
  pid_t process = getpid();

  /// A forked child has no part in what its parent lends.
  ~State() {
    if (!of_gpu && process == getpid()) RegisteredMemories::of_process().remove(number);
  }
};

Memory::Memory() = default;
Memory::Memory(std::unique_ptr<State> state) : state_(std::move(state)) {}
Memory::Memory(Memory&& other) noexcept = default;
Memory& Memory::operator=(Memory&& other) noexcept = default;
Memory::~Memory() = default;

std::byte* Memory::data() const noexcept { return state_ ? state_->data : nullptr; }
std::size_t Memory::size_bytes() const noexcept { return state_ ? state_->bytes : 0; }
void Memory::reset() noexcept { state_.reset(); }

bool Memory::reset_within(std::chrono::milliseconds limit) noexcept {
  if (state_ && state_->of_gpu && !state_->of_gpu->is_back_within(limit)) return false;
  reset();
  return true;
}

namespace {

/// As value_or_throw(), with the call's name in the message.
template <typename T>
T value_of(const char* call, std::size_t bytes, Result<T> result) {
  if (result) return std::move(*result);
  throw Error(result.error().kind,
              fmt::format("{} of {} bytes: {}", call, bytes, result.error().message));
}

void refuse_nothing(const char* call, std::size_t bytes) {
  if (bytes == 0)
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{}: 0 bytes given, at least 1 expected", call));
}

}  // namespace

Memory allocate(std::size_t bytes, Where where, std::optional<int> device) {
  refuse_nothing("allocate", bytes);
  if (where == Where::device) {
    auto made = value_of("allocate", bytes, device::Registered::make(device, bytes));
    auto* const data = made->data();
    return Memory(std::unique_ptr<Memory::State>(
        new Memory::State{data, bytes, nullptr, 0, std::move(made)}));
  }
  if (where != Where::host)
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("allocate: Where is {}: expected host or device", static_cast<int>(where)));
  if (device)
    throw Error(ErrorKind::invalid_argument,
                fmt::format("allocate: GPU {} was given, but host memory was requested", *device));
  auto segment = value_of("allocate", bytes, Segment::make_lendable("ccoll-memory", bytes));
  auto* const data = segment->data();
  const auto number =
      value_of("allocate", bytes,
               RegisteredMemories::of_process().add(data, bytes, segment->take_file(), 0));
  return Memory(
      std::unique_ptr<Memory::State>(new Memory::State{data, bytes, std::move(segment), number}));
}

Memory register_memory(void* data, std::size_t bytes, int file, std::uint64_t file_offset) {
  refuse_nothing("register_memory", bytes);
  if (data == nullptr)
    throw Error(ErrorKind::invalid_argument,
                fmt::format("register_memory: null given for {} bytes of a mapping", bytes));
  FileDescriptor own(fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!own.open())
    throw Error(errno == EBADF ? ErrorKind::invalid_argument : ErrorKind::exhausted,
                fmt::format("register_memory: file descriptor {}: {}", file, std::strerror(errno)));
  // If this process can map it, others can.
  value_of("register_memory", bytes, Segment::view(own, file_offset, bytes));
  auto* const begin = static_cast<std::byte*>(data);
  const auto number =
      value_of("register_memory", bytes,
               RegisteredMemories::of_process().add(begin, bytes, std::move(own), file_offset));
  return Memory(std::unique_ptr<Memory::State>(new Memory::State{begin, bytes, nullptr, number}));
}

Memory register_memory(void* data, std::size_t bytes) {
  refuse_nothing("register_memory", bytes);
  auto* const begin = static_cast<std::byte*>(data);
  auto made = value_of("register_memory", bytes, device::Registered::of_user(begin, bytes));
  return Memory(
      std::unique_ptr<Memory::State>(new Memory::State{begin, bytes, nullptr, 0, std::move(made)}));
}

}  // namespace ccoll

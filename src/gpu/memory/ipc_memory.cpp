// SPDX-License-Identifier: Apache-2.0
#include "gpu/memory/ipc_memory.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "core/os_error.hpp"
#include "gpu/cuda/driver.hpp"
#include "gpu/cuda/peers.hpp"
#include "gpu/cuda/trial.hpp"
#include "gpu/memory/registrations.hpp"
#include "kernels/device/launch.hpp"
#include "system/locks.hpp"
#include "system/random.hpp"
#include "system/runtime.hpp"

namespace ccoll::device {
namespace {

using Clock = std::chrono::steady_clock;

/// How long it may take to read a pattern in another process's memory.
constexpr std::chrono::seconds kLimit{5};

using Handle = std::string;  // its bytes

Result<Handle> handle_of(std::byte* allocation) {
  cudaIpcMemHandle_t handle = {};
  CCOLL_TRY(cuda_status(cudaIpcGetMemHandle(&handle, allocation), "cudaIpcGetMemHandle"));
  return Handle(handle.reserved, sizeof handle.reserved);
}

/// An allocation of another process, open in this one as long as anybody here has a part of it.
class Opened {
 public:
  static Result<std::shared_ptr<Opened>> open(int device, const Handle& handle) {
    // It is made before the lock, which its destructor takes.
    const std::shared_ptr<Opened> made(new Opened(device, handle));
    const auto opened = all().lock();
    const auto known = opened->by_handle.find({device, handle});
    if (known != opened->by_handle.end())
      if (auto found = known->second.lock()) return found;
    const CurrentDevice current(device);
    CCOLL_TRY(current.status());
    const BesideCaptures beside;
    cudaIpcMemHandle_t bytes = {};
    if (handle.size() != sizeof bytes.reserved)
      return fail(ErrorKind::corrupt, "a handle of {} bytes", handle.size());
    std::memcpy(bytes.reserved, handle.data(), handle.size());
    void* data = nullptr;
    CCOLL_TRY(cuda_status(cudaIpcOpenMemHandle(&data, bytes, cudaIpcMemLazyEnablePeerAccess),
                          "cudaIpcOpenMemHandle"));
    made->data_ = static_cast<std::byte*>(data);
    opened->by_handle[{device, handle}] = made;
    return made;
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    if (data_ == nullptr) return;
    forget();
    // The lock is not held: CUDA may wait for streams. A thread that opens it anew keeps it open.
    const CurrentDevice current(device_);
    const BesideCaptures beside;
    cudaIpcCloseMemHandle(data_);
  }
  std::byte* data() const { return data_; }

 private:
  struct All {
    std::map<std::pair<int, Handle>, std::weak_ptr<Opened>> by_handle;
  };
  static Guarded<All, ProcessMutex>& all() { return Runtime::one<Guarded<All, ProcessMutex>>(); }
  void forget() const {
    const auto opened = all().lock();
    const auto known = opened->by_handle.find({device_, handle_});
    // It may have been opened anew meanwhile.
    if (known != opened->by_handle.end() && known->second.expired()) opened->by_handle.erase(known);
  }
  Opened(int device, Handle handle) : device_(device), handle_(std::move(handle)) {}

  const int device_;
  const Handle handle_;
  std::byte* data_ = nullptr;  // immutable after open()
};

/// A pattern in memory of cudaMalloc, for others to read.
struct Sample {
  Handle handle;
  std::uint32_t number = 0;
};

// Memory that is tried out stays, and so do the trials: CUDA may wait for any stream when memory is
// freed or closed.

/// The patterns that this process lets others try out.
class Samples {
 public:
  /// The pattern in memory of that GPU.
  Result<Sample> of(int device) {
    if (const auto known = samples_.find(device); known != samples_.end())
      return known->second.second;
    Sample made;
    CCOLL_TRY(fill_random(std::as_writable_bytes(std::span(&made.number, 1))));
    const CurrentDevice current(device);
    CCOLL_TRY(current.status());
    const BesideCaptures beside;
    std::unique_ptr<Trial> trial;
    CCOLL_TRY(put(Trial::make(1), trial));
    CCOLL_TRY(put(handle_of(trial->memory()), made.handle));
    auto written = trial->write(made.number, trial->memory(), Clock::now() + kLimit);
    if (!written) abandoned_.push_back(std::move(trial));
    CCOLL_TRY(written);
    return (samples_[device] = {std::move(trial), std::move(made)}).second;
  }

 private:
  std::map<int, std::pair<std::unique_ptr<Trial>, Sample>> samples_;  ///< by GPU
  std::vector<std::unique_ptr<Trial>> abandoned_;
};

/// This process's trials of others' patterns. No thread that registers memory waits for them.
class Trials {
 public:
  /// Whether that GPU reads here what another process has written there.
  Status try_out(int device, const Sample& sample) {
    Known& known = known_[{device, sample.handle}];
    if (known.works) return *known.works;
    auto works = read(device, sample, known.there);
    // There may be memory next time.
    if (works || works.error().kind != ErrorKind::exhausted) known.works = works;
    return works;
  }

 private:
  struct Known {
    std::optional<Status> works;  ///< empty: not found out yet
    std::shared_ptr<Opened> there;
  };

  Status read(int device, const Sample& sample, std::shared_ptr<Opened>& there) {
    const CurrentDevice current(device);
    CCOLL_TRY(current.status());
    const BesideCaptures beside;
    std::unique_ptr<Trial>& trial = readers_[device];
    if (!trial) CCOLL_TRY(put(Trial::make(1), trial));
    if (!there) CCOLL_TRY(put(Opened::open(device, sample.handle), there));
    auto works = read(*trial, *there, sample.number);
    // A trial that may hang is not touched again.
    if (!works && works.error().kind == ErrorKind::timed_out)
      abandoned_.push_back(std::move(trial));
    return works;
  }

  static Status read(Trial& trial, const Opened& there, std::uint32_t number) {
    const auto limit = Clock::now() + kLimit;
    CCOLL_TRY(launch_copy(there.data(), trial.memory(), kTrialBytes, {1, 64}, trial.stream()));
    CCOLL_TRY(trial.mark());
    CCOLL_TRY(trial.wait(limit, "reading a pattern that its process shares"));
    const auto wrong = trial.find_wrong(trial.memory(), number, 1, limit);
    CCOLL_TRY(wrong);
    if (!*wrong) return {};
    return fail(ErrorKind::unsupported,
                "reading the memory that its process shares gives wrong data");
  }

  std::map<std::pair<int, Handle>, Known> known_;
  std::map<int, std::unique_ptr<Trial>> readers_;  ///< by GPU
  std::vector<std::unique_ptr<Trial>> abandoned_;
};

/// A reader's part of the memory; last of all it ends the socket to the owner.
struct OpenedRange {
  explicit OpenedRange(FileDescriptor held) : held_(std::move(held)) {}
  OpenedRange(const OpenedRange&) = delete;
  OpenedRange& operator=(const OpenedRange&) = delete;
  ~OpenedRange() {
    opened.reset();
    // Closing the socket is not enough: a forked child may have it, too.
    shutdown(held_.number(), SHUT_RDWR);
  }
  std::shared_ptr<const Opened> opened;  ///< null: it is of this process

 private:
  const FileDescriptor held_;
};

bool has_ended(const FileDescriptor& reader, int timeout_ms) {
  pollfd watched{reader.number(), 0, 0};
  return poll(&watched, 1, timeout_ms) > 0;
}

}  // namespace

Result<std::shared_ptr<IpcMemory>> IpcMemory::make(int device, std::byte* data,
                                                   std::uint64_t bytes) {
  std::shared_ptr<IpcMemory> made(new IpcMemory(device, data, bytes));
  CCOLL_TRY(fill_random(std::as_writable_bytes(std::span(&made->id_, 1))));
  const Driver* driver = nullptr;
  CCOLL_TRY(put(find_driver(), driver));
  const CurrentDevice current(device);
  CCOLL_TRY(current.status());
  const auto place = reinterpret_cast<CUdeviceptr>(data);
  unsigned can = 0;
  CCOLL_TRY(driver->status(
      driver->pointer_attribute(&can, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, place),
      "asking whether memory can be shared"));
  if (can == 0) {
    // The range may be of several mappings, and CUDA's range would be that of one of them.
    made->why_not_ =
        "CUDA shares only memory of cudaMalloc by handle, not managed, pool or mapped memory";
    return made;
  }
  CUdeviceptr begin = 0;
  std::size_t size = 0;
  CCOLL_TRY(driver->status(driver->address_range(&begin, &size, place), "cuMemGetAddressRange"));
  made->offset_ = place - begin;
  if (bytes > size - made->offset_) {
    return fail(ErrorKind::invalid_argument, "bytes {} to {} of an allocation that has {}",
                made->offset_, made->offset_ + bytes, size);
  }
  auto found = made->find_directions();
  // There may be memory next time.
  if (!found && found.error().kind == ErrorKind::exhausted) return tl::unexpected(found.error());
  if (!found) made->why_not_ = found.error().message;
  return made;
}

/// Its GPU must be the current one.
Status IpcMemory::find_directions() {
  Sample sample;
  Handle handle;
  CCOLL_TRY(put(handle_of(data_ - offset_), handle));
  CCOLL_TRY(put(Runtime::one<Guarded<Samples, ProcessMutex>>().lock()->of(device_), sample));
  directions_ = net::Writer()
                    .number(static_cast<std::uint8_t>(LentBy::handle))
                    .number(id_)
                    .number(offset_)
                    .text(handle)
                    .text(sample.handle)
                    .number(sample.number)
                    .take();
  return {};
}

Result<Borrowed> IpcMemory::borrow(int device, net::Reader& directions, FileDescriptor held) {
  const auto id = directions.number<std::uint64_t>();
  const auto offset = directions.number<std::uint64_t>();
  const Handle handle(directions.text());
  const Handle trial(directions.text());
  const Sample sample{trial, directions.number<std::uint32_t>()};
  if (!directions.complete() || !held.open())
    return fail(ErrorKind::corrupt, "the description of memory of cudaMalloc is invalid");
  const auto part = std::make_shared<OpenedRange>(std::move(held));
  // A process does not open its own memory.
  if (const auto own = Registrations::of_process().find(id)) {
    const int both[] = {device, own->device()};
    if (both[0] != both[1]) CCOLL_TRY(reach_peers(both));
    return Borrowed{own->data(), part};
  }
  const auto works = Runtime::one<Guarded<Trials, ProcessMutex>>().lock()->try_out(device, sample);
  CCOLL_TRY(works);
  auto opened = Opened::open(device, handle);
  if (!opened) return tl::unexpected(std::move(opened.error()));
  std::byte* const data = (*opened)->data() + offset;
  part->opened = std::move(*opened);
  return Borrowed{data, part};
}

Result<FileDescriptor> IpcMemory::file_to_give() {
  int pair[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return fail(ErrorKind::exhausted, "socketpair: {}", os_error(errno));
  const auto readers = readers_.lock();
  std::erase_if(*readers, [](const auto& reader) { return has_ended(reader, 0); });
  readers->emplace_back(pair[0]);
  return FileDescriptor(pair[1]);
}

bool IpcMemory::is_closed_by(std::chrono::steady_clock::time_point limit) {
  const auto left_ms = [&] {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
  };
  const auto readers = readers_.lock();
  for (const FileDescriptor& reader : *readers) {
    while (!has_ended(reader, left_ms()))
      if (left_ms() == 0) return false;
  }
  return true;
}

}  // namespace ccoll::device

// SPDX-License-Identifier: Apache-2.0
#include "engine/device/staging.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/device/cuda.hpp"
#include "engine/device/driver.hpp"

namespace ccoll::device {

namespace {

/// Of what copies begin with, on the host.
constexpr std::uint64_t kAlignment = 256;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Whether this thread is one of CUDA's, in a listener, where nothing of CUDA may be called.
thread_local bool in_listener = false;

/// Memory of the host that the device copies from and to by itself.
class PinnedMemory {
 public:
  static Result<std::unique_ptr<PinnedMemory>> make(
      const std::function<Memory(std::size_t)>& allocate, std::uint64_t bytes) {
    auto memory = caught([&]() -> Result<Memory> { return allocate(bytes); });
    if (!memory) return tl::unexpected(std::move(memory.error()));
    std::unique_ptr<PinnedMemory> made(new PinnedMemory(std::move(*memory)));
    CCOLL_TRY(cuda_status(
        cudaHostRegister(made->data(), bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
        fmt::format("registering {} bytes of the host with CUDA", bytes)));
    made->is_registered_ = true;
    return made;
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    if (is_registered_) cudaHostUnregister(memory_.data());
  }

  std::byte* data() const { return memory_.data(); }
  std::uint64_t bytes() const { return memory_.size_bytes(); }

 private:
  explicit PinnedMemory(Memory memory) : memory_(std::move(memory)) {}

  Memory memory_;
  bool is_registered_ = false;
};

/// Two words that a stream waits for: for room, and to go on. The host writes each once for a call.
struct Words {
  std::uint32_t room;
  std::uint32_t go;
};

/// What a passage has of its Staging's.
struct Lease {
  std::byte* data = nullptr;
  Words* words = nullptr;
  std::uint64_t words_on_device = 0;
  std::optional<std::uint64_t> piece;   ///< its number in the ring
  bool must_wait_for_room = false;      ///< of the ring
  std::unique_ptr<PinnedMemory> apart;  ///< or null
  OwnEvent end;                         ///< recorded behind it; null: it is captured
  OwnStream stream;                     ///< null: the caller's
};

/// Pieces of a ring in the order in which they were taken, which is also the order in which those
/// that are taken again get their room.
class Ring {
 public:
  explicit Ring(std::uint64_t bytes) : bytes_(bytes) {}

  struct Taken {
    std::uint64_t number;
    std::uint64_t offset;
    bool has_room;
  };
  /// `words`: told when there is room, where there is none yet.
  Taken take(std::uint64_t bytes, Words* words) {
    const std::uint64_t begin = end_ + bytes > bytes_ ? 0 : end_;
    pieces_.push_back({begin, begin + bytes, words, false, false});
    const bool has_room = first_waiting() == pieces_.size() - 1 && is_free(pieces_.size() - 1);
    end_ = begin + bytes;
    pieces_.back().has_room = has_room;
    return {first_ + pieces_.size() - 1, begin, has_room};
  }

  /// Whom there is room for now, is told.
  void give_back(std::uint64_t number) {
    pieces_[number - first_].is_over = true;
    while (!pieces_.empty() && pieces_.front().is_over) {
      pieces_.pop_front();
      ++first_;
    }
    for (std::size_t i = first_waiting(); i < pieces_.size() && is_free(i); i = first_waiting()) {
      pieces_[i].has_room = true;
      // The words of one that is over may be another's already.
      if (pieces_[i].is_over) continue;
      std::atomic_ref(pieces_[i].words->room).store(1, std::memory_order_release);
    }
  }

 private:
  struct Piece {
    std::uint64_t begin;
    std::uint64_t end;
    Words* words;
    bool has_room;
    bool is_over;
  };

  std::size_t first_waiting() const {
    const auto waits = [](const Piece& piece) { return !piece.has_room; };
    return static_cast<std::size_t>(std::ranges::find_if(pieces_, waits) - pieces_.begin());
  }
  bool is_free(std::size_t index) const {
    const Piece& piece = pieces_[index];
    return std::none_of(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(index),
                        [&](const Piece& other) {
                          return !other.is_over && other.begin < piece.end &&
                                 piece.begin < other.end;
                        });
  }

  const std::uint64_t bytes_;
  std::deque<Piece> pieces_;
  std::uint64_t first_ = 0;  ///< number of the first piece
  std::uint64_t end_ = 0;    ///< of the last piece
};

/// Overlapping ranges as one, by address.
std::vector<MemoryRange> merged(std::vector<MemoryRange> ranges) {
  std::erase_if(ranges, [](const MemoryRange& range) { return range.bytes == 0; });
  std::ranges::sort(ranges, {}, &MemoryRange::data);
  std::vector<MemoryRange> merged;
  for (const MemoryRange& range : ranges) {
    if (!merged.empty() && range.data < merged.back().data + merged.back().bytes) {
      MemoryRange& last = merged.back();
      last.bytes = std::max<std::uint64_t>(
          last.bytes, static_cast<std::uint64_t>(range.data - last.data) + range.bytes);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::vector<MemoryRange> merged(std::span<const MemoryRange> ranges,
                                std::span<const MemoryRange> more = {}) {
  std::vector<MemoryRange> all(ranges.begin(), ranges.end());
  all.insert(all.end(), more.begin(), more.end());
  return merged(std::move(all));
}

class DeviceStaging;

class DevicePassage final : public Passage, public std::enable_shared_from_this<DevicePassage> {
 public:
  DevicePassage(std::shared_ptr<DeviceStaging> staging, const PassageRequest& request);
  DevicePassage(const DevicePassage&) = delete;
  DevicePassage& operator=(const DevicePassage&) = delete;
  ~DevicePassage() override;

  /// Of the host's memory.
  std::uint64_t bytes() const;
  /// Once.
  void take(Lease lease);

  std::byte* on_host(const void* place) const override;
  Status enqueue(std::shared_ptr<StreamListener> listener) override;
  bool reached() const override { return reached_.load(std::memory_order_acquire); }
  bool passed() const override { return passed_.load(std::memory_order_acquire); }
  void release() override { std::atomic_ref(lease_.words->go).store(1, std::memory_order_release); }
  Status trouble() const override;

 private:
  /// What a stream or a graph holds, for its host functions.
  struct Hold {
    std::shared_ptr<DevicePassage> passage;
    std::shared_ptr<StreamListener> listener;
  };
  struct Placed {
    MemoryRange range;
    std::byte* host;
  };
  static void CUDART_CB on_reached(void* hold);
  static void CUDART_CB on_passed(void* hold);
  static void CUDART_CB drop(void* hold);

  /// One copy for each allocation that the range has a part in.
  template <typename Copy>
  Status copy(std::span<const MemoryRange> ranges, Copy copy_one) const;
  Status put(cudaStream_t stream, Hold& hold);
  static Status give_to_graph(cudaStream_t stream, std::unique_ptr<Hold>& hold);

  const std::shared_ptr<DeviceStaging> staging_;
  const std::optional<cudaStream_t> stream_;
  const std::vector<MemoryRange> reads_, writes_;
  std::vector<Placed> placed_;  // immutable after take()
  Lease lease_;                 // immutable after take()
  std::atomic<bool> is_in_stream_{false};
  std::atomic<bool> reached_{false};
  std::atomic<bool> passed_{false};
};

class DeviceStaging final : public Staging, public std::enable_shared_from_this<DeviceStaging> {
 public:
  explicit DeviceStaging(StagingOptions options)
      : options_(std::move(options)), ring_(options_.bytes) {}
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;
  ~DeviceStaging() override {
    const CurrentDevice current(options_.device);
    const BesideCaptures beside;
    has_ = {};
  }

  /// Once is enough.
  Status open();
  /// Whether it is open, and serves whoever asks for that.
  bool is_like(const StagingOptions& options) const {
    return has_.ring != nullptr && options_.device == options.device &&
           options_.bytes == options.bytes;
  }
  Result<std::shared_ptr<Passage>> passage(const PassageRequest& request) override;
  int device() const override { return options_.device; }
  std::uint64_t held_bytes() const override { return held_bytes_.load(); }

  const Driver& driver() const { return *driver_; }
  /// Has a stream of ours come to its call only after those before it have.
  Status in_order(cudaStream_t stream);
  /// The stream is one of ours, and has told that it has come to its call.
  Status has_come(cudaStream_t stream);
  void give_back(Lease lease);

 private:
  /// Words at a time.
  static constexpr std::size_t kSlab = 512;

  /// What is given back while the device is the current one.
  struct Resources {
    std::unique_ptr<PinnedMemory> ring;
    OwnEvent behind_default;  ///< recorded in the default stream
    OwnEvent came_last;       ///< recorded in the last stream of ours
    std::vector<MappedMemory> slabs;
    std::vector<OwnEvent> events;
    std::vector<OwnStream> streams;
    std::vector<std::unique_ptr<PinnedMemory>> apart;
  };

  Status more_words();
  Result<Lease> lease(const PassageRequest& request, std::uint64_t bytes);
  Status find_room(Lease& lease, const PassageRequest& request, std::uint64_t bytes);
  Status memory_apart(Lease& lease, std::uint64_t bytes);
  Status stream_of_ours(Lease& lease);
  /// One that is there and not in use, or null.
  template <typename T>
  T idle(std::vector<T>& from) {
    const std::lock_guard lock(mu_);
    if (from.empty()) return {};
    T found = std::move(from.back());
    from.pop_back();
    return found;
  }
  /// For one that has just been made, so that giving it back needs no memory.
  template <typename T>
  void keep_place(std::vector<T>& in) {
    const std::lock_guard lock(mu_);
    in.reserve(++made_);
  }

  const StagingOptions options_;
  const Driver* driver_ = nullptr;  // immutable after open()
  std::atomic<std::uint64_t> held_bytes_{0};
  std::size_t made_ = 0;  // guarded by mu_; of all lists' elements
  std::mutex mu_;         // nothing of CUDA is called under it: listeners take it
  Ring ring_;             // guarded by mu_
  Resources has_;         // lists are guarded by mu_, the rest immutable after open()
  std::vector<std::pair<Words*, std::uint64_t>> free_words_;  // guarded by mu_; on the device, too
};

/// All stagings of this process. While one is in use, CUDA may wait for calls in its streams when
/// any memory is given back, and those for the thread that gives it back: what is let go of serves
/// the next that wants such a one, and all is freed when none is in use.
class StagingPool {
 public:
  static StagingPool& of_process() {
    static auto* const all = new StagingPool;
    return *all;
  }

  /// In use from now on; yet to be opened, if it is new.
  std::shared_ptr<DeviceStaging> take(StagingOptions options) {
    const std::lock_guard lock(mu_);
    const auto found =
        std::ranges::find_if(idle_, [&](const auto& each) { return each->is_like(options); });
    std::unique_ptr<DeviceStaging> taken;
    if (found != idle_.end()) {
      taken = std::move(*found);
      idle_.erase(found);
    } else {
      taken = std::make_unique<DeviceStaging>(std::move(options));
    }
    idle_.reserve(idle_.size() + ++in_use_);  // letting go needs no memory
    return {taken.release(), [this](DeviceStaging* staging) { let_go(staging); }};
  }

 private:
  void let_go(DeviceStaging* staging) {
    const std::lock_guard lock(mu_);
    idle_.emplace_back(staging);
    // CUDA's own threads may not free anything; the next to let go of one does. Who wants one
    // meanwhile waits, so that no call comes into a stream.
    if (--in_use_ == 0 && !in_listener) idle_.clear();
  }

  std::mutex mu_;
  std::vector<std::unique_ptr<DeviceStaging>> idle_;  // guarded by mu_
  std::size_t in_use_ = 0;                            // guarded by mu_
};

/// What a stream may still use although nobody knows when: kept as long as the process.
void keep_for_ever(std::shared_ptr<void> what) {
  static auto* const mu = new std::mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(*mu);
  kept->push_back(std::move(what));
}

}  // namespace

// The passage

DevicePassage::DevicePassage(std::shared_ptr<DeviceStaging> staging, const PassageRequest& request)
    : staging_(std::move(staging)),
      stream_(request.stream),
      reads_(merged(request.reads)),
      writes_(merged(request.writes)) {
  for (const MemoryRange& range : merged(request.reads, request.writes)) {
    placed_.push_back({range, nullptr});
  }
}

DevicePassage::~DevicePassage() {
  if (lease_.words != nullptr) staging_->give_back(std::move(lease_));
}

std::uint64_t DevicePassage::bytes() const {
  std::uint64_t bytes = 0;
  for (const Placed& each : placed_) bytes += aligned(each.range.bytes);
  return bytes;
}

void DevicePassage::take(Lease lease) {
  lease_ = std::move(lease);
  std::byte* host = lease_.data;
  for (Placed& each : placed_) {
    each.host = host;
    host += aligned(each.range.bytes);
  }
}

std::byte* DevicePassage::on_host(const void* place) const {
  const auto* const at = static_cast<const std::byte*>(place);
  const auto found = std::ranges::find_if(placed_, [at](const Placed& each) {
    return each.range.data <= at && at < each.range.data + each.range.bytes;
  });
  CCOLL_CHECK(found != placed_.end());
  return found->host + (at - found->range.data);
}

Status DevicePassage::enqueue(std::shared_ptr<StreamListener> listener) {
  const CurrentDevice current(staging_->device());
  CCOLL_TRY(current.status());
  auto hold = std::make_unique<Hold>(Hold{shared_from_this(), std::move(listener)});
  if (!lease_.end) {
    // From here on it is the graph's.
    Hold& held = *hold;
    CCOLL_TRY(give_to_graph(*stream_, hold));
    return put(*stream_, held);
  }
  const auto status = put(stream_ ? *stream_ : lease_.stream.get(), *hold);
  if (!status) {
    keep_for_ever(std::shared_ptr<Hold>(std::move(hold)));
    return fail(status.error().kind,
                "{}; what the stream has of the call may still use its buffers",
                status.error().message);
  }
  is_in_stream_.store(true, std::memory_order_release);
  // The last of its host functions has it now.
  (void)hold.release();
  return {};
}

Status DevicePassage::give_to_graph(cudaStream_t stream, std::unique_ptr<Hold>& hold) {
  constexpr const char* kWhat = "making a call's memory part of a graph";
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  CCOLL_TRY(cuda_status(cudaStreamGetCaptureInfo(stream, &status, &id, &graph), kWhat));
  cudaUserObject_t object = nullptr;
  CCOLL_TRY(cuda_status(
      cudaUserObjectCreate(&object, hold.get(), &drop, 1, cudaUserObjectNoDestructorSync), kWhat));
  (void)hold.release();
  const auto error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  if (error != cudaSuccess) cudaUserObjectRelease(object, 1);
  return cuda_status(error, kWhat);
}

template <typename Copy>
Status DevicePassage::copy(std::span<const MemoryRange> ranges, Copy copy_one) const {
  for (const MemoryRange& range : ranges) {
    for (std::uint64_t done = 0; done < range.bytes;) {
      std::byte* const place = range.data + done;
      const auto bytes = std::min(range.bytes - done, bytes_of_allocation_from(place));
      CCOLL_TRY(cuda_status(copy_one(place, on_host(place), bytes),
                            fmt::format("copying {} bytes between device and host", bytes)));
      done += bytes;
    }
  }
  return {};
}

Status DevicePassage::put(cudaStream_t stream, Hold& hold) {
  const Driver& driver = staging_->driver();
  const auto room = lease_.words_on_device + offsetof(Words, room);
  const auto go = lease_.words_on_device + offsetof(Words, go);
  if (lease_.must_wait_for_room) {
    CCOLL_TRY(driver.status(driver.wait_value(stream, room, 1, CU_STREAM_WAIT_VALUE_GEQ),
                            "having a stream wait for room"));
  }
  CCOLL_TRY(copy(reads_, [&](std::byte* there, std::byte* here, std::uint64_t bytes) {
    return cudaMemcpyAsync(here, there, bytes, cudaMemcpyDefault, stream);
  }));
  if (!stream_) CCOLL_TRY(staging_->in_order(stream));
  CCOLL_TRY(cuda_status(cudaLaunchHostFunc(stream, &on_reached, &hold),
                        "putting a function of the host into a stream"));
  if (!stream_) CCOLL_TRY(staging_->has_come(stream));
  CCOLL_TRY(driver.status(driver.wait_value(stream, go, 1, CU_STREAM_WAIT_VALUE_GEQ),
                          "having a stream wait for a call"));
  if (!lease_.end) {
    CCOLL_TRY(driver.status(driver.write_value(stream, go, 0, CU_STREAM_WRITE_VALUE_DEFAULT),
                            "having a stream take back what it waited for"));
  }
  CCOLL_TRY(copy(writes_, [&](std::byte* there, std::byte* here, std::uint64_t bytes) {
    return cudaMemcpyAsync(there, here, bytes, cudaMemcpyDefault, stream);
  }));
  if (lease_.end) {
    CCOLL_TRY(cuda_status(cudaEventRecord(lease_.end.get(), stream), "recording an event"));
  }
  return cuda_status(cudaLaunchHostFunc(stream, &on_passed, &hold),
                     "putting a function of the host into a stream");
}

Status DevicePassage::trouble() const {
  if (!is_in_stream_.load(std::memory_order_acquire) || passed()) return {};
  // No device is made current: on a thread that has none yet that would give it a context.
  const BesideCaptures beside;
  const auto error = cudaEventQuery(lease_.end.get());
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return {};
  }
  return cuda_status(error, "what was put into a stream");
}

void DevicePassage::on_reached(void* hold) {
  in_listener = true;
  auto& [passage, listener] = *static_cast<Hold*>(hold);
  passage->reached_.store(true, std::memory_order_release);
  listener->reached();
  in_listener = false;
}

void DevicePassage::on_passed(void* hold) {
  in_listener = true;
  auto* const held = static_cast<Hold*>(hold);
  const bool is_graphs = held->passage->lease_.end == nullptr;
  if (!is_graphs) held->passage->passed_.store(true, std::memory_order_release);
  held->listener->passed();
  if (!is_graphs) delete held;
  in_listener = false;
}

void DevicePassage::drop(void* hold) {
  in_listener = true;
  delete static_cast<Hold*>(hold);
  in_listener = false;
}

// What passages have

Status DeviceStaging::open() {
  if (has_.ring != nullptr) return {};
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  CCOLL_TRY(put(find_driver(), driver_));
  CCOLL_TRY(put(make_event(), has_.behind_default));
  CCOLL_TRY(put(make_event(), has_.came_last));
  CCOLL_TRY(put(PinnedMemory::make(options_.allocate, options_.bytes), has_.ring));
  held_bytes_ = has_.ring->bytes();
  return more_words();
}

Status DeviceStaging::more_words() {
  MappedMemory slab;
  CCOLL_TRY(put(allocate_mapped(kSlab * sizeof(Words)), slab));
  const auto there = on_device(slab.get());
  if (!there) return tl::unexpected(there.error());
  const std::lock_guard lock(mu_);
  auto* const words = reinterpret_cast<Words*>(slab.get());
  const auto address = reinterpret_cast<std::uint64_t>(*there);
  // Room for all, so that giving back needs no memory.
  free_words_.reserve((has_.slabs.size() + 1) * kSlab);
  has_.slabs.push_back(std::move(slab));
  for (std::size_t i = 0; i < kSlab; ++i) {
    free_words_.emplace_back(words + i, address + i * sizeof(Words));
  }
  return {};
}

Result<std::shared_ptr<Passage>> DeviceStaging::passage(const PassageRequest& request) {
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  const auto passage = std::make_shared<DevicePassage>(shared_from_this(), request);
  auto leased = lease(request, passage->bytes());
  if (!leased) return tl::unexpected(std::move(leased.error()));
  passage->take(std::move(*leased));
  return passage;
}

Result<Lease> DeviceStaging::lease(const PassageRequest& request, std::uint64_t bytes) {
  Lease lease;
  if (!request.is_captured) {
    lease.end = idle(has_.events);
    if (!lease.end) {
      CCOLL_TRY(put(make_event(), lease.end));
      keep_place(has_.events);
    }
  }
  if (!request.stream) CCOLL_TRY(stream_of_ours(lease));
  std::pair<Words*, std::uint64_t> words = idle(free_words_);
  if (words.first == nullptr) {
    CCOLL_TRY(more_words());
    words = idle(free_words_);
  }
  std::tie(lease.words, lease.words_on_device) = words;
  *lease.words = {};
  if (auto found = find_room(lease, request, bytes); !found) {
    give_back(std::move(lease));
    return tl::unexpected(std::move(found.error()));
  }
  return lease;
}

Status DeviceStaging::find_room(Lease& lease, const PassageRequest& request, std::uint64_t bytes) {
  if (bytes == 0) return {};
  if (request.is_captured || !request.ends_in_order || bytes > options_.bytes)
    return memory_apart(lease, bytes);
  const std::lock_guard lock(mu_);
  const auto taken = ring_.take(bytes, lease.words);
  lease.data = has_.ring->data() + taken.offset;
  lease.piece = taken.number;
  lease.must_wait_for_room = !taken.has_room;
  return {};
}

/// Of a power of two, so that what is kept serves many sizes; never given back on a call's way,
/// where CUDA might wait for streams.
Status DeviceStaging::memory_apart(Lease& lease, std::uint64_t bytes) {
  const auto size = std::bit_ceil(bytes);
  {
    const std::lock_guard lock(mu_);
    const auto fits = [size](const auto& memory) { return memory->bytes() == size; };
    if (const auto found = std::ranges::find_if(has_.apart, fits); found != has_.apart.end()) {
      lease.apart = std::move(*found);
      has_.apart.erase(found);
    }
  }
  if (!lease.apart) {
    CCOLL_TRY(put(PinnedMemory::make(options_.allocate, size), lease.apart));
    keep_place(has_.apart);
    held_bytes_ += size;
  }
  lease.data = lease.apart->data();
  return {};
}

Status DeviceStaging::stream_of_ours(Lease& lease) {
  lease.stream = idle(has_.streams);
  if (!lease.stream) {
    CCOLL_TRY(put(make_stream(), lease.stream));
    keep_place(has_.streams);
  }
  CCOLL_TRY(cuda_status(cudaEventRecord(has_.behind_default.get(), nullptr),
                        "recording an event in the default stream"));
  return cuda_status(cudaStreamWaitEvent(lease.stream.get(), has_.behind_default.get(), 0),
                     "having a stream wait for the default stream");
}

Status DeviceStaging::in_order(cudaStream_t stream) {
  return cuda_status(cudaStreamWaitEvent(stream, has_.came_last.get(), 0),
                     "having a stream wait for the call before");
}

Status DeviceStaging::has_come(cudaStream_t stream) {
  return cuda_status(cudaEventRecord(has_.came_last.get(), stream), "recording an event");
}

void DeviceStaging::give_back(Lease lease) {
  const std::lock_guard lock(mu_);
  if (lease.words != nullptr) free_words_.emplace_back(lease.words, lease.words_on_device);
  if (lease.end) has_.events.push_back(std::move(lease.end));
  if (lease.stream) has_.streams.push_back(std::move(lease.stream));
  if (lease.apart) has_.apart.push_back(std::move(lease.apart));
  if (lease.piece) ring_.give_back(*lease.piece);
}

// In front of all

Result<bool> is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const auto error = cudaStreamGetCaptureInfo(stream, &status, nullptr);
  if (error == cudaErrorStreamCaptureImplicit) {
    (void)cudaGetLastError();
    return fail(ErrorKind::invalid_argument,
                "the default stream cannot be used while a stream that waits for it is captured: "
                "expected another stream, or one made with cudaStreamNonBlocking to be captured");
  }
  CCOLL_TRY(cuda_status(error, "asking whether a stream is captured"));
  if (status == cudaStreamCaptureStatusInvalidated)
    return fail(ErrorKind::invalid_argument, "the stream's capture has failed before");
  return status == cudaStreamCaptureStatusActive;
}

Result<std::shared_ptr<Staging>> make_staging(StagingOptions options) {
  auto made = StagingPool::of_process().take(std::move(options));
  CCOLL_TRY(made->open());
  return made;
}

}  // namespace ccoll::device

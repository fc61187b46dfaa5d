// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging/leases.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

#include "gpu/cuda/stream_hold.hpp"
#include "kernels/device/launch.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll::device {
namespace {

/// Memory that calls may still use. It is freed when none is left.
struct KeptBesideCalls {
  void free() {
    std::vector<std::pair<int, std::shared_ptr<void>>> passed;
    passed.swap(all);
    for (auto& [device, each] : passed) {
      const CurrentDevice current(device);
      const BesideCaptures beside;
      each.reset();
    }
  }
  std::vector<std::pair<int, std::shared_ptr<void>>> all;
};

/// All Leases of this process. While one is in use, CUDA may wait for calls in its streams when any
/// memory is freed, and those calls for the thread that frees it. So idle Leases serve the next
/// caller that wants such. All are freed when none is in use, and all streams have passed the calls
/// that had a part in one.
class LeasesPool {
 public:
  /// The result is in use from now on; it has yet to be opened if it is new.
  std::shared_ptr<Leases> take(StagingOptions options) {
    const auto all = all_.lock();
    const auto found =
        std::ranges::find_if(all->idle, [&](const auto& each) { return each->is_like(options); });
    std::unique_ptr<Leases> taken;
    if (found != all->idle.end()) {
      taken = std::move(*found);
      taken->serve(options.ranks);
      all->idle.erase(found);
    } else {
      taken = std::make_unique<Leases>(std::move(options));
    }
    all->idle.reserve(all->idle.size() + ++all->in_use);  // letting go needs no memory
    return {taken.release(), [this](Leases* leases) { let_go(leases); }};
  }

  void also(std::function<void()> free) { all_.lock()->also.push_back(std::move(free)); }

 private:
  void let_go(Leases* leases) {
    const auto all = all_.lock();
    all->idle.emplace_back(leases);
    // CUDA's own threads may not free anything: the next thread that gives Leases back does. A
    // caller of take() waits meanwhile, so that no call enters a stream.
    if (--all->in_use != 0 || is_in_listener()) return;
    if (!std::ranges::all_of(all->idle, [](const auto& each) { return each->is_passed(); })) return;
    // These go first: their kernels may still use what calls have had.
    for (const auto& free : all->also) free();
    Runtime::one<Guarded<KeptBesideCalls, ProcessMutex>>().lock()->free();
    all->idle.clear();
  }

  struct All {
    std::vector<std::function<void()>> also;
    std::vector<std::unique_ptr<Leases>> idle;
    std::size_t in_use = 0;
  };
  Guarded<All, ProcessMutex> all_;
};

}  // namespace

Leases::~Leases() {
  const CurrentDevice current(options_.device);
  const BesideCaptures beside;
  has_ = {};
  const auto shared = shared_.lock();
  shared->later.clear();
  shared->idle = {};
}

std::shared_ptr<Leases> Leases::take(StagingOptions options) {
  return Runtime::one<LeasesPool>().take(std::move(options));
}

Status Leases::open() {
  if (is_open_) return {};
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  CCOLL_TRY(put(find_driver(), driver_));
  CCOLL_TRY(put(make_event(), has_.behind_default));
  CCOLL_TRY(put(make_event(), has_.came_last));
  CCOLL_TRY(put(allocate_on_device(kBarrierBytes), has_.barrier));
  may_take_pieces_ = load_ordered_copies().has_value();
  CCOLL_TRY(more_words());
  is_open_ = true;
  return {};
}

Status Leases::take_ring() {
  if (has_.ring != nullptr) return {};
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  CCOLL_TRY(put(PinnedMemory::make(options_.allocate, shares_.ring), has_.ring));
  held_bytes_ += has_.ring->bytes();
  return {};
}

Status Leases::take_pieces() {
  if (pieces_ && pieces_->ranks() == ranks_) return {};
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  // All memory for pieces is taken at once, so that it serves communicators of more ranks, too.
  const auto bytes = std::max(shares_.pieces, Pieces::bytes_for(shares_.pieces, ranks_));
  if (has_.pieces == nullptr || has_.pieces->bytes() < bytes) {
    std::unique_ptr<PinnedMemory> larger;
    CCOLL_TRY(put(PinnedMemory::make(options_.allocate, bytes), larger));
    held_bytes_ += bytes;
    keep_place(&Idle::apart);
    const auto shared = shared_.lock();
    if (has_.pieces) shared->idle.apart.push_back(std::move(has_.pieces));
    has_.pieces = std::move(larger);
  }
  pieces_ = std::make_unique<Pieces>(Piece{has_.pieces->data(), has_.pieces->on_device()},
                                     shares_.pieces, ranks_);
  return {};
}

Status Leases::more_words() {
  MappedMemory slab;
  CCOLL_TRY(put(allocate_mapped(kSlab * sizeof(Words)), slab));
  const auto there = on_device(slab.get());
  if (!there) return tl::unexpected(there.error());
  const auto shared = shared_.lock();
  auto& idle = shared->idle;
  auto* const words = reinterpret_cast<Words*>(slab.get());
  const auto address = reinterpret_cast<std::uint64_t>(*there);
  // There is room for all, so that giving back needs no memory.
  idle.words.reserve((idle.slabs.size() + 1) * kSlab);
  idle.slabs.push_back(std::move(slab));
  for (std::size_t i = 0; i < kSlab; ++i) {
    idle.words.emplace_back(words + i, address + i * sizeof(Words));
  }
  return {};
}

Result<Lease> Leases::lease(const StreamOpRequest& request, std::uint64_t bytes) {
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  sweep();
  Lease lease;
  lease.packing = request.packing;
  if (!request.is_captured) {
    CCOLL_TRY(take_event(lease.end));
    if (request.program) CCOLL_TRY(take_event(lease.begin));
  }
  if (!request.stream) CCOLL_TRY(stream_of_ours(lease));
  std::pair<Words*, std::uint64_t> words = idle(&Idle::words);
  if (words.first == nullptr) {
    CCOLL_TRY(more_words());
    words = idle(&Idle::words);
  }
  std::tie(lease.words, lease.words_on_device) = words;
  *lease.words = {};
  shared_.with([](Shared& shared) { shared.later.reserve(shared.later.size() + ++shared.out); });
  if (auto found = find_room(lease, request, bytes); !found) {
    give_back(std::move(lease));
    return tl::unexpected(std::move(found.error()));
  }
  return lease;
}

/// Sizes are rounded up by an eighth at most, so that kept memory serves many of them.
Result<std::shared_ptr<std::byte>> Leases::room(std::uint64_t bytes) {
  constexpr std::uint64_t kLeast = 4 << 10;
  const auto step = std::max(kLeast, std::bit_floor(bytes) / 8);
  const auto size = (bytes + step - 1) / step * step;
  Room* found = nullptr;
  for (Room& room : has_.rooms) {
    const bool fits = room.bytes >= bytes && room.memory.use_count() == 1;
    if (fits && (found == nullptr || room.bytes < found->bytes)) found = &room;
  }
  if (found != nullptr) return found->memory;
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  DeviceMemory memory;
  CCOLL_TRY(put(allocate_on_device(size), memory));
  held_bytes_ += size;
  return has_.rooms.emplace_back(Room{size, std::move(memory)}).memory;
}

Status Leases::take_event(OwnEvent& to) {
  to = idle(&Idle::events);
  if (to) return {};
  CCOLL_TRY(put(make_event(), to));
  keep_place(&Idle::events);
  return {};
}

Status Leases::find_room(Lease& lease, const StreamOpRequest& request, std::uint64_t bytes) {
  if (bytes == 0) return {};
  if (!request.ends_in_order) {
    const auto taken = take_block(lease, bytes);
    if (!taken) return tl::unexpected(taken.error());
    return *taken ? Status() : memory_apart(lease, bytes);
  }
  if (request.is_captured || bytes > shares_.ring) return memory_apart(lease, bytes);
  CCOLL_TRY(take_ring());
  const auto taken =
      shared_.with([&](Shared& shared) { return shared.ring.take(bytes, lease.words); });
  lease.data = has_.ring->data() + taken.offset;
  lease.data_on_device = has_.ring->on_device() + taken.offset;
  lease.piece = taken.number;
  lease.must_wait_for_room = !taken.has_room;
  return {};
}

Result<bool> Leases::take_block(Lease& lease, std::uint64_t bytes) {
  if (!has_block(bytes)) return false;
  if (has_.blocks == nullptr) {
    CCOLL_TRY(put(PinnedMemory::make(options_.allocate, shares_.messages), has_.blocks));
    held_bytes_ += has_.blocks->bytes();
  }
  const auto begin = shared_.with([&](Shared& shared) {
    const auto found = *shared.blocks.find(bytes);
    shared.blocks.take(found, bytes);
    return found;
  });
  lease.block = begin;
  lease.data = has_.blocks->data() + begin;
  lease.data_on_device = has_.blocks->on_device() + begin;
  return true;
}

/// The size is a power of two, so that kept memory serves many sizes. It is never freed in a call,
/// where CUDA might wait for streams.
Status Leases::memory_apart(Lease& lease, std::uint64_t bytes) {
  const auto size = std::bit_ceil(bytes);
  {
    const auto shared = shared_.lock();
    auto& apart = shared->idle.apart;
    const auto fits = [size](const auto& memory) { return memory->bytes() == size; };
    if (const auto found = std::ranges::find_if(apart, fits); found != apart.end()) {
      lease.apart = std::move(*found);
      apart.erase(found);
    }
  }
  if (!lease.apart) {
    CCOLL_TRY(put(PinnedMemory::make(options_.allocate, size), lease.apart));
    keep_place(&Idle::apart);
    held_bytes_ += size;
  }
  lease.data = lease.apart->data();
  lease.data_on_device = lease.apart->on_device();
  return {};
}

Status Leases::take_stream(OwnStream& to) {
  to = idle(&Idle::streams);
  if (to) return {};
  CCOLL_TRY(put(make_stream(), to));
  keep_place(&Idle::streams);
  return {};
}

Status Leases::stream_of_ours(Lease& lease) {
  CCOLL_TRY(take_stream(lease.stream));
  CCOLL_TRY(cuda_status(cudaEventRecord(has_.behind_default.get(), nullptr),
                        "recording an event in the default stream"));
  return cuda_status(cudaStreamWaitEvent(lease.stream.get(), has_.behind_default.get(), 0),
                     "having a stream wait for the default stream");
}

Status Leases::wait_for_room(const Lease& lease, cudaStream_t stream) const {
  if (!lease.must_wait_for_room) return {};
  const auto room = lease.words_on_device + offsetof(Words, room);
  return driver_->status(driver_->wait_value(stream, room, 1, CU_STREAM_WAIT_VALUE_GEQ),
                         "having a stream wait for room");
}

Status Leases::wait_for_host(const Lease& lease, cudaStream_t stream,
                             const WaitForHost& how) const {
  const auto go = lease.words_on_device + offsetof(Words, go);
  const auto parts = static_cast<std::uint32_t>(how.parts);
  unsigned flags = CU_STREAM_WAIT_VALUE_GEQ;
  if (how.flushes) flags |= CU_STREAM_WAIT_VALUE_FLUSH;
  CCOLL_TRY(driver_->status(driver_->wait_value(stream, go, parts, flags),
                            "having a stream wait for a call"));
  if (!how.again) return {};
  return driver_->status(driver_->write_value(stream, go, 0, CU_STREAM_WRITE_VALUE_DEFAULT),
                         "having a stream take back what it waited for");
}

Status Leases::in_order(cudaStream_t stream) {
  return cuda_status(cudaStreamWaitEvent(stream, has_.came_last.get(), 0),
                     "having a stream wait for the call before");
}

Status Leases::has_come(cudaStream_t stream) {
  return cuda_status(cudaEventRecord(has_.came_last.get(), stream), "recording an event");
}

void Leases::give_back(Lease lease) {
  const auto shared = shared_.lock();
  auto& idle = shared->idle;
  if (lease.words != nullptr) --shared->out;
  if (lease.words != nullptr) idle.words.emplace_back(lease.words, lease.words_on_device);
  for (OwnEvent* const event : {&lease.begin, &lease.end})
    if (*event) idle.events.push_back(std::move(*event));
  if (lease.stream) idle.streams.push_back(std::move(lease.stream));
  if (lease.apart) idle.apart.push_back(std::move(lease.apart));
  if (lease.piece) shared->ring.give_back(*lease.piece);
  if (lease.block) shared->blocks.give_back(*lease.block);
}

void Leases::give_back_later(Lease lease) { shared_.lock()->later.push_back(std::move(lease)); }

void Leases::sweep() {
  std::vector<Lease> some;
  {
    const auto shared = shared_.lock();
    if (shared->later.empty()) return;
    some.reserve(shared->later.size());
    some.swap(shared->later);
  }
  for (Lease& lease : some) {
    // Nothing of a device that has failed is used again.
    has_happened(lease.end, device()).value_or(false) ? give_back(std::move(lease))
                                                      : give_back_later(std::move(lease));
  }
}

bool Leases::is_passed() const {
  const auto shared = shared_.lock();
  return std::ranges::all_of(shared->later, [this](const Lease& lease) {
    return has_happened(lease.end, device()).value_or(false);
  });
}

void when_no_calls_are_left(std::function<void()> free) {
  Runtime::one<LeasesPool>().also(std::move(free));
}

namespace {

struct KeptForEver {
  std::vector<std::shared_ptr<void>> all;
};

}  // namespace

void keep_until_no_calls_are_left(int device, std::shared_ptr<void> what) {
  const auto kept = Runtime::one<Guarded<KeptBesideCalls, ProcessMutex>>().lock();
  kept->all.emplace_back(device, std::move(what));
}

void keep_for_ever(std::shared_ptr<void> what) {
  Runtime::one<Guarded<KeptForEver, ProcessMutex>>().lock()->all.push_back(std::move(what));
}

}  // namespace ccoll::device

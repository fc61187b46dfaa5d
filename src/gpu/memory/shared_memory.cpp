// SPDX-License-Identifier: Apache-2.0
#include "gpu/memory/shared_memory.hpp"

#include <fcntl.h>

#include <cerrno>
#include <map>
#include <span>
#include <utility>

#include "core/os_error.hpp"
#include "gpu/cuda/driver.hpp"
#include "system/locks.hpp"
#include "system/random.hpp"
#include "system/runtime.hpp"

namespace ccoll::device {
namespace {

struct Memories {
  std::map<std::uint64_t, std::weak_ptr<SharedMemory>> by_id;
};
Guarded<Memories, ProcessMutex>& memories() {
  return Runtime::one<Guarded<Memories, ProcessMutex>>();
}

/// CUDA registers the same memory only once.
struct Registrations {
  struct Each {
    std::size_t users = 0;
    std::byte* on_device = nullptr;
  };
  std::map<const Segment*, Each> all;
};
Guarded<Registrations, ProcessMutex>& registrations() {
  return Runtime::one<Guarded<Registrations, ProcessMutex>>();
}

/// The handle of an allocation, which lives on while it is mapped.
class OwnedHandle {
 public:
  OwnedHandle(const Driver& driver, CUmemGenericAllocationHandle handle)
      : driver_(driver), handle_(handle) {}
  OwnedHandle(const OwnedHandle&) = delete;
  OwnedHandle& operator=(const OwnedHandle&) = delete;
  ~OwnedHandle() { driver_.release(handle_); }

 private:
  const Driver& driver_;
  const CUmemGenericAllocationHandle handle_;
};

Result<CUmemAllocationProp> properties_of(int device, const Driver& cu) {
  // Network cards reach memory that was made for them, if the GPU has such.
  int is_for_cards = 0;
  CCOLL_TRY(cu.status(
      cu.device_get_attribute(&is_for_cards,
                              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device),
      "cuDeviceGetAttribute"));
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.allocFlags.gpuDirectRDMACapable = is_for_cards != 0 ? 1 : 0;
  return properties;
}

/// Gives the driver's calls, on a device, until the end of a scope.
class OnDevice {
 public:
  explicit OnDevice(int device) : current_(device), driver_(find(device, current_.status())) {}
  const Result<const Driver*>& driver() const { return driver_; }

 private:
  static Result<const Driver*> find(int device, const Status& current) {
    CCOLL_TRY(current);
    // This makes the device's context if there is none yet: the driver's own calls do not. If there
    // is one, the call might wait for streams.
    if (!has_context(device)) CCOLL_TRY(cuda_status(cudaFree(nullptr), "using a GPU"));
    return find_driver();
  }

  const CurrentDevice current_;
  const BesideCaptures beside_;
  const Result<const Driver*> driver_;
};

}  // namespace

Result<std::shared_ptr<SharedMemory>> SharedMemory::make(int device, std::uint64_t bytes) {
  const OnDevice here(device);
  CCOLL_TRY(here.driver());
  const Driver& cu = **here.driver();
  int can = 0;
  CCOLL_TRY(
      cu.status(cu.device_get_attribute(
                    &can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device),
                "cuDeviceGetAttribute"));
  if (can == 0) {
    return fail(ErrorKind::unsupported, "GPU {} shares no memory by file descriptor", device);
  }
  const auto properties = properties_of(device, cu);
  CCOLL_TRY(properties);
  std::size_t unit = 0;
  CCOLL_TRY(cu.status(cu.granularity(&unit, &*properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                      "cuMemGetAllocationGranularity"));
  if (bytes > UINT64_MAX - unit) return fail(ErrorKind::exhausted, "no GPU has so much memory");
  const std::uint64_t whole = (bytes + unit - 1) / unit * unit;
  CUmemGenericAllocationHandle handle = 0;
  CCOLL_TRY(cu.status(cu.create(&handle, whole, &*properties, 0), "cuMemCreate"));
  const OwnedHandle owned(cu, handle);
  std::shared_ptr<SharedMemory> made(new SharedMemory(device));
  int file = -1;
  CCOLL_TRY(cu.status(cu.export_handle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                      "cuMemExportToShareableHandle"));
  made->file_ = FileDescriptor(file);
  // A program that this process starts must not get the memory; CUDA promises nothing about that.
  fcntl(made->file_.number(), F_SETFD, FD_CLOEXEC);
  CCOLL_TRY(made->map(handle, whole));
  CCOLL_TRY(fill_random(std::as_writable_bytes(std::span(&made->id_, 1))));
  made->directions_ = net::Writer()
                          .number(static_cast<std::uint8_t>(LentBy::descriptor))
                          .number(made->id_)
                          .number(whole)
                          .take();
  const auto known = memories().lock();
  std::erase_if(known->by_id, [](const auto& each) { return each.second.expired(); });
  known->by_id[made->id_] = made;
  return made;
}

std::shared_ptr<SharedMemory> SharedMemory::find(std::uint64_t id, int device) {
  const auto known = memories().lock();
  const auto its = known->by_id.find(id);
  auto found = its == known->by_id.end() ? nullptr : its->second.lock();
  return found && found->device_ == device ? found : nullptr;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::import(int device, const FileDescriptor& file,
                                                           std::uint64_t bytes) {
  const OnDevice here(device);
  CCOLL_TRY(here.driver());
  const Driver& cu = **here.driver();
  CUmemGenericAllocationHandle handle = 0;
  void* const number = reinterpret_cast<void*>(static_cast<std::intptr_t>(file.number()));
  CCOLL_TRY(cu.status(cu.import_handle(&handle, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                      "cuMemImportFromShareableHandle"));
  const OwnedHandle owned(cu, handle);
  std::shared_ptr<SharedMemory> made(new SharedMemory(device));
  CCOLL_TRY(made->map(handle, bytes));
  return made;
}

Result<Borrowed> SharedMemory::borrow(int device, net::Reader& directions,
                                      const FileDescriptor& file) {
  const auto id = directions.number<std::uint64_t>(), bytes = directions.number<std::uint64_t>();
  if (!directions.complete() || !file.open())
    return fail(ErrorKind::corrupt, "the description of shared memory is invalid");
  // Memory of the same process and GPU has the same address here.
  auto memory = find(id, device);
  if (!memory) CCOLL_TRY(put(import(device, file, bytes), memory));
  std::byte* const data = memory->data();
  return Borrowed{data, std::move(memory)};
}

Result<FileDescriptor> SharedMemory::file_to_give() {
  FileDescriptor copy(fcntl(file_.number(), F_DUPFD_CLOEXEC, 0));
  if (!copy.open()) return fail(ErrorKind::exhausted, "a descriptor: {}", os_error(errno));
  return copy;
}

Status SharedMemory::map(unsigned long long handle, std::uint64_t bytes) {
  const Driver& cu = **find_driver();
  CUdeviceptr address = 0;
  CCOLL_TRY(cu.status(cu.reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve"));
  if (auto mapped = cu.status(cu.map(address, bytes, 0, handle, 0), "cuMemMap"); !mapped) {
    cu.unreserve(address, bytes);
    return mapped;
  }
  data_ = reinterpret_cast<std::byte*>(address);
  size_ = bytes;
  return let_use(device_);
}

Status SharedMemory::let_use(int device) const {
  const Driver& cu = **find_driver();
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cu.status(cu.set_access(reinterpret_cast<CUdeviceptr>(data_), size_, &access, 1),
                   "cuMemSetAccess");
}

Status SharedMemory::open_to_peers() const {
  int count = 0;
  CCOLL_TRY(cuda_status(cudaGetDeviceCount(&count), "asking how many GPUs there are"));
  for (int peer = 0; peer < count; ++peer) {
    int reaches = 0;
    if (peer == device_) continue;
    CCOLL_TRY(cuda_status(cudaDeviceCanAccessPeer(&reaches, peer, device_),
                          "asking whether a GPU reaches another"));
    if (reaches != 0) CCOLL_TRY(let_use(peer));
  }
  return {};
}

SharedMemory::~SharedMemory() {
  if (size_ == 0) return;
  const BesideCaptures beside;
  const Driver& cu = **find_driver();
  const auto address = reinterpret_cast<CUdeviceptr>(data_);
  cu.unmap(address, size_);
  cu.unreserve(address, size_);
}

Result<std::shared_ptr<MappedSegment>> MappedSegment::map(std::shared_ptr<Segment> segment) {
  std::shared_ptr<MappedSegment> made(new MappedSegment(std::move(segment)));
  const Segment& memory = made->segment();
  const auto registered = registrations().lock();
  auto& all = registered->all;
  if (!all.contains(&memory)) {
    const BesideCaptures beside;
    CCOLL_TRY(cuda_status(cudaHostRegister(memory.data(), memory.size(),
                                           cudaHostRegisterMapped | cudaHostRegisterPortable),
                          "registering memory of several processes"));
    auto there = device::on_device(memory.data());
    if (!there) {
      cudaHostUnregister(memory.data());
      return tl::unexpected(std::move(there.error()));
    }
    all[&memory].on_device = *there;
  }
  ++all[&memory].users;
  made->on_device_ = all[&memory].on_device;
  return made;
}

MappedSegment::~MappedSegment() {
  if (on_device_ == nullptr) return;
  const auto registered = registrations().lock();
  const auto own = registered->all.find(segment_.get());
  if (--own->second.users != 0) return;
  cudaHostUnregister(segment_->data());
  registered->all.erase(own);
}

}  // namespace ccoll::device

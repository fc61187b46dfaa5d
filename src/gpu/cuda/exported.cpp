// SPDX-License-Identifier: Apache-2.0
// Device memory as a dma-buf, for network cards that read and write it. It has never run on a card.
#include <fcntl.h>
#include <unistd.h>

#include "gpu/cuda/driver.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {
namespace {

/// Whether streams have to flush what others have written. If so, they must be able to.
Result<bool> needs_flush(const Driver& driver, int device) {
  int order = 0, ways = 0;
  CCOLL_TRY(driver.status(driver.device_get_attribute(
                              &order, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, device),
                          "asking in which order a GPU sees what others write"));
  if (order >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER) return false;
  CCOLL_TRY(
      driver.status(driver.device_get_attribute(
                        &ways, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, device),
                    "asking how a GPU is made to see what others write"));
  if ((ways & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS) != 0) return true;
  return fail(
      ErrorKind::unsupported,
      "GPU {} neither sees writes of other devices in order, nor can its streams flush them",
      device);
}

}  // namespace

Result<ExportedRange> export_range(const MemoryRange& range) {
  const auto device = device_of(range.data);
  if (!device) return fail(ErrorKind::unsupported, "this is not memory of a GPU");
  const Driver* driver = nullptr;
  CCOLL_TRY(put(find_driver(), driver));
  const auto allocation = allocation_of(range.data);
  if (!allocation || range.data + range.bytes > allocation->data + allocation->bytes)
    return fail(ErrorKind::unsupported, "these {} bytes of GPU {} are not of one allocation",
                range.bytes, *device);
  int can = 0;
  CCOLL_TRY(driver->status(
      driver->device_get_attribute(&can, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, *device),
      "asking whether a GPU's memory can be a dma-buf"));
  if (can == 0 || driver->export_range == nullptr)
    return fail(ErrorKind::unsupported, "GPU {}, or its driver, makes no dma-buf of its memory",
                *device);
  ExportedRange exported;
  CCOLL_TRY(put(needs_flush(*driver, *device), exported.needs_flush));
  const CurrentDevice current(*device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  // A dma-buf has whole pages of the host; allocations may begin and end within one.
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<CUdeviceptr>(allocation->data) / page * page;
  const auto end = reinterpret_cast<CUdeviceptr>(allocation->data) + allocation->bytes;
  int file = -1;
  CCOLL_TRY(
      driver->status(driver->export_range(&file, begin, (end - begin + page - 1) / page * page,
                                          CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                     "making a dma-buf of a GPU's memory"));
  exported.file = FileDescriptor(file);
  fcntl(exported.file.number(), F_SETFD, FD_CLOEXEC);
  exported.offset = reinterpret_cast<CUdeviceptr>(range.data) - begin;
  return exported;
}

}  // namespace ccoll::device

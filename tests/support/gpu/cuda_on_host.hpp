// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Controls for tests of the GPU that cuda_on_host plays, beyond CUDA's own calls.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

extern "C" {

/// Until it is called with cudaSuccess, nothing makes progress and every call returns `error`, as
/// after a kernel that read an invalid address.
void cuda_on_host_fails(cudaError_t error);

/// Whether allocations of GPU memory on this thread fail.
void cuda_on_host_is_full(bool is);

/// How many kernels other than teams' have been launched or captured.
int cuda_on_host_kernels();
/// How many team kernels have been launched or captured, and how many of them go by words.
int cuda_on_host_team_kernels();
int cuda_on_host_team_kernels_by_words();

/// Whether uncaptured team kernels stop midway until they are told to end, and how many stand
/// there.
void cuda_on_host_holds_kernels(bool holds);
int cuda_on_host_held_kernels();
/// The same for kernels in graphs.
void cuda_on_host_holds_graphs(bool holds);

/// Whether the device's own copies outside of graphs are held, and how many are.
void cuda_on_host_holds_copies(bool holds);
int cuda_on_host_held_copies();

/// Whether the memory is said to belong to another GPU: GPU 1 if there is one, else one past the
/// last.
void cuda_on_host_moves(const void* memory, std::size_t bytes, bool is_there);

/// Sets the number of devices; none has a context yet.
void cuda_on_host_has(int devices);
bool cuda_on_host_has_context(int device);

/// How devices reach each other's memory: as they should; only where it is mapped for them; not at
/// all, and they say so; kernels read and write wrong bits there; or kernels there hang until the
/// next call of this. For copies alone: those to lower-numbered devices bring wrong bits, or those
/// to higher-numbered devices hang until the next call.
typedef enum {
  kPeersWell,
  kPeersTooMany,
  kPeersApart,
  kPeersWrong,
  kPeersHang,
  kCopiesWrong,
  kCopiesHang
} cuda_on_host_peers;
void cuda_on_host_has_peers(cuda_on_host_peers how);

/// The copies so far, in streams of device `by`, from one device to another or to itself.
typedef struct {
  std::uint64_t copies, bytes;
} cuda_on_host_traffic;
cuda_on_host_traffic cuda_on_host_carried(int by, int from, int to);

/// How many devices are running a team's kernel.
int cuda_on_host_runs_teams();

/// Sets each device's number of multiprocessors (initially 16); only while nothing runs. Each has
/// room for 1,024 threads of kernels that wait for others.
void cuda_on_host_has_multiprocessors(int count);

/// Whether the device refuses to launch team kernels, including those that claim a team.
void cuda_on_host_refuses(int device, bool does);

/// Makes the memory behave like a pool's: only its own device reaches it, whatever peers there are.
void cuda_on_host_closes(const void* memory);

/// Whether cudaMalloc returns memory that no CPU can touch, at addresses in the middle of a page;
/// touching it faults. Such memory alone can be exported as a dma-buf, but kernels cannot use it.
void cuda_on_host_hides_memory(bool does);
/// How many bytes of VMM memory were made for use by network cards.
std::uint64_t cuda_on_host_made_for_cards();
/// How many stretches of host memory are registered.
std::size_t cuda_on_host_registered();
/// How many openings of other processes' cudaMalloc memory this process has not closed again.
int cuda_on_host_opened();
/// How many bytes streams have copied between the device and pinned host memory, and how many such
/// copies were requested.
std::uint64_t cuda_on_host_copied();
std::uint64_t cuda_on_host_copies();
/// Whether the device exports dma-bufs; and whether it sees other writers' data in order or, if it
/// does not, whether its streams can flush the writes.
void cuda_on_host_exports(bool does);
void cuda_on_host_orders_writes(bool does, bool can_flush);
/// How often a stream was asked to flush such writes.
std::uint64_t cuda_on_host_flushes();

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What tests may ask of the GPU that cuda_on_host.cpp plays, beside what CUDA has.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

extern "C" {

/// From now on nothing goes on and whoever asks gets `error`, as after a kernel that read where
/// nothing is; until cudaSuccess is given.
void cuda_on_host_fails(cudaError_t error);

/// Whether this thread gets no memory of the GPU from now on.
void cuda_on_host_is_full(bool is);

/// How many kernels but those of teams have been launched, or put into graphs.
int cuda_on_host_kernels();
/// How many kernels of teams have been launched, or put into graphs; and those by words.
int cuda_on_host_team_kernels();
int cuda_on_host_team_kernels_by_words();

/// Whether teams' kernels that are not captured stand in the middle from now on, until they are
/// told to end; how many do.
void cuda_on_host_holds_kernels(bool holds);
int cuda_on_host_held_kernels();
/// The same of those of graphs.
void cuda_on_host_holds_graphs(bool holds);

/// Whether copies that the device makes by itself stand from now on, but for those of graphs; how
/// many do.
void cuda_on_host_holds_copies(bool holds);
int cuda_on_host_held_copies();

/// Whether the memory there is said to be of a GPU behind the last: of GPU 1, where there is one.
void cuda_on_host_moves(const void* memory, std::size_t bytes, bool is_there);

/// From now on there are so many devices; none has a context yet.
void cuda_on_host_has(int devices);
bool cuda_on_host_has_context(int device);

/// How devices reach each other's memory from now on: as they should; only what is mapped for them;
/// not at all, and say so; their kernels read and write other bits there; or never end there, until
/// this is called again. Or only copies are not well: those to devices of lower numbers bring other
/// bits there; those to devices of higher numbers never end, until this is called again.
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

/// What copies in streams of the device `by` have brought so far from one device to another, or to
/// itself.
typedef struct {
  std::uint64_t copies, bytes;
} cuda_on_host_traffic;
cuda_on_host_traffic cuda_on_host_carried(int by, int from, int to);

/// How many devices run a team's kernel just now.
int cuda_on_host_runs_teams();

/// How many multiprocessors each device has from now on, while it runs nothing; 16 at first. Each
/// has room for 1,024 threads of kernels that run until others let them go on.
void cuda_on_host_has_multiprocessors(int count);

/// Whether the device refuses to launch teams' kernels from now on, also those that claim a team.
void cuda_on_host_refuses(int device, bool does);

/// The memory is from now on as that of pools is: of no device but its own, whatever peers there
/// are.
void cuda_on_host_closes(const void* memory);

/// Whether cudaMalloc gives from now on memory that no CPU can touch, at addresses in the middle of
/// a page: a fault is what reads or writes it there. It can be exported as a dma-buf, other memory
/// cannot. Kernels know only the other.
void cuda_on_host_hides_memory(bool does);
/// How much VMM memory was made that network cards may have.
std::uint64_t cuda_on_host_made_for_cards();
/// How much of the host's memory is registered now, in pieces.
std::size_t cuda_on_host_registered();
/// How often this process has opened memory of cudaMalloc of others, and not closed it again.
int cuda_on_host_opened();
/// How many bytes streams have copied between the device and pinned memory of the host, and how
/// many such copies they were given.
std::uint64_t cuda_on_host_copied();
std::uint64_t cuda_on_host_copies();
/// Whether the device makes dma-bufs; and whether it sees in order what others write there, or,
/// where it does not, whether its streams can flush that.
void cuda_on_host_exports(bool does);
void cuda_on_host_orders_writes(bool does, bool can_flush);
/// How often a stream was told to flush such writes.
std::uint64_t cuda_on_host_flushes();

}  // extern "C"

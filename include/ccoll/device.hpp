// SPDX-License-Identifier: Apache-2.0
#pragma once

/// GPUs: which one a rank has, how calls in CUDA streams are made, and what they promise. A program
/// without GPUs needs nothing of this file. docs/gpu.md is the guide.
///
/// **Calls in streams.** A call with CallOptions::stream takes its place in the order of that CUDA
/// stream. It reads its buffers once everything that was put into the stream before it is done, and
/// its results are there for what is put into the stream afterwards. The call returns at once: it
/// waits neither for the GPU nor for other ranks. Its buffers are memory of the rank's GPU or of
/// the host, and belong to the call until the stream has passed it. The `*_async` form returns a
/// Work for the host's view. A blocking recv, send_recv or batch in a stream does not return what
/// came, and a message that does not fit shows in the Work alone. The time limit begins when the
/// stream reaches the call.
///
/// **Order.** Messages of different streams may overtake one another; messages without a stream
/// keep their order. A receive holds back everything behind it in its stream: two ranks that send
/// to each other therefore use send_recv, a batch, a group, or two streams. In a group a call in a
/// stream only begins, and the group's end does not wait for it. Blocking sends and receives of a
/// group in one stream begin together at the group's end, behind the group's other calls in that
/// stream: make a collective that needs their data after the group.
///
/// **Streams of several ranks.** Ranks that are threads of one process use a stream each, best made
/// with cudaStreamNonBlocking. In a stream that they share, and in the default stream, each rank
/// would wait for those behind it. More than CUDA_DEVICE_MAX_CONNECTIONS (8) streams in a process
/// may wait for each other as if they were one.
///
/// **Collectives made by GPUs.** If every rank has a GPU and all ranks are on one host, the GPUs
/// make collectives themselves. No data pass through the host then (DeviceOptions::way). Messages,
/// v-operations, coalesced calls, pre-multiplied sums and the caller's own functions still pass
/// through the host. All collectives of such a communicator take place in streams, also those
/// without a stream and those on memory of the host. Make a second communicator without a device
/// for collectives that are to stay on the host. Ranks that are threads of one process form a team,
/// which needs all ranks' calls before its kernel can start: a call returns when all ranks have
/// made it. Its time limit begins at most 50 ms after the call. One thread that drives several
/// ranks makes their calls in a CallGroup. Ranks in several processes return at once.
///
/// **Errors.** An error shows in the Work, in the next call, and in Communicator::error(). The
/// stream itself goes on; results that it had not reached are undefined. The Work reports the error
/// once the stream has passed the call, or after 5 s with a note that the buffers may still be in
/// use. The same holds for what abort() ends. The stream of a team's rank goes on once the other
/// ranks' streams have reached the call.
///
/// **Graphs.** A captured call becomes part of the graph, which may run any number of times. It
/// must not run beside itself or beside another call or graph of the same communicator: order them
/// in one stream or by events. A team ends calls that break this rule with Error{aborted}. All
/// ranks run their graphs equally often and in the same order among all their calls. Wait for a
/// graph before making a call without a stream. After the communicator has failed or is gone, a
/// graph runs on with undefined results. The `*_async` form returns an empty Work.
/// Ranks of one process that form a team are captured in one graph. If they are captured in graphs
/// of their own, the host makes the call; a rank that captures beside one that does not is
/// Error{mismatch}.
///
/// **Without a stream** memory of a GPU is accepted too, if this rank has a device or the process
/// used CUDA before the communicator was made. The call begins once the default stream's earlier
/// work is done, and its results are there when it returns or its Work is over. Probes, byte
/// strings and the making of communicators do not take place in streams.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ccoll/version.hpp"

/// CUDA's streams, declared as CUDA's own headers do; those may be included before or after.
using cudaStream_t = struct CUstream_st*;

namespace ccoll {

/// The DeviceOptions::ordinal of a rank without a GPU: its data are memory of the host.
inline constexpr int kHost = -1;

/// How GPUs make collectives where all ranks have one.
enum class DeviceWay : std::uint8_t {
  automatic,  ///< the first of the others that the ranks' places allow
  team,       ///< one kernel on each GPU: ranks of one process, or a GPU for each rank of a host
  steps,      ///< operations of each rank's stream: any ranks of one host
  host,       ///< not at all: data pass through the host
};

/// Whether a team's all_gather and all_to_all on memory of the GPU are copies, which need no
/// multiprocessor.
enum class DeviceCopies : std::uint8_t {
  by_size,  ///< where they are large
  always,
  never,
};

/// "automatic", "team", "by_size".
CCOLL_API std::string_view to_string(DeviceWay way);
CCOLL_API std::string_view to_string(DeviceCopies copies);

/// How a rank uses its GPU. Ranks with a GPU give the same `workspace_bytes`, all ranks the same
/// `way` and `direct_messages`. The least `blocks` and the fewest `copies` of all ranks count.
struct CCOLL_API DeviceOptions {
  /// The number of this rank's GPU, as CUDA counts them in this process, or kHost. Ranks may
  /// differ, and several ranks may share a GPU. A number below kHost is Error{invalid_argument}; a
  /// GPU that is not there, or a build without CUDA, is Error{unsupported}.
  int ordinal = kHost;
  /// If the ranks' places do not allow the way that is asked for, collectives pass through the
  /// host. CCOLL_DEVICE_WAY.
  DeviceWay way = DeviceWay::automatic;
  /// Pinned memory of the host through which calls in streams are copied, in bytes, at least 1. It
  /// suffices for collectives and messages of any size, which wait for room in their streams.
  /// Collectives of graphs, and what docs/gpu.md lists, have memory beside it
  /// (Counters::device_memory_bytes). Later communicators of the process use it again; CUDA gets
  /// it back when no communicator and no graph with calls of one is left.
  std::size_t staging_bytes = std::size_t{64} << 20;
  /// GPU memory of a communicator whose collectives GPUs make, in bytes, at least 1: for all ranks
  /// of a team on one GPU together, else for each rank. Kernels take 7 MiB more, for
  /// flags and programs (Counters::device_workspace_bytes).
  std::size_t workspace_bytes = std::size_t{32} << 20;
  /// The most blocks of threads that a GPU runs for one collective; the rest is left to other
  /// kernels. Collectives that need more pass through the host. 0: as many as the GPU runs at once,
  /// but 16 for each rank by kernels of several processes, and 32 by steps. CCOLL_DEVICE_BLOCKS.
  std::size_t blocks = 0;
  /// Copies are not used on memory that another GPU of the team cannot reach. They are tried when
  /// the communicator is made: if that fails, it logs a warning, and they are not used either. By
  /// steps only `always` makes copies, through memory that all ranks share. An abort does not end
  /// copies that have begun. CCOLL_DEVICE_COPIES.
  DeviceCopies copies = DeviceCopies::by_size;
  /// For messages in streams between ranks that RDMA serves: if network card and GPU can do it
  /// (docs/gpu.md), they go from and to memory of the GPU without a copy on the host. This holds
  /// for messages above CommunicatorOptions::eager_limit, and not with `checksum`. The first such
  /// message of a pair, in either direction, is copied: it brings the link. Messages of graphs stay
  /// as they were captured. CCOLL_GPU_DIRECT.
  bool direct_messages = false;
};

}  // namespace ccoll

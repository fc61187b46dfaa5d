// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a communicator and a single call are made. Every field has a default that is right for most
/// programs; the variables that are named set it from outside (docs/environment.md).

#include <chrono>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "ccoll/device.hpp"
#include "ccoll/tls.hpp"
#include "ccoll/version.hpp"

namespace ccoll {

class Work;

/// As a time limit: none. A limit of more than a year is none, too.
inline constexpr std::chrono::milliseconds kNoLimit = std::chrono::milliseconds::max();

/// How one call is made. Every rank passes the same, except for the label and the stream.
struct CallOptions {
  /// How long the call may take; 0: the communicator's own limit; kNoLimit: as long as it likes.
  /// Below 0 is Error{invalid_argument}.
  std::chrono::milliseconds timeout{0};
  /// "ring", "double_tree", …; empty: the communicator's, else the cost model's choice. An
  /// algorithm that the collective does not have is Error{invalid_argument}. Messages ignore it.
  std::string_view algorithm = {};
  /// The caller's name for the call ("gradients of layer 3"). It stands in this rank's errors about
  /// the call, and in every rank's error where other ranks made another call.
  std::string_view label = {};
  /// The CUDA stream in whose order the call takes place (ccoll/device.hpp); nullptr is the default
  /// stream. It is a stream of this rank's device (Error{invalid_argument} otherwise).
  std::optional<cudaStream_t> stream = {};
  /// If a blocking collective is not over after some microseconds, it puts its Work here, returns,
  /// and has the buffers until the Work is over. So a caller that holds a lock pays no more than a
  /// blocking call costs that ends at once. Work() means that the call is over. nullptr: the call
  /// waits. A call in a stream hands its Work back at once. Calls in an open group ignore it;
  /// messages and byte strings wait.
  Work* unfinished = nullptr;
};

/// The colour of a rank that is to be in no part of a split.
inline constexpr int kNoColor = -1;

/// How a communicator is made from another; what is not set is as in that one.
struct GroupOptions {
  /// Begins the communicator's errors; empty: made from the other's name. Ranks may differ.
  std::string name = {};
  /// The limit of every call that gives none; 0: as in the other; kNoLimit: none. Below 0 is
  /// Error{invalid_argument}.
  std::chrono::milliseconds timeout{0};
};

/// How ranks of one host use shared memory. Ranks may differ.
struct SharedMemoryOptions {
  /// The most bytes that the slots of this rank's links in shared memory may keep, of all its
  /// communicators. Links take little of the last quarter, because they give back slots that were
  /// read. A link that finds nothing left uses the next transport. CCOLL_SLOT_MEMORY, in MiB.
  std::size_t slot_bytes = std::size_t{256} << 20;
  /// Ranks of a host may read data that this rank sends directly from ordinary memory, by
  /// process_vm_readv(2), and this rank may read theirs: one copy instead of two. Each link tries
  /// it when it is made. If one of the two ranks does not want it, or the kernel forbids it then or
  /// later (ptrace_scope, seccomp, lost privileges, memory of a device), data pass through shared
  /// slots. CCOLL_SINGLE_COPY.
  bool single_copy = true;
  /// Memory of this process that other ranks read again and again may become huge pages, by
  /// madvise(2)'s MADV_COLLAPSE if the system allows it. Bytes and addresses stay as they are,
  /// and only memory that a forked child shares takes more room. Large memory is then read up to
  /// three times as fast. CCOLL_HUGE_PAGES.
  bool huge_pages = true;
};

/// How a communicator is made and works. All ranks give the same `token`, `transport`,
/// `algorithm`, `max_lanes`, `deterministic`, `checksum`, `device.way` and
/// `device.direct_messages`: Error{mismatch} if one of the last seven differs. DeviceOptions says
/// what ranks with a GPU share. Ranks may differ in everything else.
struct CCOLL_API CommunicatorOptions {
  /// Begins the communicator's errors; empty: "world", which begins none. Ranks may differ.
  std::string name = {};
  /// The limit of every call that gives none; more than 0, or kNoLimit. CCOLL_TIMEOUT, in seconds.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// The limit of start-up; more than 0, or kNoLimit. CCOLL_START_TIMEOUT, in seconds.
  std::chrono::milliseconds start_timeout = std::chrono::seconds(60);
  /// Once a stop is requested, create() throws Error{aborted} within 1 s, whatever it waits for,
  /// and so do the other ranks that have met this one. If a store of the caller's own is busy, it
  /// waits until the store's function returns. A stop ends nothing in a communicator that has been
  /// made.
  std::stop_token start_stop = {};
  /// If a call or message has not moved for this long, the log warns of it once: with the ranks
  /// that it waits for, and what they do. Start-up reports which ranks are missing after at most
  /// 10 s, and then at this interval. Nothing ends by that. 0: never. Ranks may differ.
  /// CCOLL_WARN_AFTER, in seconds.
  std::chrono::milliseconds warn_after = std::chrono::seconds(60);
  /// A rank counts as lost when its control peers have heard nothing from it for this long: its
  /// process was stopped, or its host or network has gone. Ranks say something ten times as often,
  /// whatever their program does, and the shortest limit of any rank counts. At least 100 ms; 0:
  /// this rank counts nobody as lost for silence, and calls find such a rank by their time limits.
  /// If all ranks are stopped together, none is lost. A function of the caller's that runs in the
  /// background (a Reduction's, in an asynchronous call) must return well within the limit.
  /// CCOLL_HEARTBEAT, in seconds.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
  /// "tcp", "verbs", "shm", "inproc", or empty: the best that both ends of a pair have. "shm,tcp":
  /// the best of these; "^verbs,shm": the best of all but these. CCOLL_TRANSPORT.
  std::string transport = {};
  /// An algorithm for every call that has it; empty: by cost. CCOLL_ALGO.
  std::string algorithm = {};
  /// The most parallel lanes of an algorithm, up to 1024; 0: by cost. CCOLL_LANES.
  int max_lanes = 0;
  /// Reductions of floats give bits that depend on the contributions and their ranks alone,
  /// whatever the size of the call, the operation, the transport and the hosts. Each element is one
  /// sum (product, average) from rank 0 up, rounded as ReduceOp says for one step. Only algorithms
  /// that combine everything in one step are then used for them (one_shot, two_shot, linear).
  /// Without it, results are the same on all ranks, and from run to run for equal calls on equal
  /// ranks and hosts under the same tuning file. CCOLL_DETERMINISTIC.
  bool deterministic = false;
  /// Data over TCP and RDMA carry a CRC32C. A flipped bit, which TCP's own 16-bit sum may miss, is
  /// Error{corrupt} on all ranks that names the link. CCOLL_CHECKSUM.
  bool checksum = false;
  /// Messages of up to this many bytes are sent without waiting for their receive; at most
  /// 128 KiB. CCOLL_EAGER_LIMIT.
  std::size_t eager_limit = 64 << 10;
  /// Every send waits for its receive, whatever its size: finds programs that only work as long as
  /// messages are small. CCOLL_STRICT_SENDS.
  bool strict_sends = false;
  /// Interface for connections, by name or prefix; empty: the route to the store (Store::address;
  /// loopback if it has none). CCOLL_SOCKET_IFNAME.
  std::string interface = {};
  /// "ipv4" or "ipv6": the kind of this rank's address; empty: the route's kind, or that of the
  /// interface's first address. Ranks may differ as long as they reach each other.
  /// CCOLL_SOCKET_FAMILY.
  std::string socket_family = {};
  /// The job's token; empty: none, and then only loopback addresses. CCOLL_TOKEN_FILE.
  std::string token = {};
  /// For the connections to the store and between control paths. All ranks give the same `mode`.
  TlsOptions tls = {};
  SharedMemoryOptions shm = {};
  DeviceOptions device = {};

  /// The defaults with what the environment sets. Throws Error{invalid_argument} if a variable is
  /// none of its words or no number in its range, or if the token's file cannot be read.
  static CommunicatorOptions from_environment();
};

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The communicator: a group of ranks and the collectives they run together.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/blocks.hpp"
#include "ccoll/buffer.hpp"
#include "ccoll/counters.hpp"
#include "ccoll/environment.hpp"
#include "ccoll/message.hpp"
#include "ccoll/reduction.hpp"
#include "ccoll/store.hpp"
#include "ccoll/stream.hpp"
#include "ccoll/tls.hpp"
#include "ccoll/types.hpp"
#include "ccoll/unique_id.hpp"

namespace ccoll {

/// How one call is to be made; every rank passes the same, but for the label and the stream.
struct CallOptions {
  /// How long the call may take; zero: the communicator's own limit. Below 0 is
  /// Error{invalid_argument}.
  std::chrono::milliseconds timeout{0};
  /// "ring", "double_tree", …; empty: the communicator's, else the cost model's choice. One that
  /// the collective has not is Error{invalid_argument}. Messages (send, recv, probe, batch) have
  /// none and do not look at it.
  std::string_view algorithm = {};
  /// What the caller calls it ("gradients of layer 3"): stands in this rank's errors about the
  /// call, and beside it in every rank's where other ranks made another one.
  std::string_view label = {};
  /// The CUDA stream in whose order the call takes place; nullptr is the default stream. For ranks
  /// with a device (CommunicatorOptions::device), of that device: another is
  /// Error{invalid_argument}. See "Calls in streams" at Communicator.
  std::optional<cudaStream_t> stream = {};
};

/// As CommunicatorOptions::device: the rank's data are memory of the host.
inline constexpr int kHost = -1;

/// How a communicator is made from another; what is not set is as in that one.
struct GroupOptions {
  /// Stands before the communicator's errors; empty: made from the other's name. Ranks may differ.
  std::string name = {};
  /// The limit of every call that gives none; zero: as in the other. Below 0 is
  /// Error{invalid_argument}.
  std::chrono::milliseconds timeout{0};
};

/// The colour of a rank that is to be in no part of a split.
inline constexpr int kNoColor = -1;

/// An operation under way. Copies share it, and any threads may use them at once.
///
/// The call's buffers belong to the operation until it is over: wait() has returned, or test() is
/// true. Dropping every copy neither cancels it nor gives the buffers back. Closing its
/// communicator ends it, with Error{aborted} where it was not over before.
class CCOLL_API Work {
 public:
  /// Of no operation: over, without an error.
  Work() = default;
  /// Waits until it is over and throws its error if it failed. Where `timeout` passes first it
  /// throws Error{timed_out} and the operation goes on, as test() tells; the call's own limit, an
  /// Error{timed_out} too, ends it. Zero or less: no limit but the call's own. In an open group,
  /// see group_end.
  void wait(std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
  /// Makes progress without waiting; true once the operation is over, well or not.
  bool test();
  /// The error's text; empty where there is none, or not yet.
  std::string error() const;
  /// What came, once it is over: of its only receive, or of a batch's `receive`-th. Throws the
  /// error of a receive that failed, and Error{invalid_argument} before it is over or where it has
  /// no such receive.
  Received received(std::size_t receive = 0) const;

  struct CCOLL_HIDDEN State;  ///< ccoll's own
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

/// How a communicator is made and works. All ranks give the same `token`, `transport`, `algorithm`,
/// `max_lanes`, `deterministic`, `checksum`, `device_way` and `gpu_direct` (Error{mismatch} where
/// one of the last seven differs), and those with a GPU the same `device_workspace`,
/// `device_blocks` and `device_copies`; the others may differ.
struct CCOLL_API CommunicatorOptions {
  /// Stands before the communicator's errors; empty: "world", which does not. Ranks may differ.
  std::string name = {};
  /// The limit of every call that gives none; more than 0. A very long one, up to
  /// milliseconds::max(), is a year: as good as none. CCOLL_TIMEOUT, in seconds.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// The limit of start-up; more than 0, and as long as `timeout` may be. CCOLL_START_TIMEOUT, in
  /// seconds.
  std::chrono::milliseconds start_timeout = std::chrono::seconds(60);
  /// A rank whose process is stopped, or whose host or network has gone, closes no connection: it
  /// counts as lost when its control peers have heard nothing from it for so long, though ranks say
  /// something ten times as often, whatever their program does; the shortest limit of any rank
  /// counts. At least 100 ms; 0: this rank counts nobody as lost who is only silent, which is then
  /// found by the calls' time limits. A process that is stopped together with all others loses
  /// nobody. A function of the caller's that runs in the background (a Reduction's, of an
  /// asynchronous call) must return well within it. CCOLL_HEARTBEAT, in seconds.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
  /// "tcp", "verbs", "shm", "inproc", or empty: the best that both ends of a pair have.
  /// CCOLL_TRANSPORT.
  std::string transport = {};
  /// An algorithm for every call that has it; empty: by cost. CCOLL_ALGO.
  std::string algorithm = {};
  /// Most copies of an algorithm's lanes, up to 1024; 0: by cost. CCOLL_LANES.
  int max_lanes = 0;
  /// Reductions of floats give bits that depend on the contributions and their ranks alone: each
  /// element is one sum (product, average) from rank 0 up, rounded as ReduceOp tells of one step,
  /// whatever the size of the call, the operation, the transport and the hosts. Only algorithms
  /// that combine all in one step are then used (one_shot, two_shot, linear); others that
  /// `algorithm` names, for what needs no such care. Without it, results are the same on all ranks,
  /// and from run to run for equal calls on equal ranks and hosts under the same tuning file.
  /// CCOLL_DETERMINISTIC.
  bool deterministic = false;
  /// What travels over TCP or RDMA carries a CRC32C: a flipped bit, which TCP's own 16-bit sum may
  /// miss, is Error{corrupt} on all ranks that names the link. CCOLL_CHECKSUM.
  bool checksum = false;
  /// Messages up to so many bytes are sent without waiting for their receive; at most 128 KiB.
  /// CCOLL_EAGER_LIMIT.
  std::size_t eager_limit = 64 << 10;
  /// Most bytes that the slots of this rank's links in shared memory may take, all communicators
  /// that are made from this one included; links for which none are left use the next transport.
  /// CCOLL_SLOT_MEMORY, in MiB.
  std::size_t slot_memory = std::size_t{256} << 20;
  /// What this rank sends from ordinary memory to ranks of its host may be read by them where it
  /// lies, by process_vm_readv(2), and it may read what they send so: one copy instead of two.
  /// Tried for each link when it is made; where the kernel forbids it then or later (ptrace_scope,
  /// seccomp, lost privileges, memory of a device), or one of the two does not want it, slices go
  /// through shared slots. CCOLL_SINGLE_COPY.
  bool single_copy = true;
  /// Memory of this process that other ranks read so again and again, or where it is registered,
  /// may be put together to huge pages, by madvise(2)'s MADV_COLLAPSE where the system allows such
  /// pages: the bytes and addresses stay as they are, and no more memory is taken, but for what a
  /// forked child shares. Large memory is read up to three times as fast then. CCOLL_HUGE_PAGES.
  bool huge_pages = true;
  /// Where this rank's data are: the number of a GPU, as CUDA counts them in this process, or
  /// kHost. Ranks may differ, and several may have one GPU. Below kHost is
  /// Error{invalid_argument}; a GPU that is not there, or a build without CUDA, Error{unsupported}.
  int device = kHost;
  /// Pinned memory of the host through which calls in streams of a communicator are copied, in
  /// bytes: enough for collectives of any size, which wait for room in their streams and, if large,
  /// are made in parts, and for messages, whose bytes pass through it piece by piece. Collectives
  /// of graphs and what docs/gpu.md excepts have memory beside it, kept for the next:
  /// Counters::device_memory_bytes. What a communicator had serves the next of the
  /// process; CUDA gets it back when there is none, and no graph with calls of one. At least 1.
  std::size_t device_memory = std::size_t{64} << 20;
  /// How devices make collectives where all ranks have one: "team", a kernel on each GPU: for all
  /// ranks of one process, or of several processes of a host with a GPU for each rank; "steps", of
  /// each rank's stream: for ranks of a host, also where a team would be; "host", not at all;
  /// empty: the first that the ranks' places allow. One that they do not allow is "host".
  /// CCOLL_DEVICE_WAY.
  std::string device_way = {};
  /// Of a GPU's memory, what each communicator whose collectives devices make takes for itself, in
  /// bytes: of a team for all its ranks on the GPU together, else for each rank. Kernels take 7 MiB
  /// more, for flags and programs: Counters::device_workspace_bytes. At least 1.
  std::size_t device_workspace = std::size_t{32} << 20;
  /// How many blocks of threads at most a GPU runs for a collective that it makes: the rest is left
  /// to other kernels. Collectives that cannot do with so few go through the host. 0: as many as it
  /// runs at once, but 16 of each rank by kernels of several processes, and 32 by steps. Where
  /// others of the process need room beside them (docs/gpu.md), fewer. CCOLL_DEVICE_BLOCKS.
  std::size_t device_blocks = 0;
  /// Whether a team's all_gather and all_to_all on memory of the GPU are copies, which need no
  /// multiprocessor: "always", "never", or empty: where they are large. Between several GPUs they
  /// are none on memory that one of these does not reach, nor where copies turn out not to work
  /// when the communicator is made, which is a warning. By steps only "always" makes them copies,
  /// through memory that all ranks share. Copies that are under way are not ended by an abort.
  /// CCOLL_DEVICE_COPIES.
  std::string device_copies = {};
  /// Messages in streams above `eager_limit` between ranks that RDMA serves go from and to memory
  /// of a rank's `device` without a copy on the host, where network card and GPU can do that
  /// (docs/gpu.md says which do, and that nobody has run it on a card yet); not with `checksum`.
  /// Each pair's first such message, in either direction, is copied: with it comes the link. Those
  /// of graphs go for ever as when they were captured. CCOLL_GPU_DIRECT.
  bool gpu_direct = false;
  /// Every send waits for its receive, whatever its size: finds programs that only work as long as
  /// messages are small. CCOLL_STRICT_SENDS.
  bool strict_sends = false;
  /// Interface for connections, by name or prefix; empty: the route to the
  /// store (Store::address; loopback where it has none).
  /// CCOLL_SOCKET_IFNAME.
  std::string interface = {};
  /// The job's token; empty: none, and then only loopback addresses. CCOLL_TOKEN_FILE.
  std::string token = {};
  /// Of the connections to the store and between control paths. All ranks give the same `mode`.
  TlsOptions tls = {};

  /// The options with what the environment sets. Throws Error{invalid_argument} where a variable
  /// is none of its words, or no number in its range, or the token's file cannot be read.
  static CommunicatorOptions from_environment();
};

/// A group of ranks. Movable, not copyable; of one that was moved from or closed every call is
/// Error{aborted}. Its collectives are called by every rank in the same order with matching
/// arguments; a difference is an Error{mismatch} that names both sides. A rank whose own part was
/// over before the difference could show (it only sent, say) may learn of it at its next call or at
/// close.
///
/// Counts are in elements. Buffers may be of any alignment; input and output are either the same
/// memory where a call says so, or do not overlap. Blocking calls return when the caller's buffers
/// may be reused; `*_async` ones at once.
///
/// Calls in streams: a call with CallOptions::stream takes place in the order of that CUDA stream.
/// It reads its buffers once what was put into the stream before it is done, its results are there
/// for what is put there later, and it returns at once: neither waits for the device, nor for other
/// ranks. Its buffers are memory of the rank's GPU or of the host, and belong to the call until the
/// stream has passed it. `*_async` forms return a Work for the host's view, over when the results
/// are there; what a blocking recv, send_recv or batch returns says nothing, and a message that
/// does not fit it shows in the Work alone. Its time limit begins when the stream comes to it.
///
/// Where every rank has a GPU and all are on one host, devices make collectives (not messages,
/// v-operations, calls of several buffers, pre-multiplied sums and functions of the caller's own)
/// by themselves, and no data go through the host: CommunicatorOptions::device_way. So all such
/// calls of the communicator then take place in streams, also those without a stream and with
/// memory of the host alone, which a rank copies to where its device reads it; a communicator whose
/// calls are to stay on the host is made beside, without a device. Ranks that are threads of one
/// process are a team: a kernel on each of their GPUs. Such a team's calls return when all have
/// made them, within the call's time limit, which then begins 50 ms after the call at the latest;
/// one thread makes them for several ranks in a CallGroup, at whose end they take their place in
/// the streams. (Of several processes kernels make what ranks with a GPU each call, and streams
/// what others do, whose calls return at once.)
///
/// An error shows in the Work, in the next call, and in error(). By then the stream goes on, and
/// the results of what it had not passed are undefined; a Work tells it once the stream has passed,
/// or after 5 s, and adds that the buffers may still be read and written. So does what abort()
/// ends. The stream of a team's rank goes on when those of the others have come to the call, too.
///
/// In a group such a call only begins, and the group's end does not wait for it; blocking sends and
/// receives in one stream begin together at the group's end, as a batch, behind what else the group
/// has put into it: a collective that needs what they bring is called after the group. Outside of
/// one, a receive holds back what comes behind it in its stream: what two ranks send each other
/// they send by send_recv, a batch, a group, or in two streams. Messages of different streams may
/// overtake one another; those without a stream keep their order, wherever their buffers are. Who
/// calls in several streams does so in an order in which the calls can end. Ranks of one process
/// have streams of their own (better with cudaStreamNonBlocking): in one that they share, also the
/// default stream, each would wait for those that come behind it. More streams than
/// CUDA_DEVICE_MAX_CONNECTIONS (8) in one process may wait for each other as if they were one.
///
/// Captured, such a call becomes part of a graph, which may run any number of times, never beside
/// itself, however often it was instantiated, nor beside another call or graph of the communicator:
/// one comes after the other, in one stream or by events (a team whose kernels find each other on
/// their GPU ends them: Error{aborted}). All ranks run theirs as often, in the same order among all
/// their calls, also those without a stream: who calls without one waits for the graph first. When
/// the communicator has failed or is gone, a graph runs on with undefined results. The `*_async`
/// form returns the Work of no operation. Ranks of one process that are a team are captured in one
/// graph, whose calls count as none of the communicator's; captured in graphs of their own, the
/// host makes the call, and one rank that is captured beside another that is not is
/// Error{mismatch}.
///
/// Without a stream, memory of a GPU is taken, too, where this rank has a device or the process
/// used CUDA before the communicator was made: the call begins once what CUDA's default stream has
/// had before it is done, and its results are there when it returns, or its Work is over. Not in
/// streams: probes, byte strings, and what makes communicators.
///
/// Different communicators may be used by different threads at once. Of one communicator, any
/// thread may make asynchronous calls, send and receive, where the threads see to it that
/// collectives are begun in the same order on every rank; a blocking collective while another
/// thread is in one is Error{invalid_argument} for the second.
///
/// Errors about a communicator speak of ranks by their numbers in it, and begin with its name where
/// it has one or is a part of another. What breaks one communicator does not break others, not even
/// of the same ranks; a rank that is lost breaks those that it was in.
///
/// It stays with the process that made it: in a forked child every call is Error{aborted}, and its
/// end touches nothing of the parent's. A child may make communicators of its own.
///
/// After a failure the communicator is broken, on every rank: what is under way ends, and further
/// calls fail at once with the first cause; shrink() makes a new one. These break nothing:
/// - a call that is refused with Error{invalid_argument}: nothing was sent; other ranks that made
///   it wait for this one until their time limit, or until it is called rightly
/// - a receive whose message does not fit it: Error{mismatch} of that receive alone
/// - the time limit of probe, and that of Work::wait, whose operation goes on
/// - a subgroup that does not come about (Error{mismatch} or Error{timed_out}), and a Mesh whose
///   axes differ: the communicator that they were to be made from is as good as before
class CCOLL_API Communicator {
 public:
  /// As the environment says (see Environment::detect); one rank, alone, when it says nothing.
  ///
  /// All forms of create throw
  /// - Error{invalid_argument}: what is given or set in the environment cannot be right, such as a
  ///   rank, the name of a transport or an algorithm, an interface, a token's file
  /// - Error{timed_out}: the store did not answer, or not all ranks came, within `start_timeout`;
  ///   it names those missing. So do ranks that were told different sizes wait for each other
  /// - Error{mismatch}: ranks were started with different options
  /// - Error{unsupported}: the transport that was asked for does not reach a rank
  /// - Error{exhausted}: threads, descriptors or ports ran out
  /// - Error{peer_lost}: a rank or the store's server went away meanwhile
  /// - what a store of the caller's own throws: an Error with its kind, all else as Error{internal}
  static Communicator create(
      const CommunicatorOptions& options = CommunicatorOptions::from_environment());
  /// As `environment` says.
  static Communicator create(const Environment& environment, const CommunicatorOptions& options);
  /// Of `size` ranks that meet at `store`. Collective: returns when all have come.
  static Communicator create(std::shared_ptr<Store> store, int rank, int size,
                             const CommunicatorOptions& options = {});
  /// Of the `size` ranks that were handed the same `id` (see UniqueId). An id makes one
  /// communicator: another attempt, also after a failure, is Error{invalid_argument}. Collective:
  /// returns when all have come.
  static Communicator create(
      const UniqueId& id, int rank, int size,
      const CommunicatorOptions& options = CommunicatorOptions::from_environment());
  /// All `size` ranks in this process, by rank: for one thread that drives several (see
  /// CallGroup), and for threads that take one each. `devices` are theirs, one for each, in place
  /// of `options.device`, which all have where it is empty. They come in a thread each; where some
  /// fail, the first one's error is thrown when all have ended.
  static std::vector<Communicator> create_all(
      int size, const CommunicatorOptions& options = CommunicatorOptions::from_environment(),
      std::span<const int> devices = {});
  /// The same for some `ranks` of a job of `size`, in that order; other processes make the others.
  static std::vector<Communicator> create_all(
      const UniqueId& id, std::span<const int> ranks, int size,
      const CommunicatorOptions& options = CommunicatorOptions::from_environment(),
      std::span<const int> devices = {});

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Gives up what is under way, which ends with Error{aborted}, and leaves; waits at most 1 s for
  /// peers to hear of it. So wait for every Work before, also for an eager send_async's: what was
  /// over arrives, what was not may never. What close would throw is written to standard error (but
  /// not the loss of a peer). Other threads may be in calls of this communicator: those end at once
  /// with Error{aborted}, one that is in a function of the caller's once that returns, and it
  /// returns when they have. They must begin no others.
  ///
  /// In the function of a reduction, while a call of this very communicator is in it on the same
  /// thread, it cannot end: it says so on standard error, and that call goes on. What it uses stays
  /// until the process ends; the other ranks hear no goodbye before.
  ~Communicator();
  /// The same, and throws what no call of this rank could report any more: its part may have been
  /// over before it showed that another rank made a different call (a last broadcast to which each
  /// of two ranks sent as the root). To find that, a rank that closes tells its ring neighbours its
  /// last 8 calls, and they compare; it waits until they have them, 200 ms at most. Of ranks that
  /// close at once somebody is told. Not collective: a rank that closes its last communicator
  /// before another has made its call does not learn of it; that one does, from its call or close.
  /// In the function of a reduction that a call of this communicator is in on the same thread, it
  /// is Error{invalid_argument}, and the communicator is as before. Whatever else it throws, the
  /// communicator has ended, as if moved from.
  void close();
  /// Ends what is under way in this communicator, on every rank, with an Error{aborted} that has
  /// this rank and `reason` in it, and breaks it: as if a call had failed. From any thread,
  /// whatever the others are doing, also before anything has failed; it waits for nobody and
  /// returns at once. Threads that are in calls of this communicator return within 1 s, on every
  /// rank; one that is in a function of the caller's just then, once that returns. So do those of
  /// other ranks where that function runs in the background here, or reads what they lent it as
  /// threads of its process. A shrink() goes on; of a communicator that is broken nothing is left
  /// to abort.
  void abort(std::string_view reason = {});

  int rank() const;
  int size() const;
  /// As its options said, else made up: "world", "world/split1:0", "world/group(ranks 0-2)".
  const std::string& name() const;
  /// The first cause where the communicator is broken, or the loss of one of its ranks, as a call
  /// would be told; empty else. From any thread; waits for nothing, and moves nothing on.
  std::string error() const;

  /// The rank in `other` of rank `rank` of this communicator; nothing if `other` has it not. Both
  /// belong to one job (Error{invalid_argument} otherwise). Local; O(log size).
  std::optional<int> rank_in(const Communicator& other, int rank) const;
  /// What rank `rank` was in the communicator that create() made. Local.
  int job_rank(int rank) const;

  /// How data travels to rank `peer`: "inproc", "shm", "verbs", "tcp". Ranks that turn out to be
  /// unable to share memory use TCP, known once links have been opened.
  std::string transport_to(int peer) const;
  /// The algorithm that such a call uses: "ring". `operation` is a collective's name; `count` and
  /// `type` are the call's, of a v-operation the mean block's; a barrier has none. The root is rank
  /// 0. No Reduction is asked for: one that does not commute takes the best of those algorithms
  /// that keep the rank order, which may be another. Local, as is explain. Throws
  /// Error{invalid_argument} where there is no such operation, and where that call is refused.
  std::string algorithm_for(std::string_view operation, std::size_t count, DataType type,
                            const CallOptions& options = {}) const;
  /// Why: the candidates with their predicted times and roundings, and the reason, as a table.
  /// Where devices make such calls, a line before it says so, and by which way.
  std::string explain(std::string_view operation, std::size_t count, DataType type,
                      const CallOptions& options = {}) const;

  /// What this rank's flight recorder holds, as JSON (docs/diagnosis.md): its last 256 collectives
  /// and its last 256 sends and receives here, and for each operation under way how far it has come
  /// and which ranks it waits for. Also of a communicator that is broken. Local; from any thread.
  std::string dump() const;

  /// What went to and came from each other rank so far, and what was lost to whom; see Counters.
  /// Always counted, also of a communicator that is broken. Local; from any thread: it may have to
  /// wait for a moment until one that is in a call lets it in.
  Counters counters() const;

  /// A new communicator of the same ranks. Collective; sends nothing, but where devices of several
  /// processes make its collectives: it then returns when all have called it, or, broken, once its
  /// time limit has passed.
  Communicator duplicate(const GroupOptions& options = {});
  /// Parts the ranks by `color`: a new communicator of those that gave the same, ordered by `key`,
  /// equal keys by rank. Nothing for a rank that gave kNoColor; other colours are at least 0.
  /// Collective over all ranks of this communicator, also those without a colour.
  std::optional<Communicator> split(int color, int key, const GroupOptions& options = {});
  /// A new communicator of `ranks` (of this one), in that order. Collective over those ranks only:
  /// who is not in the list must not call (Error{invalid_argument}). Returns when all of them have
  /// come. Two ranks that wait for each other with different lists get Error{mismatch} naming both;
  /// this communicator is then as good as before, but that none of these lists can be made of it
  /// any more (of its duplicate they can): whoever tries gets that error.
  Communicator subgroup(std::span<const int> ranks, const GroupOptions& options = {});
  Communicator subgroup(std::initializer_list<int> ranks, const GroupOptions& options = {}) {
    return subgroup(std::span(ranks.begin(), ranks.size()), options);
  }

  /// A new communicator of those of its ranks that are still there, in their order: how the others
  /// go on after some were lost. Every rank that is left must call it, of a broken communicator or
  /// of one that is as good as new. Who was lost, has left, or has closed this communicator, is not
  /// waited for; all others are, within the new communicator's time limit (`options.timeout`, or
  /// this one's), however many are lost meanwhile, rank 0 too.
  ///
  /// The ranks agree on who is gone: no two of them make different communicators of each other. A
  /// rank that dies while they agree may still be counted in. Then the new communicator breaks in
  /// turn, on all its ranks, and can be shrunk itself; so call it on the newest in a loop until a
  /// call succeeds. Where the failure was no loss (a mismatch, a time limit), all ranks are in it.
  /// This communicator stays as it was; shrinking it again is another roll call of all its ranks.
  /// Every rank passes on a few short messages of each other; no store is needed. Not between
  /// group_begin and group_end, and by one thread at a time (Error{invalid_argument}). Throws
  /// - Error{timed_out} on all ranks, once they come also on those that did not come in time, which
  ///   it names. It breaks nothing: call it again for the next attempt
  /// - Error{peer_lost} on a rank that the others count as lost: it lives, but its control
  ///   connections had ended. It can only close
  /// - Error{exhausted}: no descriptors or memory for the new communicator, which is then broken
  ///   for the others, too
  Communicator shrink(const GroupOptions& options = {});

  // Every operation comes untyped (`void*`, counts and a DataType) and, below, typed.
  //
  // Rooted operations: what is not used on a rank may be null there.

  /// output = op over all ranks' inputs; `count` elements in either. In place: input == output.
  void all_reduce(const void* input, void* output, std::size_t count, DataType type,
                  const Reduction& op = ReduceOp::sum, const CallOptions& options = {});
  Work all_reduce_async(const void* input, void* output, std::size_t count, DataType type,
                        const Reduction& op = ReduceOp::sum, const CallOptions& options = {});

  /// The root's output = op over all ranks' inputs; `count` elements in either. Other ranks'
  /// buffers stay as they were. In place at the root: input == output.
  void reduce(const void* input, void* output, std::size_t count, DataType type,
              const Reduction& op, int root, const CallOptions& options = {});
  Work reduce_async(const void* input, void* output, std::size_t count, DataType type,
                    const Reduction& op, int root, const CallOptions& options = {});

  /// Everyone's output = the root's input; `count` elements in either. In place: input == output
  /// (MPI_Bcast's form).
  void broadcast(const void* input, void* output, std::size_t count, DataType type, int root,
                 const CallOptions& options = {});
  Work broadcast_async(const void* input, void* output, std::size_t count, DataType type, int root,
                       const CallOptions& options = {});

  /// output block r = rank r's input; `count` elements per rank, size() × count in the output.
  /// In place: input == output + rank × count.
  void all_gather(const void* input, void* output, std::size_t count, DataType type,
                  const CallOptions& options = {});
  Work all_gather_async(const void* input, void* output, std::size_t count, DataType type,
                        const CallOptions& options = {});

  /// output = op over all ranks' input block `rank`; `count` elements in the output, size() × count
  /// in the input. In place: output == input + rank × count.
  void reduce_scatter(const void* input, void* output, std::size_t count, DataType type,
                      const Reduction& op = ReduceOp::sum, const CallOptions& options = {});
  Work reduce_scatter_async(const void* input, void* output, std::size_t count, DataType type,
                            const Reduction& op = ReduceOp::sum, const CallOptions& options = {});

  /// output block r = rank r's input block `rank`; `count` elements per block, size() × count in
  /// the input and in the output. Not in place.
  void all_to_all(const void* input, void* output, std::size_t count, DataType type,
                  const CallOptions& options = {});
  Work all_to_all_async(const void* input, void* output, std::size_t count, DataType type,
                        const CallOptions& options = {});

  /// The root's output block r = rank r's input of `count` elements; size() × count in the output.
  /// In place at the root: input == output + root × count.
  void gather(const void* input, void* output, std::size_t count, DataType type, int root,
              const CallOptions& options = {});
  Work gather_async(const void* input, void* output, std::size_t count, DataType type, int root,
                    const CallOptions& options = {});

  /// Rank r's output of `count` elements = the root's input block r; size() × count in the input.
  /// In place at the root: output == input + root × count.
  void scatter(const void* input, void* output, std::size_t count, DataType type, int root,
               const CallOptions& options = {});
  Work scatter_async(const void* input, void* output, std::size_t count, DataType type, int root,
                     const CallOptions& options = {});

  /// Returns when every rank has come.
  void barrier(const CallOptions& options = {});
  Work barrier_async(const CallOptions& options = {});

  // Operations over blocks of different sizes (MPI's v-operations). A rank's block is of the size
  // that it and its counterpart give, also 0. A list has size() blocks, by rank. Blocks may lie
  // anywhere (see blocks() for those that lie one after another) and must not overlap where they
  // are written. All of one call are of one type.

  /// outputs[r] = rank r's input. Every rank gives all sizes, the same (Error{mismatch} otherwise).
  /// In place: input and outputs[rank] are the same memory.
  void all_gather_v(const ConstBlock& input, std::span<const Block> outputs,
                    const CallOptions& options = {});
  Work all_gather_v_async(const ConstBlock& input, std::span<const Block> outputs,
                          const CallOptions& options = {});

  /// output = op over all ranks' inputs[rank]. Every rank gives all sizes, the same
  /// (Error{mismatch} otherwise). In place: output and inputs[rank] are the same memory.
  void reduce_scatter_v(std::span<const ConstBlock> inputs, const Block& output,
                        const Reduction& op = ReduceOp::sum, const CallOptions& options = {});
  Work reduce_scatter_v_async(std::span<const ConstBlock> inputs, const Block& output,
                              const Reduction& op = ReduceOp::sum, const CallOptions& options = {});

  /// outputs[r] = rank r's inputs[rank]: outputs[r] here is as long as inputs[rank] there. Two
  /// ranks whose sizes for each other differ get Error{mismatch}. Not in place.
  ///
  /// Among more than 64 ranks nothing travels between two that both give 0. Where only one of them
  /// does, the other waits until its time limit if it is the receiver; if it is the sender, the
  /// receiver gets Error{mismatch} in a later call that takes 50 ms, or at close.
  void all_to_all_v(std::span<const ConstBlock> inputs, std::span<const Block> outputs,
                    const CallOptions& options = {});
  Work all_to_all_v_async(std::span<const ConstBlock> inputs, std::span<const Block> outputs,
                          const CallOptions& options = {});

  /// The root's outputs[r] = rank r's input; `outputs` is used at the root only. Sizes that differ
  /// are Error{mismatch}. In place at the root: input and outputs[root] are the same memory.
  void gather_v(const ConstBlock& input, std::span<const Block> outputs, int root,
                const CallOptions& options = {});
  Work gather_v_async(const ConstBlock& input, std::span<const Block> outputs, int root,
                      const CallOptions& options = {});

  /// Rank r's output = the root's inputs[r]; `inputs` is used at the root only. Sizes that differ
  /// are Error{mismatch}. In place at the root: output and inputs[root] are the same memory.
  void scatter_v(std::span<const ConstBlock> inputs, const Block& output, int root,
                 const CallOptions& options = {});
  Work scatter_v_async(std::span<const ConstBlock> inputs, const Block& output, int root,
                       const CallOptions& options = {});

  // Several buffers in one call (coalesced): the same as the operation on each, and as fast as on
  // one buffer of their joint size. A pair's input, output and count are as that operation has
  // them: of all_gather and reduce_scatter the count is a block's. All ranks give buffers of the
  // same counts, in the same order; each may be in place or not. All of one call are of one type.

  void all_reduce(std::span<const BufferPair> buffers, const Reduction& op = ReduceOp::sum,
                  const CallOptions& options = {});
  Work all_reduce_async(std::span<const BufferPair> buffers, const Reduction& op = ReduceOp::sum,
                        const CallOptions& options = {});
  void reduce(std::span<const BufferPair> buffers, const Reduction& op, int root,
              const CallOptions& options = {});
  Work reduce_async(std::span<const BufferPair> buffers, const Reduction& op, int root,
                    const CallOptions& options = {});
  void broadcast(std::span<const BufferPair> buffers, int root, const CallOptions& options = {});
  Work broadcast_async(std::span<const BufferPair> buffers, int root,
                       const CallOptions& options = {});
  void all_gather(std::span<const BufferPair> buffers, const CallOptions& options = {});
  Work all_gather_async(std::span<const BufferPair> buffers, const CallOptions& options = {});
  void reduce_scatter(std::span<const BufferPair> buffers, const Reduction& op = ReduceOp::sum,
                      const CallOptions& options = {});
  Work reduce_scatter_async(std::span<const BufferPair> buffers,
                            const Reduction& op = ReduceOp::sum, const CallOptions& options = {});

  // Byte strings whose lengths the other ranks do not know. Not between group_begin and group_end:
  // they wait. A rank that has no memory for them ends the communicator for all (`exhausted`).

  /// The root's `bytes`, on every rank; the others' are not looked at. CallOptions::algorithm is
  /// one of broadcast's.
  std::string broadcast_bytes(std::string_view bytes, int root, const CallOptions& options = {});
  /// Everyone's `bytes` by rank, on every rank. CallOptions::algorithm is one of all_gather_v's.
  std::vector<std::string> all_gather_bytes(std::string_view bytes,
                                            const CallOptions& options = {});
  /// Everyone's `bytes` by rank at the root; nothing elsewhere. CallOptions::algorithm is one of
  /// gather_v's.
  std::vector<std::string> gather_bytes(std::string_view bytes, int root,
                                        const CallOptions& options = {});

  // Messages between two ranks. `to` and `from` may be the caller's own rank; `from` may be
  // kAnyRank and a receive's tag kAnyTag. As in MPI, a receive takes the first message from that
  // rank with that tag, and a message goes to the first receive that it fits; messages of different
  // tags may be received in any order. Collectives and messages do not mix.
  //
  // A send returns when its data may be reused: up to `eager_limit` bytes without waiting for the
  // receive, as long as the receiver's queue has room (1 MiB per sender, for messages that came
  // before their receive) and never mind the rest when it has not: the send then waits for its
  // receive, as longer ones do and in strict mode (`strict_sends`) all. So ranks that send to each
  // other use send_recv, a batch or asynchronous calls.
  //
  // Messages come into that queue while their receiver is in a call of this communicator, of
  // whatever kind, or has an asynchronous one under way. Otherwise nobody takes them in, and only
  // what the way there holds goes without waiting for the receiver's next call: 16 messages
  // in shared memory, 8 between threads of a process, the sockets' buffers over tcp.
  //
  // What was sent, the send being over, is delivered though the rank leaves. A send that is not
  // over when its communicator is destroyed is given up: one that waits for its receive fails that;
  // an eager send_async that nobody waited for may arrive or not.

  /// `tag` is 0 or more.
  void send(const void* data, std::size_t count, DataType type, int to, int tag = 0,
            const CallOptions& options = {});
  Work send_async(const void* data, std::size_t count, DataType type, int to, int tag = 0,
                  const CallOptions& options = {});

  /// The message may be shorter than the buffer: what came is told. One that is longer, or whose
  /// bytes are no whole elements of `type` (the sender's type is not compared), is
  /// Error{mismatch}; it then stays the first to be received, and nothing is broken.
  Received recv(void* data, std::size_t count, DataType type, int from, int tag = 0,
                const CallOptions& options = {});
  Work recv_async(void* data, std::size_t count, DataType type, int from, int tag = 0,
                  const CallOptions& options = {});

  /// Waits for a message that such a recv would take, and leaves it there. What it tells counts
  /// elements of the type that the sender gave. Its time limit breaks nothing.
  Received probe(int from = kAnyRank, int tag = kAnyTag, const CallOptions& options = {});
  /// The same without waiting.
  std::optional<Received> try_probe(int from = kAnyRank, int tag = kAnyTag);

  /// Both at once, with one tag: never deadlocks, also around a ring. The two buffers do not
  /// overlap; their counts may differ.
  Received send_recv(const void* data_out, std::size_t count_out, int to, void* data_in,
                     std::size_t count_in, int from, DataType type, int tag = 0,
                     const CallOptions& options = {});
  Work send_recv_async(const void* data_out, std::size_t count_out, int to, void* data_in,
                       std::size_t count_in, int from, DataType type, int tag = 0,
                       const CallOptions& options = {});

  /// Sends and receives all at once: whatever their order on each rank, they do not deadlock as
  /// long as each has its counterpart. Returns what each receive got, in their order. When one
  /// fails the others still come to their end before the error is thrown.
  std::vector<Received> batch(std::span<const MessageRequest> requests,
                              const CallOptions& options = {});
  Work batch_async(std::span<const MessageRequest> requests, const CallOptions& options = {});

  // Typed forms, of buffers that say their size and type themselves (see ccoll/buffer.hpp): spans,
  // vectors, arrays. Sizes that do not fit each other are Error{invalid_argument} before anything
  // is sent.

  /// `in` and `out` are equally long.
  template <InputBuffer In, OutputBufferFor<In> Out>
  void all_reduce(In&& in, Out&& out, const Reduction& op = ReduceOp::sum,
                  const CallOptions& options = {}) {
    require_equal("all_reduce", std::ranges::size(in), std::ranges::size(out));
    all_reduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
               element_type_of<Out>, op, options);
  }
  template <InputBuffer In, OutputBufferFor<In> Out>
  Work all_reduce_async(In&& in, Out&& out, const Reduction& op = ReduceOp::sum,
                        const CallOptions& options = {}) {
    require_equal("all_reduce", std::ranges::size(in), std::ranges::size(out));
    return all_reduce_async(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
                            element_type_of<Out>, op, options);
  }
  /// In place.
  template <OutputBuffer B>
  void all_reduce(B&& buffer, const Reduction& op = ReduceOp::sum,
                  const CallOptions& options = {}) {
    all_reduce(std::ranges::data(buffer), std::ranges::data(buffer), std::ranges::size(buffer),
               element_type_of<B>, op, options);
  }
  template <OutputBuffer B>
  Work all_reduce_async(B&& buffer, const Reduction& op = ReduceOp::sum,
                        const CallOptions& options = {}) {
    return all_reduce_async(std::ranges::data(buffer), std::ranges::data(buffer),
                            std::ranges::size(buffer), element_type_of<B>, op, options);
  }
  /// `out`, used at the root only, is as long as `in`.
  template <InputBuffer In, OutputBufferFor<In> Out>
  void reduce(In&& in, Out&& out, const Reduction& op, int root, const CallOptions& options = {}) {
    if (rank() == root) require_equal("reduce", std::ranges::size(in), std::ranges::size(out));
    reduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
           element_type_of<In>, op, root, options);
  }
  template <InputBuffer In, OutputBufferFor<In> Out>
  Work reduce_async(In&& in, Out&& out, const Reduction& op, int root,
                    const CallOptions& options = {}) {
    if (rank() == root) require_equal("reduce", std::ranges::size(in), std::ranges::size(out));
    return reduce_async(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                        element_type_of<In>, op, root, options);
  }
  /// In place, as MPI_Bcast; equally long on every rank.
  template <OutputBuffer B>
  void broadcast(B&& buffer, int root, const CallOptions& options = {}) {
    broadcast(std::ranges::data(buffer), std::ranges::data(buffer), std::ranges::size(buffer),
              element_type_of<B>, root, options);
  }
  template <OutputBuffer B>
  Work broadcast_async(B&& buffer, int root, const CallOptions& options = {}) {
    return broadcast_async(std::ranges::data(buffer), std::ranges::data(buffer),
                           std::ranges::size(buffer), element_type_of<B>, root, options);
  }
  /// `out` is size() times as long as `in`.
  template <InputBuffer In, OutputBufferFor<In> Out>
  void all_gather(In&& in, Out&& out, const CallOptions& options = {}) {
    require_blocks("all_gather", std::ranges::size(out), std::ranges::size(in));
    all_gather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
               element_type_of<In>, options);
  }
  template <InputBuffer In, OutputBufferFor<In> Out>
  Work all_gather_async(In&& in, Out&& out, const CallOptions& options = {}) {
    require_blocks("all_gather", std::ranges::size(out), std::ranges::size(in));
    return all_gather_async(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                            element_type_of<In>, options);
  }
  /// `in` is size() times as long as `out`.
  template <InputBuffer In, OutputBufferFor<In> Out>
  void reduce_scatter(In&& in, Out&& out, const Reduction& op = ReduceOp::sum,
                      const CallOptions& options = {}) {
    require_blocks("reduce_scatter", std::ranges::size(in), std::ranges::size(out));
    reduce_scatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
                   element_type_of<Out>, op, options);
  }
  template <InputBuffer In, OutputBufferFor<In> Out>
  Work reduce_scatter_async(In&& in, Out&& out, const Reduction& op = ReduceOp::sum,
                            const CallOptions& options = {}) {
    require_blocks("reduce_scatter", std::ranges::size(in), std::ranges::size(out));
    return reduce_scatter_async(std::ranges::data(in), std::ranges::data(out),
                                std::ranges::size(out), element_type_of<Out>, op, options);
  }
  /// `in` and `out` are equally long: size() blocks of one size each.
  template <InputBuffer In, OutputBufferFor<In> Out>
  void all_to_all(In&& in, Out&& out, const CallOptions& options = {}) {
    require_equal("all_to_all", std::ranges::size(in), std::ranges::size(out));
    all_to_all(std::ranges::data(in), std::ranges::data(out),
               divided("all_to_all", std::ranges::size(in)), element_type_of<In>, options);
  }
  template <InputBuffer In, OutputBufferFor<In> Out>
  Work all_to_all_async(In&& in, Out&& out, const CallOptions& options = {}) {
    require_equal("all_to_all", std::ranges::size(in), std::ranges::size(out));
    return all_to_all_async(std::ranges::data(in), std::ranges::data(out),
                            divided("all_to_all", std::ranges::size(in)), element_type_of<In>,
                            options);
  }
  /// `out`, used at the root only, is size() times as long as `in`.
  template <InputBuffer In, OutputBufferFor<In> Out>
  void gather(In&& in, Out&& out, int root, const CallOptions& options = {}) {
    if (rank() == root) require_blocks("gather", std::ranges::size(out), std::ranges::size(in));
    gather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
           element_type_of<In>, root, options);
  }
  template <InputBuffer In, OutputBufferFor<In> Out>
  Work gather_async(In&& in, Out&& out, int root, const CallOptions& options = {}) {
    if (rank() == root) require_blocks("gather", std::ranges::size(out), std::ranges::size(in));
    return gather_async(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                        element_type_of<In>, root, options);
  }
  /// `in`, used at the root only, is size() times as long as `out`.
  template <InputBuffer In, OutputBufferFor<In> Out>
  void scatter(In&& in, Out&& out, int root, const CallOptions& options = {}) {
    if (rank() == root) require_blocks("scatter", std::ranges::size(in), std::ranges::size(out));
    scatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
            element_type_of<Out>, root, options);
  }
  template <InputBuffer In, OutputBufferFor<In> Out>
  Work scatter_async(In&& in, Out&& out, int root, const CallOptions& options = {}) {
    if (rank() == root) require_blocks("scatter", std::ranges::size(in), std::ranges::size(out));
    return scatter_async(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
                         element_type_of<Out>, root, options);
  }
  template <InputBuffer B>
  void send(B&& buffer, int to, int tag = 0, const CallOptions& options = {}) {
    send(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>, to, tag,
         options);
  }
  template <InputBuffer B>
  Work send_async(B&& buffer, int to, int tag = 0, const CallOptions& options = {}) {
    return send_async(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>, to,
                      tag, options);
  }
  template <OutputBuffer B>
  Received recv(B&& buffer, int from, int tag = 0, const CallOptions& options = {}) {
    return recv(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>, from, tag,
                options);
  }
  template <OutputBuffer B>
  Work recv_async(B&& buffer, int from, int tag = 0, const CallOptions& options = {}) {
    return recv_async(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>,
                      from, tag, options);
  }
  template <InputBuffer Out, OutputBufferFor<Out> In>
  Received send_recv(Out&& out, int to, In&& in, int from, int tag = 0,
                     const CallOptions& options = {}) {
    return send_recv(std::ranges::data(out), std::ranges::size(out), to, std::ranges::data(in),
                     std::ranges::size(in), from, element_type_of<Out>, tag, options);
  }
  template <InputBuffer Out, OutputBufferFor<Out> In>
  Work send_recv_async(Out&& out, int to, In&& in, int from, int tag = 0,
                       const CallOptions& options = {}) {
    return send_recv_async(std::ranges::data(out), std::ranges::size(out), to,
                           std::ranges::data(in), std::ranges::size(in), from, element_type_of<Out>,
                           tag, options);
  }

  class CCOLL_HIDDEN Implementation;

 private:
  friend class Mesh;
  explicit Communicator(std::shared_ptr<Implementation> implementation);
  /// Throws where there is none any more.
  const std::shared_ptr<Implementation>& implementation() const;
  void require_equal(std::string_view call, std::size_t in, std::size_t out) const;
  void require_blocks(std::string_view call, std::size_t whole, std::size_t block) const;
  std::size_t divided(std::string_view call, std::size_t whole) const;

  std::shared_ptr<Implementation> implementation_;
};

}  // namespace ccoll

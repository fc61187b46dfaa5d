// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The communicator: a group of ranks and the collectives they run together.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/blocks.hpp"
#include "ccoll/counters.hpp"
#include "ccoll/environment.hpp"
#include "ccoll/message.hpp"
#include "ccoll/options.hpp"
#include "ccoll/reduction.hpp"
#include "ccoll/store.hpp"
#include "ccoll/types.hpp"
#include "ccoll/unique_id.hpp"
#include "ccoll/version.hpp"
#include "ccoll/work.hpp"

namespace ccoll {

class Session;

/// A group of ranks. Movable, not copyable. Every call of a communicator that was closed or moved
/// from is Error{aborted}, except close() and leave(), which do nothing.
///
/// **Collectives** are called by every rank in the same order with matching arguments. A difference
/// is an Error{mismatch} that names both sides. A rank whose own part was over before the
/// difference could show (it only sent, say) may learn of it from its next call or from close().
///
/// **Buffers** may have any alignment. Input and output are either the same memory, where a call
/// says so, or do not overlap; only all_to_all and all_to_all_v let them overlap. Blocking calls
/// return when the caller's buffers may be used again; `*_async` calls return at once.
/// ccoll/device.hpp explains calls in CUDA streams and on memory of GPUs.
///
/// **Threads.** Different communicators may be used by different threads at once. On one
/// communicator, any thread may make asynchronous calls, send and receive; the threads see to it
/// that collectives begin in the same order on every rank. A blocking collective while another
/// thread is in one is Error{invalid_argument} for the second.
///
/// **Errors** speak of ranks by their numbers in this communicator. They begin with its name if it
/// was given one or was made from another. After a failure the communicator is broken on every
/// rank: operations under way end, and further calls fail at once with the first cause. shrink()
/// makes a new one. What breaks one communicator breaks no other, not even one of the same ranks; a
/// rank that is lost breaks all that it was in. These break nothing:
/// - a call that is refused with Error{invalid_argument}: nothing was sent. Other ranks that made
///   it wait for this rank until their time limit, or until it makes the call correctly
/// - a receive whose message does not fit: Error{mismatch} of that receive alone
/// - the time limit of probe, and that of Work::wait, whose operation goes on
/// - a subgroup that does not come about (Error{mismatch} or Error{timed_out}), and a Mesh whose
///   axes differ between ranks
///
/// **Processes.** A communicator stays with the process that made it. In a forked child every call
/// is Error{aborted}, and its end touches nothing of the parent's; the child may make communicators
/// of its own.
class CCOLL_API Communicator {
 public:
  /// From the environment (see Environment::detect); one rank, alone, if nothing is set there.
  ///
  /// All forms of create throw
  /// - Error{invalid_argument}: what is given or set in the environment cannot be right, such as a
  ///   rank, the name of a transport or an algorithm, an interface, a token's file
  /// - Error{timed_out}: the store did not answer, or not all ranks came, within `start_timeout`;
  ///   it names those missing
  /// - Error{mismatch}: ranks were started with different options or sizes, or two as one rank
  /// - Error{unsupported}: the transport that was asked for does not reach a rank
  /// - Error{exhausted}: threads, descriptors or ports ran out
  /// - Error{peer_lost}: a rank or the store's server went away meanwhile
  /// - what a store of the caller's own throws: an Error with its kind, everything else as
  ///   Error{internal}
  static Communicator create(
      const CommunicatorOptions& options = CommunicatorOptions::from_environment());
  /// From `environment`.
  static Communicator create(
      const Environment& environment,
      const CommunicatorOptions& options = CommunicatorOptions::from_environment());
  /// One of `size` ranks that meet at `store`. Collective: returns when all have come.
  static Communicator create(
      std::shared_ptr<Store> store, int rank, int size,
      const CommunicatorOptions& options = CommunicatorOptions::from_environment());
  /// One of the `size` ranks that were handed the same `id` (see UniqueId). An id makes one
  /// communicator: another attempt, also after a failure, is Error{invalid_argument}. Collective:
  /// returns when all have come.
  static Communicator create(
      const UniqueId& id, int rank, int size,
      const CommunicatorOptions& options = CommunicatorOptions::from_environment());
  /// All `size` ranks in this process, by rank: for one thread that drives several (see CallGroup),
  /// and for threads that take one each. `devices` has one for each rank, in place of
  /// `options.device.ordinal`, which holds for all if it is empty. Each rank starts in a thread of
  /// its own; if some fail, the first one's error is thrown when all have ended.
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
  /// Gives up all that is under way, which ends with Error{aborted}, and leaves; waits at most 1 s
  /// for peers to hear of it. So wait for every Work before, even an eager send_async's: operations
  /// that are over arrive, others may not. It writes to standard error what close would throw (but
  /// not the loss of a peer). Other threads may be in calls of this communicator, but must begin no
  /// others. Those calls end at once with Error{aborted}, or when a caller's function in them
  /// returns; this returns when they have.
  ///
  /// It cannot end the communicator in a reduction's function, while a call of this very
  /// communicator is in it on the same thread: it says so on standard error, and that call goes on.
  /// Its resources stay until the process ends; the other ranks hear no goodbye before.
  ~Communicator();
  /// The same, and throws errors that no call of this rank could report any more: its part may have
  /// been over before it showed that another rank made a different call (a last broadcast to which
  /// each of two ranks sent as the root). To find that, a rank that closes tells its ring
  /// neighbours its last 8 calls, and they compare; it waits until they have them, 200 ms at most.
  /// If ranks close at once, at least one of them gets the error. Only two ranks can compare the
  /// counts of a gather_v, scatter_v or all_to_all_v: if one of these calls was such a call, it
  /// waits until all have closed, 1 s at most, and all get it. Otherwise it is not collective: if a
  /// rank closes its last communicator before another has made its call, only the other one learns
  /// of a difference, from its call or close. In a reduction's function that a call of this
  /// communicator is in on the same thread, it is Error{invalid_argument}, and the communicator is
  /// as before. Whatever else it throws, the communicator has ended, as if moved from.
  void close();
  /// Ends all that is under way in this communicator, on every rank, and breaks it, as if a call
  /// had failed. The Error{aborted} contains this rank and `reason`. From any thread,
  /// whatever the others are doing, also before anything has failed; it waits for nobody and
  /// returns at once. Threads that are in calls of this communicator return within 1 s, on every
  /// rank; a thread that is in a function of the caller's returns once that has. So do threads of
  /// other ranks if that function runs in the background here, or reads memory that they lent it
  /// as threads of its process. A shrink() goes on; a broken communicator has nothing to abort.
  void abort(std::string_view reason = {});
  /// Leaves without disturbing the others, and waits at most 1 s, like the destructor. The others
  /// go on among themselves, and a call that needs this rank ends there with Error{peer_lost},
  /// which names it. But if something of this rank is under way here, it ends on every rank, as by
  /// abort(reason). The communicator is then as if moved from. As with close(), no thread may begin
  /// a call meanwhile.
  void leave(std::string_view reason = {});

  int rank() const;
  int size() const;
  /// From its options, else made up: "world", "world/split1:0", "world/group(ranks 0-2)".
  const std::string& name() const;
  /// The first cause if the communicator is broken, or the loss of one of its ranks, as a call
  /// would report it; empty otherwise. From any thread; it never waits, and makes no progress.
  std::string error() const;
  /// The kind of error(); nothing if that is empty.
  std::optional<ErrorKind> error_kind() const;

  /// The rank in `other` of rank `rank` of this communicator; nothing if `other` does not have it.
  /// Both belong to one job (Error{invalid_argument} otherwise). Local; O(log size).
  std::optional<int> rank_in(const Communicator& other, int rank) const;
  /// The rank of `rank` in the communicator that create() made. Local.
  int job_rank(int rank) const;

  /// How data travels to rank `peer`: "inproc", "shm", "verbs", "tcp". Ranks that turn out to be
  /// unable to share memory use TCP, known once links have been opened.
  std::string transport_to(int peer) const;
  /// The algorithm that such a call uses: "ring". `operation` is a collective's name; `count` and
  /// `type` are the call's, for a v-operation the mean block's; a barrier has none. The root is
  /// rank 0. It does not consider the Reduction: one that does not commute takes the best of the
  /// algorithms that keep the rank order, which may be another. Local, as is explain. Throws
  /// Error{invalid_argument} if there is no such operation, or if that call is refused.
  std::string algorithm_for(std::string_view operation, std::size_t count, DataType type,
                            const CallOptions& options = {}) const;
  /// The reason, with the candidates, their predicted times and roundings, as a table. If devices
  /// make such calls, a line before it says so, and by which way.
  std::string explain(std::string_view operation, std::size_t count, DataType type,
                      const CallOptions& options = {}) const;
  /// How long such a call takes, as explain() predicts for that algorithm. If devices make it, this
  /// is an estimate that nobody has measured.
  std::chrono::duration<double, std::nano> predicted_time(std::string_view operation,
                                                          std::size_t count, DataType type,
                                                          const CallOptions& options = {}) const;

  /// This rank's flight recorder, as JSON (docs/diagnosis.md): its last 256 collectives and its
  /// last 256 sends and receives here, and for each operation under way how far it has come and
  /// which ranks it waits for. Also of a broken communicator. Local; from any thread.
  std::string dump() const;

  /// Traffic with each other rank so far, and losses to it; see Counters. Always counted, also in a
  /// broken communicator. Local; from any thread: it may have to wait for a moment until a thread
  /// that is in a call lets it in.
  Counters counters() const;

  /// A new communicator of the same ranks. Collective. It sends nothing unless devices of several
  /// processes make its collectives: it then returns when all have called it, or, broken, once its
  /// time limit has passed.
  Communicator duplicate(const GroupOptions& options = {});
  /// Parts the ranks by `color`: a new communicator of those that gave the same, ordered by `key`,
  /// equal keys by rank. Nothing for a rank that gave kNoColor; other colours are at least 0.
  /// Collective over all ranks of this communicator, also those without a colour.
  std::optional<Communicator> split(int color, int key, const GroupOptions& options = {});
  /// A new communicator of `ranks` (of this one), in that order. Collective over those ranks only:
  /// a rank that is not in the list must not call (Error{invalid_argument}). Returns when all of
  /// them have come. Two ranks that wait for each other with different lists get Error{mismatch}
  /// naming both. This communicator then works as before, but none of these lists can be made of it
  /// any more: every rank that tries gets that error. A duplicate of it can make them.
  Communicator subgroup(std::span<const int> ranks, const GroupOptions& options = {});
  Communicator subgroup(std::initializer_list<int> ranks, const GroupOptions& options = {}) {
    return subgroup(std::span(ranks.begin(), ranks.size()), options);
  }

  /// A new communicator of the ranks that are still there, in their order, to go on after some were
  /// lost. Every rank that is left must call it, whether the communicator is broken or as good as
  /// new. It does not wait for ranks that were lost, have left, or have closed this communicator.
  /// It waits for all others, within the new communicator's time limit (`options.timeout`, or this
  /// one's), however many are lost meanwhile, rank 0 too.
  ///
  /// The ranks agree on which of them are gone: no two of them make different communicators of each
  /// other. A rank that dies while they agree may still be counted in. Then the new communicator
  /// breaks in turn, on all its ranks, and can be shrunk itself; so call it on the newest in a loop
  /// until a call succeeds. If the failure was no loss (a mismatch, a time limit), all ranks are in
  /// it. This communicator stays as it was; shrinking it again is another roll call of all its
  /// ranks. Every rank passes on a few short messages of each other rank; no store is needed. Not
  /// between group_begin and group_end, and by one thread at a time (Error{invalid_argument}).
  /// Throws
  /// - Error{timed_out} on all ranks, even on those that come too late, which it names. It breaks
  ///   nothing: call it again for the next attempt
  /// - Error{peer_lost} on a rank that the others count as lost: it lives, but its control
  ///   connections had ended. It can only close
  /// - Error{exhausted}: no descriptors or memory for the new communicator, which is then broken
  ///   for the others, too
  Communicator shrink(const GroupOptions& options = {});
  /// The same without the ranks `excluded`. It does not wait for these, whether they are there or
  /// not. All others call it, with the same ranks in any order; a rank that gives other ones waits
  /// until its time limit. A number that is no rank here, or is this rank's own, is
  /// Error{invalid_argument}. For the others, this communicator is as after shrink().
  Communicator shrink_without(std::span<const int> excluded, const GroupOptions& options = {});
  Communicator shrink_without(std::initializer_list<int> excluded,
                              const GroupOptions& options = {}) {
    return shrink_without(std::span(excluded.begin(), excluded.size()), options);
  }

  // Operations. Every buffer is a block (ccoll/blocks.hpp): a vector, a span or an array converts
  // to one, and Block(data, count, type) names plain memory. Counts are in elements. The input
  // and the output have one type, and their counts fit each other as each operation says
  // (Error{invalid_argument} otherwise, before anything is sent). A rooted operation ignores the
  // block that a rank has no use for: pass {}.

  /// output = op over all ranks' inputs; all have the same count. In place: the same memory.
  void all_reduce(const ConstBlock& input, const Block& output, const Reduction& op = ReduceOp::sum,
                  const CallOptions& options = {});
  Work all_reduce_async(const ConstBlock& input, const Block& output,
                        const Reduction& op = ReduceOp::sum, const CallOptions& options = {});
  /// In place.
  void all_reduce(const Block& buffer, const Reduction& op = ReduceOp::sum,
                  const CallOptions& options = {});
  Work all_reduce_async(const Block& buffer, const Reduction& op = ReduceOp::sum,
                        const CallOptions& options = {});

  /// The root's output = op over all ranks' inputs; all have the same count. Only the root's output
  /// is used, and only it is written. In place at the root: the same memory.
  void reduce(const ConstBlock& input, const Block& output, const Reduction& op, int root,
              const CallOptions& options = {});
  Work reduce_async(const ConstBlock& input, const Block& output, const Reduction& op, int root,
                    const CallOptions& options = {});

  /// Every rank's output = the root's input; all have the same count. Only the root's input is
  /// used. In place at the root: the same memory.
  void broadcast(const ConstBlock& input, const Block& output, int root,
                 const CallOptions& options = {});
  Work broadcast_async(const ConstBlock& input, const Block& output, int root,
                       const CallOptions& options = {});
  /// In place, as MPI_Bcast.
  void broadcast(const Block& buffer, int root, const CallOptions& options = {});
  Work broadcast_async(const Block& buffer, int root, const CallOptions& options = {});

  /// The output's part r = rank r's input: the output has size() times the input's count. In place:
  /// the input is this rank's part of the output.
  void all_gather(const ConstBlock& input, const Block& output, const CallOptions& options = {});
  Work all_gather_async(const ConstBlock& input, const Block& output,
                        const CallOptions& options = {});

  /// output = op over part `rank` of all ranks' inputs: the input has size() times the output's
  /// count. In place: the output is this rank's part of the input.
  void reduce_scatter(const ConstBlock& input, const Block& output,
                      const Reduction& op = ReduceOp::sum, const CallOptions& options = {});
  Work reduce_scatter_async(const ConstBlock& input, const Block& output,
                            const Reduction& op = ReduceOp::sum, const CallOptions& options = {});

  /// The output's part r = part `rank` of rank r's input: both have the same count, size() parts of
  /// one length. They may overlap, or be the same memory: a copy of the input is then made first.
  void all_to_all(const ConstBlock& input, const Block& output, const CallOptions& options = {});
  Work all_to_all_async(const ConstBlock& input, const Block& output,
                        const CallOptions& options = {});

  /// Part r of the root's output = rank r's input: that output, the only one that is used, has
  /// size() times the input's count. In place at the root: the input is the root's part of the
  /// output.
  void gather(const ConstBlock& input, const Block& output, int root,
              const CallOptions& options = {});
  Work gather_async(const ConstBlock& input, const Block& output, int root,
                    const CallOptions& options = {});

  /// Rank r's output = part r of the root's input: that input, the only one that is used, has
  /// size() times the output's count. In place at the root: the output is the root's part of the
  /// input.
  void scatter(const ConstBlock& input, const Block& output, int root,
               const CallOptions& options = {});
  Work scatter_async(const ConstBlock& input, const Block& output, int root,
                     const CallOptions& options = {});

  /// Returns when every rank has come.
  void barrier(const CallOptions& options = {});
  Work barrier_async(const CallOptions& options = {});

  // Operations over blocks of different sizes (MPI's v-operations). A rank's block has the size
  // that it and its counterpart give, also 0. A list has size() blocks, by rank. Blocks may lie
  // anywhere (see blocks() for those that lie one after another) and must not overlap where they
  // are written. All blocks of a call have one type.

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

  /// outputs[r] = rank r's inputs[rank]: outputs[r] here is as long as inputs[rank] there. If the
  /// sizes of two ranks for each other differ, all get Error{mismatch}. May overlap like
  /// all_to_all's.
  ///
  /// Among more than 64 ranks nothing travels between two that both give 0. To find different
  /// sizes there, too, all ranks add up one number beside the exchange: this takes a rank 2
  /// messages of 8 bytes in the mean, and 3 at most.
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

  // Several buffers in one call (coalesced): the same as the operation on each pair alone, and as
  // fast as on one buffer of their joint size. All ranks give pairs of the same counts in the same
  // order; each pair may be in place or not. All pairs of a call have one type.

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

  /// The root's `bytes`, on every rank; the others' are ignored. CallOptions::algorithm is one of
  /// broadcast's.
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
  // A send returns when its data may be reused. Up to `eager_limit` bytes go without waiting for
  // the receive, as long as the receiver's queue has room (1 MiB per sender, for messages that came
  // before their receive). Without room a send waits for its receive, as do longer sends, and all
  // in strict mode (`strict_sends`). So ranks that send to each other use send_recv, a batch or
  // asynchronous calls. ccoll/message.hpp says when messages go without waiting.

  /// `tag` is 0 or more.
  void send(const ConstBlock& block, int to, int tag = 0, const CallOptions& options = {});
  Work send_async(const ConstBlock& block, int to, int tag = 0, const CallOptions& options = {});

  /// The message may be shorter than the block; the result has its length. A message that is
  /// longer, or whose bytes are no whole elements of the block's type, is Error{mismatch}: it stays
  /// the first to be received, and nothing is broken. The sender's type is not compared.
  Received recv(const Block& block, int from, int tag = 0, const CallOptions& options = {});
  Work recv_async(const Block& block, int from, int tag = 0, const CallOptions& options = {});

  /// Waits for a message that such a recv would take, and leaves it there. Its result counts
  /// elements of the type that the sender gave. Its time limit breaks nothing.
  Received probe(int from = kAnyRank, int tag = kAnyTag, const CallOptions& options = {});
  /// The same without waiting.
  std::optional<Received> try_probe(int from = kAnyRank, int tag = kAnyTag);

  /// Both at once, with one tag: never deadlocks, also around a ring. The two buffers do not
  /// overlap; their counts may differ.
  Received send_recv(const ConstBlock& out, int to, const Block& in, int from, int tag = 0,
                     const CallOptions& options = {});
  Work send_recv_async(const ConstBlock& out, int to, const Block& in, int from, int tag = 0,
                       const CallOptions& options = {});

  /// Sends and receives all at once: whatever their order on each rank, they do not deadlock as
  /// long as each has its counterpart. Returns what each receive got, in their order. If one
  /// fails, the others still come to their end before the error is thrown.
  std::vector<Received> batch(std::span<const MessageRequest> requests,
                              const CallOptions& options = {});
  Work batch_async(std::span<const MessageRequest> requests, const CallOptions& options = {});

 private:
  friend class Mesh;
  explicit Communicator(std::shared_ptr<Session> session);
  /// Throws if there is none any more.
  const std::shared_ptr<Session>& session() const;

  std::shared_ptr<Session> session_;
};

}  // namespace ccoll

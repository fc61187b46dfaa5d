// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The communicator: a group of ranks and the collectives they run together.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ccoll/environment.hpp"
#include "ccoll/reduction.hpp"
#include "ccoll/store.hpp"
#include "ccoll/types.hpp"

namespace ccoll {

/// How one call is to be made; every rank passes the same.
struct CallOptions {
  /// How long the call may take; zero: the communicator's own limit.
  std::chrono::milliseconds timeout{0};
  /// "ring", "double_tree", …; empty: the communicator's, else the cost model's choice.
  std::string_view algorithm = {};
};

/// An operation under way. Copies share it. The buffers of the call belong to it until `done()`.
/// Dropping every copy does not cancel it.
class Work {
 public:
  Work() = default;
  /// Waits until it is done and throws its error if it failed. Throws Error{timed_out} when
  /// `timeout` passes first; the operation then goes on. Zero waits for the call's own limit.
  void wait(std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
  /// Makes progress without waiting; true once the operation is done or has failed.
  bool test();
  /// The error's text, or empty while there is none.
  std::string error() const;

  struct State;  ///< ccoll's own
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

struct CommunicatorOptions {
  /// The limit of every call that gives none.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// The limit of start-up.
  std::chrono::milliseconds start_timeout = std::chrono::seconds(60);
  /// "tcp", "inproc", or empty: the best that both ends of a pair have. CCOLL_TRANSPORT.
  std::string transport = {};
  /// An algorithm for every call that has it; empty: by cost. CCOLL_ALGO.
  std::string algorithm = {};
  /// Most copies of an algorithm's lanes; 0: by cost. CCOLL_LANES.
  int max_lanes = 0;
  /// Interface for connections, by name or prefix; empty: the route to the store.
  /// CCOLL_SOCKET_IFNAME.
  std::string interface = {};
  /// The job's token; empty: none, and then only loopback addresses. CCOLL_TOKEN_FILE.
  std::string token = {};

  /// The options with what the environment sets.
  static CommunicatorOptions from_environment();
};

/// A group of ranks. Movable, not copyable; one that was moved from can only be assigned to or
/// destroyed. Its collectives are called by every rank in the same
/// order with matching arguments; a difference is an Error{mismatch} that names both sides. A rank
/// whose own part was over before the difference could show (it only sent, say) may learn of it at
/// its next call.
///
/// Counts are in elements. Buffers may be host memory of any alignment; input and output are
/// either the same memory where a call says so, or do not overlap. Blocking calls return when the
/// caller's buffers may be reused; `*_async` ones at once. Different communicators may be used
/// by different threads at once; of one communicator, one thread at a time.
///
/// After a failure the communicator is broken: further calls fail at once with the first cause.
class Communicator {
 public:
  /// As the environment says (see Environment::detect); one rank, alone, when it says nothing.
  static Communicator create(
      const CommunicatorOptions& options = CommunicatorOptions::from_environment());
  static Communicator create(const Environment& environment, const CommunicatorOptions& options);
  /// Of `size` ranks that meet at `store`. Collective: returns when all have come.
  static Communicator create(std::shared_ptr<Store> store, int rank, int size,
                             const CommunicatorOptions& options = {});

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Finishes or gives up what is under way and leaves; never blocks for peers.
  ~Communicator();

  int rank() const;
  int size() const;

  /// How data travels to rank `peer`: "tcp", "inproc".
  std::string transport_to(int peer) const;
  /// The algorithm that such a call uses: "ring". `operation` is a collective's name; `count` and
  /// `type` are the call's. Local, as is explain.
  std::string algorithm_for(std::string_view operation, std::size_t count, DataType type,
                            const CallOptions& options = {}) const;
  /// Why: the candidates with their predicted times and roundings, and the reason, as a table.
  std::string explain(std::string_view operation, std::size_t count, DataType type,
                      const CallOptions& options = {}) const;

  /// A new communicator of the same ranks. Collective.
  Communicator duplicate();

  // Every operation comes untyped (`void*`, counts and a DataType) and, below, typed (spans).
  //
  // Rooted operations: what is not used on a rank may be null there.

  /// output = op over all ranks' inputs, `count` elements each. In place: input == output.
  void all_reduce(const void* input, void* output, std::size_t count, DataType type,
                  const Reduction& op = ReduceOp::sum, const CallOptions& options = {});
  Work all_reduce_async(const void* input, void* output, std::size_t count, DataType type,
                        const Reduction& op = ReduceOp::sum, const CallOptions& options = {});

  /// The root's output = op over all inputs; other ranks' buffers stay as they were. In place at
  /// the root: input == output.
  void reduce(const void* input, void* output, std::size_t count, DataType type,
              const Reduction& op, int root, const CallOptions& options = {});
  Work reduce_async(const void* input, void* output, std::size_t count, DataType type,
                    const Reduction& op, int root, const CallOptions& options = {});

  /// Everyone's output = the root's input. In place: input == output (MPI_Bcast's form).
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

  /// output block r = rank r's input block `rank`; `count` elements per block. Not in place.
  void all_to_all(const void* input, void* output, std::size_t count, DataType type,
                  const CallOptions& options = {});
  Work all_to_all_async(const void* input, void* output, std::size_t count, DataType type,
                        const CallOptions& options = {});

  /// The root's output block r = rank r's input of `count` elements. In place at the root:
  /// input == output + root × count.
  void gather(const void* input, void* output, std::size_t count, DataType type, int root,
              const CallOptions& options = {});
  Work gather_async(const void* input, void* output, std::size_t count, DataType type, int root,
                    const CallOptions& options = {});

  /// Rank r's output of `count` elements = the root's input block r. In place at the root:
  /// output == input + root × count.
  void scatter(const void* input, void* output, std::size_t count, DataType type, int root,
               const CallOptions& options = {});
  Work scatter_async(const void* input, void* output, std::size_t count, DataType type, int root,
                     const CallOptions& options = {});

  /// Returns when every rank has come.
  void barrier(const CallOptions& options = {});
  Work barrier_async(const CallOptions& options = {});

  /// A message to rank `to`, which receives it with a recv of the same size. Messages between two
  /// ranks keep their order. Up to 64 KiB it returns before the receiver came; beyond, it may or
  /// may not, as buffers allow: where ranks send to each other, use send_recv. `to` may be the
  /// caller's own rank.
  void send(const void* data, std::size_t count, DataType type, int to,
            const CallOptions& options = {});
  Work send_async(const void* data, std::size_t count, DataType type, int to,
                  const CallOptions& options = {});
  void recv(void* data, std::size_t count, DataType type, int from,
            const CallOptions& options = {});
  Work recv_async(void* data, std::size_t count, DataType type, int from,
                  const CallOptions& options = {});
  /// Both at once: never deadlocks, also around a ring.
  void send_recv(const void* data_out, std::size_t count_out, int to, void* data_in,
                 std::size_t count_in, int from, DataType type, const CallOptions& options = {});
  Work send_recv_async(const void* data_out, std::size_t count_out, int to, void* data_in,
                       std::size_t count_in, int from, DataType type,
                       const CallOptions& options = {});

  // Typed forms. `out` decides where both are given; sizes that do not fit each other are
  // Error{invalid_argument} before anything is sent.

  template <Element T>
  void all_reduce(std::span<const T> in, std::span<T> out, const Reduction& op = ReduceOp::sum,
                  const CallOptions& options = {}) {
    require_equal("all_reduce", in.size(), out.size());
    all_reduce(in.data(), out.data(), out.size(), data_type_of<T>, op, options);
  }
  /// In place.
  template <Element T>
  void all_reduce(std::span<T> data, const Reduction& op = ReduceOp::sum,
                  const CallOptions& options = {}) {
    all_reduce(data.data(), data.data(), data.size(), data_type_of<T>, op, options);
  }
  template <Element T>
  Work all_reduce_async(std::span<T> data, const Reduction& op = ReduceOp::sum,
                        const CallOptions& options = {}) {
    return all_reduce_async(data.data(), data.data(), data.size(), data_type_of<T>, op, options);
  }
  /// `out` is used at the root only.
  template <Element T>
  void reduce(std::span<const T> in, std::span<T> out, const Reduction& op, int root,
              const CallOptions& options = {}) {
    if (rank() == root) require_equal("reduce", in.size(), out.size());
    reduce(in.data(), out.data(), in.size(), data_type_of<T>, op, root, options);
  }
  /// In place, as MPI_Bcast.
  template <Element T>
  void broadcast(std::span<T> data, int root, const CallOptions& options = {}) {
    broadcast(data.data(), data.data(), data.size(), data_type_of<T>, root, options);
  }
  template <Element T>
  void all_gather(std::span<const T> in, std::span<T> out, const CallOptions& options = {}) {
    require_blocks("all_gather", out.size(), in.size());
    all_gather(in.data(), out.data(), in.size(), data_type_of<T>, options);
  }
  template <Element T>
  void reduce_scatter(std::span<const T> in, std::span<T> out, const Reduction& op = ReduceOp::sum,
                      const CallOptions& options = {}) {
    require_blocks("reduce_scatter", in.size(), out.size());
    reduce_scatter(in.data(), out.data(), out.size(), data_type_of<T>, op, options);
  }
  template <Element T>
  void all_to_all(std::span<const T> in, std::span<T> out, const CallOptions& options = {}) {
    require_equal("all_to_all", in.size(), out.size());
    all_to_all(in.data(), out.data(), divided("all_to_all", in.size()), data_type_of<T>, options);
  }
  /// `out` is used at the root only.
  template <Element T>
  void gather(std::span<const T> in, std::span<T> out, int root, const CallOptions& options = {}) {
    if (rank() == root) require_blocks("gather", out.size(), in.size());
    gather(in.data(), out.data(), in.size(), data_type_of<T>, root, options);
  }
  /// `in` is used at the root only.
  template <Element T>
  void scatter(std::span<const T> in, std::span<T> out, int root, const CallOptions& options = {}) {
    if (rank() == root) require_blocks("scatter", in.size(), out.size());
    scatter(in.data(), out.data(), out.size(), data_type_of<T>, root, options);
  }
  template <Element T>
  void send(std::span<const T> data, int to, const CallOptions& options = {}) {
    send(data.data(), data.size(), data_type_of<T>, to, options);
  }
  template <Element T>
  void recv(std::span<T> data, int from, const CallOptions& options = {}) {
    recv(data.data(), data.size(), data_type_of<T>, from, options);
  }

  class Implementation;

 private:
  explicit Communicator(std::shared_ptr<Implementation> implementation);
  void require_equal(std::string_view call, std::size_t in, std::size_t out) const;
  void require_blocks(std::string_view call, std::size_t whole, std::size_t block) const;
  std::size_t divided(std::string_view call, std::size_t whole) const;

  std::shared_ptr<Implementation> implementation_;
};

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/call.hpp"

#include "faces/nccl/group.hpp"
#include "faces/nccl/handle.hpp"
#include "faces/nccl/reductions.hpp"
#include "faces/nccl/values.hpp"

namespace ccoll::nccl {
namespace {

bool reduces(What what) {
  return what == What::all_reduce || what == What::reduce || what == What::reduce_scatter;
}

bool is_rooted(What what) {
  return what == What::broadcast || what == What::reduce || what >= What::gather;
}

bool is_message(What what) { return what == What::send || what == What::recv; }

/// Whether this rank reads the first buffer.
bool reads(const Asked& asked, int rank) {
  if (asked.what == What::broadcast || asked.what == What::scatter) return rank == asked.root;
  return asked.what != What::recv;
}

bool writes(const Asked& asked, int rank) {
  if (asked.what == What::reduce || asked.what == What::gather) return rank == asked.root;
  return asked.what != What::send;
}

void check_root(const Asked& asked, const Comm& comm) {
  if (!is_rooted(asked.what) || (asked.root >= 0 && asked.root < comm.size())) return;
  refuse(ncclInvalidArgument, "{} {} of {} ranks: expected 0 to {}",
         is_message(asked.what) ? "peer" : "root", asked.root, comm.size(), comm.size() - 1);
}

void check_buffers(const Asked& asked, const Comm& comm, DataType type) {
  if (asked.count == 0) return;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(asked.count, size_of(type), &bytes) ||
      __builtin_mul_overflow(bytes, static_cast<std::size_t>(comm.size()), &bytes))
    refuse(ncclInvalidArgument, "the count is {}: no memory is that large", asked.count);
  const auto check = [&](const void* buffer, const char* name) {
    if (buffer == nullptr)
      refuse(ncclInvalidArgument, "{} is NULL, with a count of {}", name, asked.count);
  };
  if (reads(asked, comm.rank())) check(asked.send, "sendbuff");
  if (writes(asked, comm.rank())) check(asked.recv, "recvbuff");
}

void run(Call& call) {
  const device::Current current(call.comm->device());
  make(call);
}

}  // namespace

std::string Call::text() const {
  if (!is_message()) return function;
  return fmt::format("{} {} rank {}", function, what == What::send ? "to" : "from", root);
}

ncclResult_t ask(const Asked& asked) noexcept {
  return guarded_in_group(asked.function, [&] {
    const auto comm = comm_of(asked.comm);
    comm->check_usable();
    const auto type = type_of(asked.type);
    check_root(asked, *comm);
    MadeReduction op;
    if (reduces(asked.what)) op = reduction_of(asked.op, comm, asked.type);
    check_buffers(asked, *comm, type);
    // An empty message has its counterpart; an empty collective does nothing.
    if (asked.count == 0 && !is_message(asked.what)) return ncclSuccess;
    const bool is_alone = !is_group_open();
    if (is_alone && is_message(asked.what) && asked.root == comm->rank())
      refuse(ncclInvalidUsage,
             "a rank sends to itself outside of a group: send and receive in one group");
    Call call{asked.what, asked.function, comm,      asked.send, asked.recv,  asked.count,
              type,       op.reduction,   op.factor, asked.root, asked.stream};
    if (!noted_in_group(call)) run(call);
    return ncclSuccess;
  });
}

}  // namespace ccoll::nccl

// SPDX-License-Identifier: Apache-2.0
#include "soak/nccl_part.hpp"

#include <fmt/format.h>

#include <deque>

#include "faces/nccl/handle.hpp"
#include "faces/nccl/newer.h"
#include "support/checked_call.hpp"

namespace ccoll::testing::soak {
namespace {

constexpr Kind kKinds[] = {Kind::all_reduce, Kind::reduce,         Kind::broadcast,
                           Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all,
                           Kind::gather,     Kind::scatter};

Collective draw_collective(Draw& draw, int size) {
  Collective what{kKinds[draw.from(0, std::size(kKinds) - 1)]};
  what.count = static_cast<std::size_t>(draw.from(1, draw.chance(70) ? 1000 : 100'000 / size));
  what.by_cost = true;
  what.salt = draw.from(1, 1000);
  what.registered = draw.chance(20);
  return what;
}

ncclResult_t call(const Collective& what, int root, ncclComm_t comm,
                  std::span<const std::int64_t> in, std::span<std::int64_t> out) {
  const auto n = what.count;
  switch (what.kind) {
    case Kind::all_reduce:
      return ncclAllReduce(in.data(), out.data(), n, ncclInt64, ncclSum, comm, nullptr);
    case Kind::reduce:
      return ncclReduce(in.data(), out.data(), n, ncclInt64, ncclSum, root, comm, nullptr);
    case Kind::broadcast:
      return ncclBroadcast(in.data(), out.data(), n, ncclInt64, root, comm, nullptr);
    case Kind::all_gather:
      return ncclAllGather(in.data(), out.data(), n, ncclInt64, comm, nullptr);
    case Kind::reduce_scatter:
      return ncclReduceScatter(in.data(), out.data(), n, ncclInt64, ncclSum, comm, nullptr);
    case Kind::all_to_all:
      return ncclAlltoAll(in.data(), out.data(), n, ncclInt64, comm, nullptr);
    case Kind::gather:
      return ncclGather(in.data(), out.data(), n, ncclInt64, root, comm, nullptr);
    case Kind::scatter:
      return ncclScatter(in.data(), out.data(), n, ncclInt64, root, comm, nullptr);
    case Kind::barrier:
      break;
  }
  return ncclInternalError;
}

/// The kind of an error that has broken no communicator.
ErrorKind kind_of(int code) {
  switch (code) {
    case ncclSystemError:
      return ErrorKind::exhausted;
    case ncclInvalidArgument:
      return ErrorKind::invalid_argument;
    case ncclInvalidUsage:
      return ErrorKind::mismatch;
    case ncclRemoteError:
      return ErrorKind::peer_lost;
    default:
      return ErrorKind::internal;
  }
}

}  // namespace

NcclPart::NcclPart(Communicator part)
    : comm_(std::make_shared<nccl::Comm>(std::move(part), kHost, nccl::Config())),
      handle_(nccl::new_handle(comm_)) {}

NcclPart::NcclPart(ncclComm* handle) : comm_(nccl::comm_of(handle)), handle_(handle) {}

NcclPart::~NcclPart() { ncclCommAbort(handle_); }

void NcclPart::must(int code, std::string_view function) const {
  if (code == ncclSuccess) return;
  const std::string why = ncclGetLastError(nullptr);
  const auto kind = comm_->state() == nccl::Comm::State::ended ? std::nullopt
                                                               : comm_->communicator().error_kind();
  throw Error(kind.value_or(kind_of(code)), fmt::format("{} gives {}: {}", function, code, why));
}

void NcclPart::next(Draw& draw, std::string& text) {
  switch (draw.from(0, 3)) {
    case 0:
      return messages(draw, text);
    case 1:
      return split(draw, text);
    default:
      return group(draw, text);
  }
}

void NcclPart::group(Draw& draw, std::string& text) {
  const int count = draw.from(1, 4);
  struct One {
    Collective what;
    int root;
    Checked checked;
  };
  std::deque<One> calls;
  text = "nccl:";
  for (int i = 0; i < count; i++) {
    const auto what = draw_collective(draw, comm_->size());
    const int root = draw.from(0, comm_->size() - 1);
    text += fmt::format(" {}", what.text());
    calls.push_back({what, root, Checked(comm_->communicator(), what, root)});
  }
  if (count > 1) must(ncclGroupStart(), "ncclGroupStart");
  int code = ncclSuccess;
  for (auto& one : calls)
    one.checked.begin_by([&](auto in, auto out) {
      if (code == ncclSuccess) code = call(one.what, one.root, handle_, in, out);
    });
  // The group must end even if one of its calls fails.
  if (count > 1) must(ncclGroupEnd(), "ncclGroupEnd");
  must(code, "a collective");
  for (const auto& one : calls) one.checked.check();
}

void NcclPart::messages(Draw& draw, std::string& text) {
  const int size = comm_->size(), me = comm_->rank(), by = draw.from(0, size - 1);
  const int salt = draw.from(1, 1000);
  const auto count = static_cast<std::size_t>(draw.from(1, draw.chance(70) ? 1000 : 20'000));
  text = fmt::format("nccl: messages of {}", count);
  const int to = (me + by) % size, from = (me + size - by) % size;
  Elements out, in(count, -1), wanted;
  give(out, me, to, count, salt);
  give(wanted, from, me, count, salt);
  must(ncclGroupStart(), "ncclGroupStart");
  const int sent = ncclSend(out.data(), count, ncclInt64, to, handle_, nullptr);
  const int received = ncclRecv(in.data(), count, ncclInt64, from, handle_, nullptr);
  must(ncclGroupEnd(), "ncclGroupEnd");
  must(sent, "ncclSend");
  must(received, "ncclRecv");
  if (in != wanted) throw WrongResult(fmt::format("a message of rank {} is wrong", from));
}

/// The part has all ranks in the same order, so ranks in its errors have the same numbers.
void NcclPart::split(Draw& draw, std::string& text) {
  const int salt = draw.from(1, 1000);
  text = "nccl: split";
  ncclComm_t part = nullptr;
  must(ncclCommSplit(handle_, 0, comm_->rank(), &part, nullptr), "ncclCommSplit");
  NcclPart whole(part);
  text = "nccl: all_reduce of 1 on a split";
  std::int64_t sum = salt;
  whole.must(ncclAllReduce(&sum, &sum, 1, ncclInt64, ncclSum, part, nullptr), "ncclAllReduce");
  if (sum != salt * comm_->size()) throw WrongResult("a sum on a split is wrong");
  whole.end(draw, text);
}

void NcclPart::end(Draw& draw, std::string& text) {
  text = "nccl: end";
  const int how = draw.from(0, 3);
  if (how == 0) return;  // after an abort, of which nobody else hears
  if (how == 1) must(ncclCommFinalize(handle_), "ncclCommFinalize");
  must(ncclCommDestroy(std::exchange(handle_, nullptr)), "ncclCommDestroy");
}

}  // namespace ccoll::testing::soak

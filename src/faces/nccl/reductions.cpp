// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/reductions.hpp"

#include <map>

#include "faces/nccl/handle.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "faces/nccl/values.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll::nccl {
namespace {

struct Made {
  std::weak_ptr<Comm> comm;
  ncclDataType_t type;
  MadeReduction reduction;
};

/// Reductions of all communicators: a number means one operation in the whole process.
struct All {
  std::map<int, Made> by_number;
  int last = ncclNumOps - 1;

  /// Returns a number that is not in use, after the last one given.
  int free_number() {
    do last = last == ncclMaxRedOp ? ncclNumOps : last + 1;
    while (by_number.contains(last));
    return last;
  }
};

Guarded<All>& all() { return Runtime::one<Guarded<All>>(); }

int add(Made made) {
  const auto of = all().lock();
  // Programs may forget to destroy reductions; these end with their communicators.
  std::erase_if(of->by_number, [](const auto& each) { return each.second.comm.expired(); });
  const int number = of->free_number();
  of->by_number.emplace(number, std::move(made));
  return number;
}

bool is_of(const Made& made, const std::shared_ptr<Comm>& comm) { return made.comm.lock() == comm; }

}  // namespace

MadeReduction reduction_of(ncclRedOp_t op, const std::shared_ptr<Comm>& comm, ncclDataType_t type) {
  if (is_built_in(op)) return {op_of(op)};
  const auto of = all().lock();
  const auto found = of->by_number.find(op);
  if (found == of->by_number.end() || !is_of(found->second, comm))
    refuse(ncclInvalidArgument,
           "op {}: expected 0 (sum) to 4 (avg), or one that ncclRedOpCreatePreMulSum has made for "
           "this communicator",
           static_cast<int>(op));
  if (found->second.type != type)
    refuse(ncclInvalidArgument, "op {} was made for type {}, and the call's type is {}",
           static_cast<int>(op), static_cast<int>(found->second.type), static_cast<int>(type));
  return found->second.reduction;
}

}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, RedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar,
                ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded("ncclRedOpCreatePreMulSum", [&] {
    const auto it = comm_of(comm);
    it->check_known();
    given(op, "op");
    given(static_cast<const char*>(scalar), "scalar");
    const auto type = type_of(datatype);
    const int where = residence;
    if (where != ncclScalarDevice && where != ncclScalarHostImmediate)
      refuse(ncclInvalidArgument, "residence {}: expected 0 (device) or 1 (host, immediate)",
             where);
    Made made{it, datatype, {}};
    if (where == ncclScalarHostImmediate)
      made.reduction.reduction = ccoll::Reduction::premultiplied_sum(scalar, type);
    else
      made.reduction.factor = scalar;
    *op = static_cast<ncclRedOp_t>(add(std::move(made)));
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, RedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  return guarded("ncclRedOpDestroy", [&] {
    const auto it = comm_of(comm);
    const auto of = all().lock();
    const auto found = of->by_number.find(op);
    if (found == of->by_number.end() || !is_of(found->second, it))
      refuse(ncclInvalidArgument,
             "op {}: expected one that ncclRedOpCreatePreMulSum has made for this communicator",
             static_cast<int>(op));
    of->by_number.erase(found);
    return ncclSuccess;
  });
}

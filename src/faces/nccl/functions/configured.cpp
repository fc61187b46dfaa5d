// SPDX-License-Identifier: Apache-2.0
// Collectives of NCCL 2.31 with a config of their own. It is checked, but the cost model still
// chooses: the config could change no result.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "faces/nccl/call.hpp"
#include "faces/nccl/group.hpp"
#include "faces/nccl/values.hpp"
#include "faces/nccl/versioned.hpp"

namespace ccoll::nccl {
namespace {

/// ncclCollConfig_t, by its offsets.
struct Layout {
  std::size_t size;
  std::uint32_t magic;
  std::uint32_t version;
  const void* extension;
  int min_ctas;
  int max_ctas;
  int nvls_ctas;
  int cga_cluster_size;
  const char* algorithms;
  int forces_algorithm;
  int cta_policy;
  std::uint64_t tag;
};
static_assert(offsetof(Layout, max_ctas) == 28 && offsetof(Layout, algorithms) == 40 &&
              sizeof(Layout) == 64);

/// Checks a list with commas, which ^ at its beginning inverts.
void check_algorithms(std::string_view list) {
  if (list.starts_with('^')) list.remove_prefix(1);
  while (!list.empty()) {
    const auto name = list.substr(0, list.find(','));
    if (!is_algorithm(name))
      refuse(ncclInvalidArgument, "config: algSelection names \"{}\": expected some of {}", name,
             algorithm_names());
    list.remove_prefix(std::min(name.size() + 1, list.size()));
  }
}

void check(const void* config) {
  if (config == nullptr) return;
  read_head(config, {"config", "NCCL_COLLCONFIG_INITIALIZER", kMagic, sizeof(Layout)});
  Layout read{};
  std::memcpy(&read, config, sizeof read);
  if (read.algorithms != nullptr && read.forces_algorithm == 1) check_algorithms(read.algorithms);
}

ncclResult_t ask(const Asked& asked, const void* config) noexcept {
  const auto checked = guarded_in_group(asked.function, [&] {
    check(config);
    return ncclSuccess;
  });
  return checked == ncclSuccess ? ccoll::nccl::ask(asked) : checked;
}

}  // namespace
}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, AllReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                const void* config) {
  return ask({What::all_reduce, "ncclAllReduceConfig", sendbuff, recvbuff, count, datatype, op, 0,
              comm, stream},
             config);
}

CCOLL_NCCL_FACE(ncclResult_t, BroadcastConfig, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                const void* config) {
  return ask({What::broadcast, "ncclBroadcastConfig", sendbuff, recvbuff, count, datatype, ncclSum,
              root, comm, stream},
             config);
}

CCOLL_NCCL_FACE(ncclResult_t, ReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                cudaStream_t stream, const void* config) {
  return ask({What::reduce, "ncclReduceConfig", sendbuff, recvbuff, count, datatype, op, root, comm,
              stream},
             config);
}

CCOLL_NCCL_FACE(ncclResult_t, AllGatherConfig, const void* sendbuff, void* recvbuff,
                size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                const void* config) {
  return ask({What::all_gather, "ncclAllGatherConfig", sendbuff, recvbuff, sendcount, datatype,
              ncclSum, 0, comm, stream},
             config);
}

CCOLL_NCCL_FACE(ncclResult_t, ReduceScatterConfig, const void* sendbuff, void* recvbuff,
                size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                cudaStream_t stream, const void* config) {
  return ask({What::reduce_scatter, "ncclReduceScatterConfig", sendbuff, recvbuff, recvcount,
              datatype, op, 0, comm, stream},
             config);
}

CCOLL_NCCL_FACE(ncclResult_t, AlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const void* config) {
  return ask({What::all_to_all, "ncclAlltoAllConfig", sendbuff, recvbuff, count, datatype, ncclSum,
              0, comm, stream},
             config);
}

CCOLL_NCCL_FACE(ncclResult_t, GatherConfig, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                const void* config) {
  return ask({What::gather, "ncclGatherConfig", sendbuff, recvbuff, count, datatype, ncclSum, root,
              comm, stream},
             config);
}

CCOLL_NCCL_FACE(ncclResult_t, ScatterConfig, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                const void* config) {
  return ask({What::scatter, "ncclScatterConfig", sendbuff, recvbuff, count, datatype, ncclSum,
              root, comm, stream},
             config);
}

// SPDX-License-Identifier: Apache-2.0
// Collectives and messages.
#include "faces/nccl/call.hpp"

using ccoll::nccl::ask;
using ccoll::nccl::What;

CCOLL_NCCL_FACE(ncclResult_t, AllReduce, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return ask({What::all_reduce, "ncclAllReduce", sendbuff, recvbuff, count, datatype, op, 0, comm,
              stream});
}

CCOLL_NCCL_FACE(ncclResult_t, Broadcast, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return ask({What::broadcast, "ncclBroadcast", sendbuff, recvbuff, count, datatype, ncclSum, root,
              comm, stream});
}

CCOLL_NCCL_FACE(ncclResult_t, Bcast, void* buff, size_t count, ncclDataType_t datatype, int root,
                ncclComm_t comm, cudaStream_t stream) {
  return ask(
      {What::broadcast, "ncclBcast", buff, buff, count, datatype, ncclSum, root, comm, stream});
}

CCOLL_NCCL_FACE(ncclResult_t, Reduce, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                cudaStream_t stream) {
  return ask(
      {What::reduce, "ncclReduce", sendbuff, recvbuff, count, datatype, op, root, comm, stream});
}

CCOLL_NCCL_FACE(ncclResult_t, AllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return ask({What::all_gather, "ncclAllGather", sendbuff, recvbuff, sendcount, datatype, ncclSum,
              0, comm, stream});
}

CCOLL_NCCL_FACE(ncclResult_t, ReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return ask({What::reduce_scatter, "ncclReduceScatter", sendbuff, recvbuff, recvcount, datatype,
              op, 0, comm, stream});
}

CCOLL_NCCL_FACE(ncclResult_t, AlltoAll, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return ask({What::all_to_all, "ncclAlltoAll", sendbuff, recvbuff, count, datatype, ncclSum, 0,
              comm, stream});
}

CCOLL_NCCL_FACE(ncclResult_t, Gather, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return ask({What::gather, "ncclGather", sendbuff, recvbuff, count, datatype, ncclSum, root, comm,
              stream});
}

CCOLL_NCCL_FACE(ncclResult_t, Scatter, const void* sendbuff, void* recvbuff, size_t count,
                ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return ask({What::scatter, "ncclScatter", sendbuff, recvbuff, count, datatype, ncclSum, root,
              comm, stream});
}

CCOLL_NCCL_FACE(ncclResult_t, Send, const void* sendbuff, size_t count, ncclDataType_t datatype,
                int peer, ncclComm_t comm, cudaStream_t stream) {
  return ask(
      {What::send, "ncclSend", sendbuff, nullptr, count, datatype, ncclSum, peer, comm, stream});
}

CCOLL_NCCL_FACE(ncclResult_t, Recv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                ncclComm_t comm, cudaStream_t stream) {
  return ask(
      {What::recv, "ncclRecv", nullptr, recvbuff, count, datatype, ncclSum, peer, comm, stream});
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that are out of range, NULL, or inconsistent. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

static float in[8] = {1, 2, 3, 4}, out[8];
#define ARGUMENT_OF(NAME, ...) \
  expect(#NAME "(" #__VA_ARGS__ ")", #NAME, ARGUMENT, NAME(__VA_ARGS__))
#define OK_OF(NAME, ...) expect(#NAME "(" #__VA_ARGS__ ")", #NAME, OK, NAME(__VA_ARGS__))
#define USAGE_OF(NAME, ...) expect(#NAME "(" #__VA_ARGS__ ")", #NAME, USAGE, NAME(__VA_ARGS__))

void check_library(void) {
  now_testing("the library", "");
  require(strcmp(ncclGetLastError(NULL), "") == 0, "the last error is empty where there was none");
  int version = 0;
  OK_OF(ncclGetVersion, &version);
  require(version == 22809, "the version is 22809");
  ncclUniqueId ids[2];
  OK_OF(ncclGetUniqueId, &ids[0]);
  OK_OF(ncclGetUniqueId, &ids[1]);
  require(memcmp(&ids[0], &ids[1], sizeof ids[0]) != 0, "two ids differ");
  require(strcmp(ncclGetLastError(NULL), "") == 0, "successes leave the last error empty");
  ARGUMENT_OF(ncclGetVersion, NULL);
  ARGUMENT_OF(ncclGetUniqueId, NULL);
  OK_OF(ncclGetVersion, &version);
  text_has("after a success the last failure's text stays", "ncclGetUniqueId");
  for (int code = 0; code <= 9; ++code) {
    const char* const text = ncclGetErrorString((ncclResult_t)code);
    require(text != NULL && text[0] != '\0', "each code has a text");
    for (int before = 0; before < code && code < 9; ++before) {
      require(strcmp(text, ncclGetErrorString((ncclResult_t)before)) != 0, "texts differ");
    }
  }
  require(strcmp(ncclGetErrorString((ncclResult_t)-1), ncclGetErrorString((ncclResult_t)99)) == 0,
          "all that are no codes have one text");
}

static ncclResult_t init_with(ncclConfig_t config) {
  ncclUniqueId id;
  OK_OF(ncclGetUniqueId, &id);
  ncclComm_t comm = (ncclComm_t)&id;
  const ncclResult_t code = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  if (code == ncclSuccess) {
    OK_OF(ncclCommDestroy, comm);
  } else {
    require(comm == NULL, "a communicator that is not made is NULL");
  }
  return code;
}

static void check_config(void) {
  now_testing("config", "ncclCommInitRankConfig");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const ncclConfig_t good = config;
#define FIELD(CODES, NAME, VALUE) \
  config = good;                  \
  config.NAME = VALUE;            \
  expect("config." #NAME " = " #VALUE, "ncclCommInitRankConfig", CODES, init_with(config))
  FIELD(ARGUMENT, magic, 0xdeadbeef);
  FIELD(ARGUMENT, size, 0);
  FIELD(ARGUMENT, size, 15);
  FIELD(OK, size, 16);
  FIELD(OK, version, 0);
  FIELD(OK, version, 99999);
  FIELD(ARGUMENT, blocking, 2);
  FIELD(ARGUMENT, blocking, -1);
  FIELD(OK, blocking, 1);
  FIELD(ARGUMENT, cgaClusterSize, -1);
  FIELD(OK, cgaClusterSize, 0);
  FIELD(ARGUMENT, minCTAs, 0);
  FIELD(ARGUMENT, maxCTAs, -5);
  FIELD(OK, maxCTAs, 4);
  FIELD(USAGE, netName, "Carrier pigeon");
  FIELD(OK, netName, "Socket");
  FIELD(ARGUMENT, splitShare, 2);
  FIELD(OK, splitShare, 1);
  FIELD(OK, trafficClass, 3);
  FIELD(OK, commName, "a name");
  FIELD(ARGUMENT, collnetEnable, 2);
  FIELD(ARGUMENT, shrinkShare, -1);
  FIELD(ARGUMENT, nvlsCTAs, 0);
  config = good;
  config.minCTAs = 8;
  config.maxCTAs = 4;
  expect("minCTAs > maxCTAs", "ncclCommInitRankConfig", ARGUMENT, init_with(config));
  FIELD(ARGUMENT, blocking, 7);
  text_has("a bad field", "blocking");
  text_has("a bad field", "7");
#undef FIELD
}

void check_making(void) {
  now_testing("making", "");
  ncclUniqueId id;
  OK_OF(ncclGetUniqueId, &id);
  ncclComm_t comm = (ncclComm_t)&id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ARGUMENT_OF(ncclCommInitRank, &comm, 0, id, 0);
  require(comm == NULL, "a communicator that is not made is NULL");
  ARGUMENT_OF(ncclCommInitRank, &comm, -1, id, 0);
  ARGUMENT_OF(ncclCommInitRank, &comm, 2, id, -1);
  ARGUMENT_OF(ncclCommInitRank, &comm, 2, id, 2);
  text_has("a rank out of range", "2");
  ARGUMENT_OF(ncclCommInitRank, NULL, 1, id, 0);
  ARGUMENT_OF(ncclCommInitRankConfig, &comm, 2, id, 2, &config);
  ARGUMENT_OF(ncclCommInitRankConfig, NULL, 1, id, 0, &config);
  ncclUniqueId wrong;
  memset(&wrong, 0, sizeof wrong);
  expect("an id of zeros", "ncclCommInitRank", ARGUMENT, ncclCommInitRank(&comm, 2, wrong, 0));
  ARGUMENT_OF(ncclCommInitRankScalable, &comm, 1, 0, 0, &id, NULL);
  ARGUMENT_OF(ncclCommInitRankScalable, &comm, 1, 0, 2, &id, NULL);
  ARGUMENT_OF(ncclCommInitRankScalable, &comm, 1, 0, 1, NULL, NULL);
  ARGUMENT_OF(ncclCommInitAll, NULL, 1, NULL);
  ARGUMENT_OF(ncclCommInitAll, &comm, -1, NULL);
  check_config();

  now_testing("asking", "");
  comm = alone(true);
  ARGUMENT_OF(ncclCommCount, comm, NULL);
  ARGUMENT_OF(ncclCommUserRank, comm, NULL);
  ARGUMENT_OF(ncclCommCuDevice, comm, NULL);
  ARGUMENT_OF(ncclCommGetAsyncError, comm, NULL);
  int device = 0;
  OK_OF(ncclCommCuDevice, comm, &device);
  require(device == -1, "a communicator on the host has no device");

  now_testing("groups of ranks", "");
  ncclComm_t made = (ncclComm_t)&id;
  ARGUMENT_OF(ncclCommSplit, comm, 0, 0, NULL, NULL);
  ARGUMENT_OF(ncclCommSplit, comm, -2, 0, &made, NULL);
  made = (ncclComm_t)&id;
  OK_OF(ncclCommSplit, comm, NCCL_SPLIT_NOCOLOR, 0, &made, NULL);
  require(made == NULL, "no colour gives NULL");
  int list[2] = {0, 1};
  ARGUMENT_OF(ncclCommShrink, comm, NULL, 1, &made, NULL, NCCL_SHRINK_DEFAULT);
  ARGUMENT_OF(ncclCommShrink, comm, list, 0, &made, NULL, NCCL_SHRINK_DEFAULT);
  ARGUMENT_OF(ncclCommShrink, comm, list, -1, &made, NULL, NCCL_SHRINK_DEFAULT);
  ARGUMENT_OF(ncclCommShrink, comm, list, 1, &made, NULL, NCCL_SHRINK_DEFAULT);
  ARGUMENT_OF(ncclCommShrink, comm, &list[1], 1, &made, NULL, NCCL_SHRINK_DEFAULT);
  ARGUMENT_OF(ncclCommShrink, comm, &list[1], 1, NULL, NULL, NCCL_SHRINK_DEFAULT);
  ARGUMENT_OF(ncclCommGrow, comm, 1, &id, -1, &made, NULL);
  ARGUMENT_OF(ncclCommGrow, comm, 2, &id, -1, NULL, NULL);
  ARGUMENT_OF(ncclCommGetUniqueId, comm, NULL);
  ARGUMENT_OF(ncclCommRevoke, comm, 1);
  /* The communicator still works. */
  OK_OF(ncclAllReduce, in, out, 4, ncclFloat32, ncclSum, comm, NULL);
  require(memcmp(in, out, 4 * sizeof in[0]) == 0, "one rank's sum is its input");
  OK_OF(ncclCommDestroy, comm);
}

void check_collectives(void) {
  now_testing("collectives", "");
  const Pair both = pair();
  const ncclComm_t comm = both.ranks[0];
  const ncclDataType_t types[] = {(ncclDataType_t)-1, (ncclDataType_t)12, (ncclDataType_t)99};
  for (int i = 0; i < 3; ++i) {
    const ncclDataType_t type = types[i];
    ARGUMENT_OF(ncclAllReduce, in, out, 1, type, ncclSum, comm, NULL);
    ARGUMENT_OF(ncclBroadcast, in, out, 1, type, 0, comm, NULL);
    ARGUMENT_OF(ncclBcast, out, 1, type, 0, comm, NULL);
    ARGUMENT_OF(ncclReduce, in, out, 1, type, ncclSum, 0, comm, NULL);
    ARGUMENT_OF(ncclAllGather, in, out, 1, type, comm, NULL);
    ARGUMENT_OF(ncclReduceScatter, in, out, 1, type, ncclSum, comm, NULL);
    ARGUMENT_OF(ncclAlltoAll, in, out, 1, type, comm, NULL);
    ARGUMENT_OF(ncclGather, in, out, 1, type, 0, comm, NULL);
    ARGUMENT_OF(ncclScatter, in, out, 1, type, 0, comm, NULL);
    ARGUMENT_OF(ncclSend, in, 1, type, 1, comm, NULL);
    ARGUMENT_OF(ncclRecv, out, 1, type, 1, comm, NULL);
  }
  text_has("a type that is none", "99");
  const int roots[] = {-1, 2, INT_MAX, INT_MIN};
  for (int i = 0; i < 4; ++i) {
    const int root = roots[i];
    ARGUMENT_OF(ncclBroadcast, in, out, 1, ncclInt8, root, comm, NULL);
    ARGUMENT_OF(ncclBcast, out, 1, ncclInt8, root, comm, NULL);
    ARGUMENT_OF(ncclReduce, in, out, 1, ncclInt8, ncclSum, root, comm, NULL);
    ARGUMENT_OF(ncclGather, in, out, 1, ncclInt8, root, comm, NULL);
    ARGUMENT_OF(ncclScatter, in, out, 1, ncclInt8, root, comm, NULL);
    ARGUMENT_OF(ncclSend, in, 1, ncclInt8, root, comm, NULL);
    ARGUMENT_OF(ncclRecv, out, 1, ncclInt8, root, comm, NULL);
  }
  const ncclRedOp_t ops[] = {(ncclRedOp_t)-1, (ncclRedOp_t)5, (ncclRedOp_t)1000, ncclMaxRedOp};
  for (int i = 0; i < 4; ++i) {
    const ncclRedOp_t op = ops[i];
    ARGUMENT_OF(ncclAllReduce, in, out, 1, ncclFloat32, op, comm, NULL);
    ARGUMENT_OF(ncclReduce, in, out, 1, ncclFloat32, op, 0, comm, NULL);
    ARGUMENT_OF(ncclReduceScatter, in, out, 1, ncclFloat32, op, comm, NULL);
  }
  ARGUMENT_OF(ncclAllReduce, NULL, out, 1, ncclFloat32, ncclSum, comm, NULL);
  ARGUMENT_OF(ncclAllReduce, in, NULL, 1, ncclFloat32, ncclSum, comm, NULL);
  /* The buffers would wrap around the address space. */
  ARGUMENT_OF(ncclAllReduce, in, out, SIZE_MAX / 2, ncclFloat64, ncclSum, comm, NULL);
  ARGUMENT_OF(ncclAllGather, in, out, SIZE_MAX / 4, ncclFloat32, comm, NULL);
  USAGE_OF(ncclSend, in, 1, ncclFloat32, 0, comm, NULL);
  USAGE_OF(ncclRecv, out, 1, ncclFloat32, 0, comm, NULL);
  /* An empty call needs no other rank, and no buffers. */
  OK_OF(ncclAllReduce, in, out, 0, ncclFloat32, ncclSum, comm, NULL);
  OK_OF(ncclAllReduce, NULL, NULL, 0, ncclFloat32, ncclSum, comm, NULL);
  OK_OF(ncclBroadcast, NULL, NULL, 0, ncclFloat32, 1, comm, NULL);
  OK_OF(ncclReduceScatter, NULL, NULL, 0, ncclFloat32, ncclSum, comm, NULL);
  OK_OF(ncclAllGather, NULL, NULL, 0, ncclFloat32, comm, NULL);
  ncclResult_t state = ncclInternalError;
  OK_OF(ncclCommGetAsyncError, comm, &state);
  require(state == ncclSuccess, "arguments that are refused break nothing");
  destroy_pair(both);
}

void check_reductions(void) {
  now_testing("reductions", "");
  const ncclComm_t comm = alone(true);
  const ncclComm_t second = alone(true);
  float factor = 3;
  ncclRedOp_t op = ncclSum;
  ARGUMENT_OF(ncclRedOpCreatePreMulSum, NULL, &factor, ncclFloat32, ncclScalarHostImmediate, comm);
  ARGUMENT_OF(ncclRedOpCreatePreMulSum, &op, NULL, ncclFloat32, ncclScalarHostImmediate, comm);
  ARGUMENT_OF(ncclRedOpCreatePreMulSum, &op, &factor, (ncclDataType_t)12, ncclScalarHostImmediate,
              comm);
  ARGUMENT_OF(ncclRedOpCreatePreMulSum, &op, &factor, ncclFloat32, (ncclScalarResidence_t)2, comm);
  OK_OF(ncclRedOpCreatePreMulSum, &op, &factor, ncclFloat32, ncclScalarHostImmediate, comm);
  require((int)op >= 5, "an operation of one's own is beyond the built-in ones");
  ncclRedOp_t another = ncclSum;
  OK_OF(ncclRedOpCreatePreMulSum, &another, &factor, ncclFloat32, ncclScalarHostImmediate, second);
  require(another != op, "two communicators' operations differ");
  factor = 100; /* it has already been read */
  ARGUMENT_OF(ncclAllReduce, in, out, 1, ncclFloat64, op, comm, NULL);
  ARGUMENT_OF(ncclAllReduce, in, out, 4, ncclFloat32, another, comm, NULL);
  OK_OF(ncclAllReduce, in, out, 4, ncclFloat32, op, comm, NULL);
  require(out[3] == 12, "one rank alone scales, too");
  ARGUMENT_OF(ncclRedOpDestroy, ncclSum, comm);
  ARGUMENT_OF(ncclRedOpDestroy, ncclAvg, comm);
  ARGUMENT_OF(ncclRedOpDestroy, (ncclRedOp_t)1000, comm);
  ARGUMENT_OF(ncclRedOpDestroy, (ncclRedOp_t)-1, comm);
  ARGUMENT_OF(ncclRedOpDestroy, another, comm);
  ARGUMENT_OF(ncclRedOpDestroy, op, NULL);
  group_starts();
  out[3] = 0;
  OK_OF(ncclAllReduce, in, out, 4, ncclFloat32, op, comm, NULL);
  OK_OF(ncclRedOpDestroy, op, comm);
  group_ends(OK);
  require(out[3] == 12, "a call that was noted keeps its operation");
  ARGUMENT_OF(ncclRedOpDestroy, op, comm);
  ARGUMENT_OF(ncclAllReduce, in, out, 4, ncclFloat32, op, comm, NULL);
  OK_OF(ncclCommDestroy, comm);
  OK_OF(ncclCommDestroy, second);
}

static float estimate(const Pair* pair, size_t count, int calls, bool has_messages) {
  static float large[2][1 << 16];
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  group_starts();
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < calls; ++i) {
      OK_OF(ncclAllReduce, large[rank], large[rank], count, ncclFloat32, ncclSum, pair->ranks[rank],
            NULL);
    }
    if (!has_messages) continue;
    OK_OF(ncclSend, in, 4, ncclFloat32, 1 - rank, pair->ranks[rank], NULL);
    OK_OF(ncclRecv, out, 4, ncclFloat32, 1 - rank, pair->ranks[rank], NULL);
  }
  OK_OF(ncclGroupSimulateEnd, &info);
  return info.estimatedTime;
}

static void check_estimates(void) {
  const Pair both = pair();
  const float one = estimate(&both, 4, 1, false);
  require(one > 0, "a call between two ranks takes time");
  require(estimate(&both, 1 << 16, 1, false) > one, "a larger one takes longer");
  const float three = estimate(&both, 4, 3, false);
  require(three > 2.9f * one && three < 3.1f * one,
          "calls of a communicator follow each other, beside those of another");
  require(estimate(&both, 0, 1, false) == 0, "nothing takes no time");
  require(estimate(&both, 4, 1, true) == NCCL_UNDEF_FLOAT, "nothing is known of messages");
  destroy_pair(both);
}

void check_groups(void) {
  now_testing("groups", "");
  expect("without a group", "ncclGroupEnd", USAGE, ncclGroupEnd());
  expect("without a group", "ncclGroupSimulateEnd", USAGE, ncclGroupSimulateEnd(NULL));
  const ncclComm_t comm = alone(true);
  group_starts();
  group_starts();
  memset(out, 0, sizeof out);
  OK_OF(ncclAllReduce, in, out, 4, ncclFloat32, ncclSum, comm, NULL);
  group_ends(OK);
  require(out[0] == 0, "only the outermost group's end acts");
  group_ends(OK);
  require(out[0] == 1, "the outermost group's end acts");

  out[0] = 0;
  group_starts();
  OK_OF(ncclAllReduce, in, out, 4, ncclFloat32, ncclSum, comm, NULL);
  ARGUMENT_OF(ncclAllReduce, in, out, 4, (ncclDataType_t)12, ncclSum, comm, NULL);
  group_ends(ARGUMENT);
  require(out[0] == 0, "a failed group starts nothing");
  group_starts();
  OK_OF(ncclAllReduce, in, out, 4, ncclFloat32, ncclSum, comm, NULL);
  group_ends(OK);
  require(out[0] == 1, "the next group knows nothing of the one that failed");

  group_starts();
  OK_OF(ncclSend, in, 4, ncclFloat32, 0, comm, NULL);
  group_ends(USAGE);
  group_starts();
  OK_OF(ncclRecv, out, 4, ncclFloat32, 0, comm, NULL);
  OK_OF(ncclSend, in, 4, ncclFloat32, 0, comm, NULL);
  group_ends(OK);

  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  out[0] = 0;
  group_starts();
  OK_OF(ncclAllReduce, in, out, 4, ncclFloat32, ncclSum, comm, NULL);
  OK_OF(ncclGroupSimulateEnd, &info);
  require(out[0] == 0, "what is only simulated does nothing");
  require(info.estimatedTime >= 0, "there is an estimate");
  group_ends(USAGE);
  group_starts();
  OK_OF(ncclGroupSimulateEnd, NULL);
  check_estimates();

  const ncclComm_t polled = alone(false);
  group_starts();
  OK_OF(ncclAllReduce, in, out, 4, ncclFloat32, ncclSum, comm, NULL);
  expect("both kinds in a group", "ncclAllReduce", OK | PROGRESS | ARGUMENT,
         ncclAllReduce(in, out, 4, ncclFloat32, ncclSum, polled, NULL));
  group_ends(ARGUMENT);
  OK_OF(ncclCommDestroy, polled);

  /* A split in a group exists only after the group's end. */
  ncclComm_t parts[3] = {comm, comm, comm};
  group_starts();
  for (int i = 0; i < 3; ++i) OK_OF(ncclCommSplit, comm, i, 0, &parts[i], NULL);
  require(parts[0] == NULL && parts[2] == NULL, "a split is NULL until its group ends");
  group_ends(OK);
  for (int i = 0; i < 3; ++i) {
    require(parts[i] != NULL && parts[i] != comm, "a split is there when its group has ended");
    OK_OF(ncclCommDestroy, parts[i]);
  }
  OK_OF(ncclCommDestroy, comm);
}

void check_memory(void) {
  now_testing("memory", "");
  void* data = NULL;
  ARGUMENT_OF(ncclMemAlloc, NULL, 4096);
  OK_OF(ncclMemAlloc, &data, 0);
  OK_OF(ncclMemFree, data);
  OK_OF(ncclMemFree, NULL);
  const size_t too_large[] = {SIZE_MAX, SIZE_MAX - (2 << 20), SIZE_MAX / 2};
  for (int i = 0; i < 3; ++i)
    expect("more than there is", "ncclMemAlloc", SYSTEM, ncclMemAlloc(&data, too_large[i]));
  OK_OF(ncclMemAlloc, &data, 1);
  require(data != NULL && (uintptr_t)data % (2 << 20) == 0, "memory is aligned to 2 MiB");
  *(volatile char*)data = 1;
  OK_OF(ncclMemFree, data);
  group_starts();
  OK_OF(ncclMemAlloc, &data, 5 << 20);
  require(data != NULL, "memory is there at once, also in a group");
  memset(data, 1, 5 << 20);
  group_ends(OK);

  const ncclComm_t comm = alone(true);
  void* handles[2] = {NULL, NULL};
  OK_OF(ncclCommRegister, comm, data, 5 << 20, &handles[0]);
  OK_OF(ncclCommRegister, comm, (char*)data + 4096, 1 << 20, &handles[1]);
  OK_OF(ncclCommDeregister, comm, handles[0]);
  OK_OF(ncclCommDeregister, comm, handles[1]);
  OK_OF(ncclCommRegister, comm, data, 4096, NULL);
  OK_OF(ncclCommDeregister, comm, NULL);
  USAGE_OF(ncclCommDeregister, comm, &data);
  ncclWindow_t window = (ncclWindow_t)data;
  ARGUMENT_OF(ncclCommWindowRegister, comm, NULL, 4096, &window, NCCL_WIN_DEFAULT);
  ARGUMENT_OF(ncclCommWindowRegister, comm, data, 0, &window, NCCL_WIN_DEFAULT);
  ARGUMENT_OF(ncclCommWindowRegister, comm, data, 4096, NULL, NCCL_WIN_DEFAULT);
  window = (ncclWindow_t)data;
  OK_OF(ncclCommWindowRegister, comm, data, 4096, &window, NCCL_WIN_COLL_SYMMETRIC);
  require(window == NULL, "there are no windows");
  OK_OF(ncclCommWindowDeregister, comm, window);
  void* pointer = data;
  OK_OF(ncclWinGetUserPtr, comm, NULL, &pointer);
  require(pointer == NULL, "a window that is none has no memory");
  OK_OF(ncclCommDestroy, comm);
  OK_OF(ncclMemFree, data);
}

/* ncclCommProperties of 2.29 and later. */
typedef struct {
  size_t size;
  unsigned magic, version;
  int rank, ranks, cuda_device, nvml_device;
  bool has_device_interface, has_multimem;
  int gin_type;
  int lsa_teams;
  bool has_host_rma;
  int railed_gin_type;
} Properties;

void check_newer(void) {
  now_testing("newer functions", "");
  const ncclComm_t comm = alone(true);
  uint64_t value = 7;
  ARGUMENT_OF(ncclCommMemStats, comm, 4, &value);
  ARGUMENT_OF(ncclCommMemStats, comm, -1, &value);
  ARGUMENT_OF(ncclCommMemStats, comm, 3, NULL);
  OK_OF(ncclCommMemStats, comm, 1, &value);
  require(value == 0, "it is not suspended");
  OK_OF(ncclCommSuspend, comm, 1);
  USAGE_OF(ncclCommSuspend, comm, 1);
  OK_OF(ncclCommMemStats, comm, 1, &value);
  require(value == 1, "it is suspended");
  USAGE_OF(ncclAllReduce, in, out, 4, ncclFloat32, ncclSum, comm, NULL);
  OK_OF(ncclCommResume, comm);
  USAGE_OF(ncclCommResume, comm);
  OK_OF(ncclAllReduce, in, out, 4, ncclFloat32, ncclSum, comm, NULL);

  ARGUMENT_OF(ncclPutSignal, in, 1, ncclFloat32, 0, NULL, 0, 0, 0, 0, comm, NULL);
  text_has("a put", "host RMA");
  ARGUMENT_OF(ncclSignal, 0, 0, 0, 0, comm, NULL);
  ARGUMENT_OF(ncclWaitSignal, 1, out, comm, NULL);
  USAGE_OF(ncclDevCommCreate, comm, in, out);
  text_has("a device communicator", "device");
  OK_OF(ncclDevCommDestroy, comm, NULL);
  void* pointer = out;
  USAGE_OF(ncclGetLsaDevicePointer, NULL, 0, 0, &pointer);
  require(pointer == NULL, "there is no such pointer");

  Properties properties = {.size = sizeof properties, .magic = 0xdeadbeef, .version = 23007};
  USAGE_OF(ncclCommQueryProperties, comm, &properties);
  properties.magic = 0xcafebeef;
  properties.rank = properties.lsa_teams = -7;
  /* An older struct is not written beyond its end. */
  properties.version = 22900;
  OK_OF(ncclCommQueryProperties, comm, &properties);
  require(properties.rank == 0 && properties.ranks == 1, "the properties say who it is");
  require(!properties.has_device_interface && !properties.has_multimem, "they promise nothing");
  require(properties.lsa_teams == -7, "fields that the caller's version lacks are left alone");
  OK_OF(ncclCommDestroy, comm);
}

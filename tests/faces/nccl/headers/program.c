/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program for the nccl.h of some year, from 2.14 on: two ranks, which are threads, run
 * every collective of its header, and a split. The unnamed bytes of its config struct are garbage.
 * Runs on the host. */
#include <nccl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if NCCL_VERSION_CODE < 21700
#define LAST_FIELD blocking
#elif NCCL_VERSION_CODE < 21800
#define LAST_FIELD netName
#elif NCCL_VERSION_CODE < 22600
#define LAST_FIELD splitShare
#elif NCCL_VERSION_CODE < 22700
#define LAST_FIELD trafficClass
#elif NCCL_VERSION_CODE < 22800
#define LAST_FIELD nvlsCTAs
#elif NCCL_VERSION_CODE < 22900
#define LAST_FIELD nvlinkCentricSched
#elif NCCL_VERSION_CODE < 23000
#define LAST_FIELD numRmaCtx
#elif NCCL_VERSION_CODE < 23005
#define LAST_FIELD maxP2pPeers
#elif NCCL_VERSION_CODE < 23100
#define LAST_FIELD graphStreamOrdering
#elif NCCL_VERSION_CODE < 23200
#define LAST_FIELD hostCftMode
#else
#define LAST_FIELD nvlsHostMode
#endif
#define NAMED_BYTES (offsetof(ncclConfig_t, LAST_FIELD) + sizeof(((ncclConfig_t*)NULL)->LAST_FIELD))

enum { kRanks = 2, kCount = 100 };

#define MUST(CALL)                                                                         \
  do {                                                                                     \
    const ncclResult_t code = (CALL);                                                      \
    if (code != ncclSuccess) {                                                             \
      fprintf(stderr, "%s gives %d: %s: %s\n", #CALL, (int)code, ncclGetErrorString(code), \
              ncclGetLastError(NULL));                                                     \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s: not so\n", what);
  exit(1);
}

typedef struct {
  int rank;
  ncclUniqueId id;
} Start;

/* Puts garbage into the padding and behind the struct. */
static ncclConfig_t* make_config(void* memory, size_t bytes) {
  const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  memset(memory, 0x5a, bytes);
  memcpy(memory, &initial, NAMED_BYTES);
  return memory;
}

static void move(int rank, ncclComm_t comm) {
  float in[kRanks * kCount], out[kRanks * kCount];
  for (int i = 0; i < kRanks * kCount; ++i) in[i] = (float)(100 * rank + i);
  MUST(ncclAllReduce(in, out, kCount, ncclFloat32, ncclSum, comm, NULL));
  require(out[7] == 7 + 107, "ncclAllReduce");
  MUST(ncclAllReduce(in, out, kCount, ncclFloat32, ncclAvg, comm, NULL));
  require(out[7] == 57, "ncclAllReduce of an average");
  MUST(ncclBroadcast(in, out, kCount, ncclFloat32, 1, comm, NULL));
  require(out[7] == 107, "ncclBroadcast");
  memcpy(out, in, sizeof out);
  MUST(ncclBcast(out, kCount, ncclFloat32, 0, comm, NULL));
  require(out[7] == 7, "ncclBcast");
  MUST(ncclReduce(in, rank == 0 ? out : NULL, kCount, ncclFloat32, ncclMax, 0, comm, NULL));
  require(rank != 0 || out[7] == 107, "ncclReduce");
  MUST(ncclAllGather(in, out, kCount, ncclFloat32, comm, NULL));
  require(out[7] == 7 && out[kCount + 7] == 107, "ncclAllGather");
  MUST(ncclReduceScatter(in, out, kCount, ncclFloat32, ncclMin, comm, NULL));
  require(out[7] == (float)(rank * kCount + 7), "ncclReduceScatter");
  MUST(ncclGroupStart());
  MUST(ncclSend(in, kCount, ncclFloat32, 1 - rank, comm, NULL));
  MUST(ncclRecv(out, kCount, ncclFloat32, 1 - rank, comm, NULL));
  MUST(ncclGroupEnd());
  require(out[7] == (float)(100 * (1 - rank) + 7), "ncclSend and ncclRecv");
#if NCCL_VERSION_CODE >= 22800
  MUST(ncclAlltoAll(in, out, kCount, ncclFloat32, comm, NULL));
  require(out[7] == (float)(rank * kCount + 7), "ncclAlltoAll");
  MUST(ncclGather(in, out, kCount, ncclFloat32, 0, comm, NULL));
  require(rank != 0 || out[kCount + 7] == 107, "ncclGather");
  MUST(ncclScatter(in, out, kCount, ncclFloat32, 1, comm, NULL));
  require(out[7] == (float)(100 + rank * kCount + 7), "ncclScatter");
#endif
  float factor = 2;
  ncclRedOp_t op;
  MUST(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
  MUST(ncclAllReduce(in, out, kCount, ncclFloat32, op, comm, NULL));
  require(out[7] == 2 * (7 + 107), "a pre-multiplied sum");
  MUST(ncclRedOpDestroy(op, comm));
#if NCCL_VERSION_CODE >= 22400
  /* The header has constants for its types. */
  uint8_t one = 0x38, sum = 0;
  MUST(ncclAllReduce(&one, &sum, 1, ncclFloat8e4m3, ncclSum, comm, NULL));
  require(sum == 0x40, "1 + 1 in float8e4m3");
#endif
}

static void* run(void* argument) {
  const Start* const start = argument;
  ncclConfig_t memory[2];
  ncclConfig_t* config = make_config(memory, sizeof memory);
  ncclComm_t comm = NULL;
  MUST(ncclCommInitRankConfig(&comm, kRanks, start->id, start->rank, config));
  int count = 0, rank = -1;
  MUST(ncclCommCount(comm, &count));
  MUST(ncclCommUserRank(comm, &rank));
  require(count == kRanks && rank == start->rank, "who it is");
  move(rank, comm);
#if NCCL_VERSION_CODE >= 21800
  ncclComm_t half = NULL;
  config = make_config(memory, sizeof memory);
  config->splitShare = 1;
  MUST(ncclCommSplit(comm, 0, -rank, &half, config));
  MUST(ncclCommUserRank(half, &rank));
  require(rank == 1 - start->rank, "a split by falling keys");
  move(rank, half);
  MUST(ncclCommDestroy(half));
#endif
  ncclResult_t state = ncclInternalError;
  MUST(ncclCommGetAsyncError(comm, &state));
  require(state == ncclSuccess, "all is well");
  MUST(ncclCommFinalize(comm));
  MUST(ncclCommDestroy(comm));
  return NULL;
}

int main(void) {
  setenv("CCOLL_NCCL_HOST", "1", 0);
  int version = 0;
  MUST(ncclGetVersion(&version));
  require(version >= 22800, "the library's version");
  Start starts[kRanks];
  MUST(ncclGetUniqueId(&starts[0].id));
  pthread_t threads[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    starts[rank].id = starts[0].id;
    starts[rank].rank = rank;
    pthread_create(&threads[rank], NULL, run, &starts[rank]);
  }
  for (int rank = 0; rank < kRanks; ++rank) pthread_join(threads[rank], NULL);
  printf("a program of %d.%d.%d runs on %d; its config has %zu bytes, %zu of them named\n",
         NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, version, sizeof(ncclConfig_t), (size_t)NAMED_BYTES);
  return 0;
}

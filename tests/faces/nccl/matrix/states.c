/* SPDX-License-Identifier: Apache-2.0 */
/* Each function that takes a communicator, with one in each state. */
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

/* The buffers are on the host, unless a device's stream is captured. */
enum { LENGTH = 8 };
static float host_in[LENGTH], host_out[LENGTH];
static float *in = host_in, *out = host_out;
static cudaStream_t stream;
static ncclRedOp_t own_op;
static ncclComm_t other;

#define COLLECTIVE(NAME, ...) \
  static ncclResult_t NAME(ncclComm_t comm) { return nccl##NAME(__VA_ARGS__, comm, stream); }
COLLECTIVE(AllReduce, in, out, 4, ncclFloat32, ncclSum)
COLLECTIVE(Broadcast, in, out, 4, ncclFloat32, 0)
COLLECTIVE(Bcast, out, 4, ncclFloat32, 0)
COLLECTIVE(Reduce, in, out, 4, ncclFloat32, ncclMax, 0)
COLLECTIVE(AllGather, in, out, 4, ncclFloat32)
COLLECTIVE(ReduceScatter, in, out, 4, ncclFloat32, ncclSum)
COLLECTIVE(AlltoAll, in, out, 4, ncclFloat32)
COLLECTIVE(Gather, in, out, 4, ncclFloat32, 0)
COLLECTIVE(Scatter, in, out, 4, ncclFloat32, 0)
COLLECTIVE(Send, in, 4, ncclFloat32, 0)
COLLECTIVE(Recv, out, 4, ncclFloat32, 0)

static ncclResult_t CommCount(ncclComm_t comm) {
  int count;
  return ncclCommCount(comm, &count);
}
static ncclResult_t CommUserRank(ncclComm_t comm) {
  int rank;
  return ncclCommUserRank(comm, &rank);
}
static ncclResult_t CommCuDevice(ncclComm_t comm) {
  int device;
  return ncclCommCuDevice(comm, &device);
}
static ncclResult_t CommGetAsyncError(ncclComm_t comm) {
  ncclResult_t code;
  return ncclCommGetAsyncError(comm, &code);
}
static ncclResult_t RedOpCreatePreMulSum(ncclComm_t comm) {
  float factor = 2;
  return ncclRedOpCreatePreMulSum(&own_op, &factor, ncclFloat32, ncclScalarHostImmediate, comm);
}
static ncclResult_t CommRegister(ncclComm_t comm) {
  void* handle = NULL;
  return ncclCommRegister(comm, in, LENGTH * sizeof in[0], &handle);
}
static ncclResult_t CommWindowRegister(ncclComm_t comm) {
  ncclWindow_t window = NULL;
  return ncclCommWindowRegister(comm, in, LENGTH * sizeof in[0], &window, NCCL_WIN_DEFAULT);
}
static ncclResult_t CommWindowDeregister(ncclComm_t comm) {
  return ncclCommWindowDeregister(comm, NULL);
}
static ncclResult_t CommSplit(ncclComm_t comm) {
  other = NULL;
  return ncclCommSplit(comm, 0, 0, &other, NULL);
}
/* A single rank can exclude nobody: then the list is wrong. */
static ncclResult_t CommShrink(ncclComm_t comm) {
  int list[] = {1};
  other = NULL;
  return ncclCommShrink(comm, list, 1, &other, NULL, NCCL_SHRINK_ABORT);
}
static ncclResult_t CommFinalize(ncclComm_t comm) { return ncclCommFinalize(comm); }
static ncclResult_t CommDestroy(ncclComm_t comm) { return ncclCommDestroy(comm); }
static ncclResult_t CommAbort(ncclComm_t comm) { return ncclCommAbort(comm); }
static ncclResult_t CommRevoke(ncclComm_t comm) { return ncclCommRevoke(comm, 0); }
static ncclResult_t CommSuspend(ncclComm_t comm) { return ncclCommSuspend(comm, 1); }
static ncclResult_t CommResume(ncclComm_t comm) { return ncclCommResume(comm); }
static ncclResult_t CommMemStats(ncclComm_t comm) {
  uint64_t value;
  return ncclCommMemStats(comm, 3, &value);
}
static ncclResult_t CommGetUniqueId(ncclComm_t comm) {
  ncclUniqueId id;
  return ncclCommGetUniqueId(comm, &id);
}

/* The codes that a function may give, by the state of its communicator. In a group ncclGroupEnd gives
 * the call's own code, unless `group` is ANY. */
typedef struct {
  const char* name;
  ncclResult_t (*call)(ncclComm_t comm);
  unsigned null, dead, group, nonblocking, initialising, revoked, finalised, broken, captured;
  bool ends; /* after success the handle is gone */
} Row;

#define ROW(NAME, ...) \
  { "nccl" #NAME, NAME, __VA_ARGS__ }
/* clang-format off */
static const Row rows[] = {
  /*                         null      dead      group        nonblocking    initialising  revoked   finalised  broken  captured */
  ROW(AllReduce,             ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     USAGE,    USAGE,     REMOTE, OK, false),
  ROW(Broadcast,             ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     USAGE,    USAGE,     REMOTE, OK, false),
  ROW(Bcast,                 ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     USAGE,    USAGE,     REMOTE, OK, false),
  ROW(Reduce,                ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     USAGE,    USAGE,     REMOTE, OK, false),
  ROW(AllGather,             ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     USAGE,    USAGE,     REMOTE, OK, false),
  ROW(ReduceScatter,         ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     USAGE,    USAGE,     REMOTE, OK, false),
  ROW(AlltoAll,              ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     USAGE,    USAGE,     REMOTE, OK, false),
  ROW(Gather,                ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     USAGE,    USAGE,     REMOTE, OK, false),
  ROW(Scatter,               ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     USAGE,    USAGE,     REMOTE, OK, false),
  /* To itself, which needs a group with both calls. */
  ROW(Send,                  ARGUMENT, ARGUMENT, NEVER,       USAGE,         ARGUMENT,     USAGE,    USAGE,     REMOTE | USAGE, USAGE, false),
  ROW(Recv,                  ARGUMENT, ARGUMENT, NEVER,       USAGE,         ARGUMENT,     USAGE,    USAGE,     REMOTE | USAGE, USAGE, false),
  ROW(CommCount,             ARGUMENT, ARGUMENT, OK,          OK,            ARGUMENT,     OK,       ANY,       OK,     OK, false),
  ROW(CommUserRank,          ARGUMENT, ARGUMENT, OK,          OK,            ARGUMENT,     OK,       ANY,       OK,     OK, false),
  ROW(CommCuDevice,          ARGUMENT, ARGUMENT, OK,          OK,            ARGUMENT,     OK,       ANY,       OK,     OK, false),
  ROW(CommGetAsyncError,     ARGUMENT, ARGUMENT, OK,          OK,            OK,           OK,       OK,        OK,     OK, false),
  ROW(RedOpCreatePreMulSum,  ARGUMENT, ARGUMENT, OK,          OK,            ARGUMENT,     ANY,      ANY,       ANY,    OK, false),
  ROW(CommRegister,          ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     ANY,      ANY,       ANY,    OK, false),
  ROW(CommWindowRegister,    ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     ANY,      ANY,       ANY,    OK, false),
  ROW(CommWindowDeregister,  ANY,      ANY,      OK,          OK | PROGRESS, ANY,          OK,       ANY,       ANY,    OK, false),
  ROW(CommSplit,             ARGUMENT, ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     OK,       USAGE,     REMOTE, OK, false),
  ROW(CommShrink,            ARGUMENT, ARGUMENT, ARGUMENT,    ARGUMENT,      ARGUMENT,     ARGUMENT, ARGUMENT | USAGE, OK,     ARGUMENT, false),
  ROW(CommFinalize,          OK,       ARGUMENT, OK,          OK | PROGRESS, ARGUMENT,     ARGUMENT, ARGUMENT,  REMOTE, OK, false),
  ROW(CommDestroy,           OK,       ARGUMENT, OK,          OK,            OK,           OK,       OK,        OK,     OK, true),
  ROW(CommAbort,             OK,       ARGUMENT, OK,          OK,            OK,           OK,       OK,        OK,     OK, true),
  ROW(CommRevoke,            ARGUMENT, ARGUMENT, OK | ARGUMENT | USAGE, OK,            ARGUMENT,     ARGUMENT, ARGUMENT,  OK | REMOTE, OK, false),
  ROW(CommSuspend,           ARGUMENT, ARGUMENT, ANY,         OK | PROGRESS, ARGUMENT,     ANY,      USAGE | ARGUMENT, ANY,    OK, false),
  ROW(CommResume,            ARGUMENT, ARGUMENT, ANY,         USAGE,         ARGUMENT,     ANY,      USAGE | ARGUMENT, ANY,    USAGE, false),
  ROW(CommMemStats,          ARGUMENT, ARGUMENT, OK,          OK,            ARGUMENT,     ANY,      ANY,       ANY,    OK, false),
  ROW(CommGetUniqueId,       ARGUMENT, ARGUMENT, OK,          OK,            ARGUMENT,     ANY,      ANY,       ANY,    OK, false),
};
/* clang-format on */

static void end(const Row* row, ncclComm_t comm, ncclResult_t code) {
  if (other != NULL) expect("what was split off", "ncclCommDestroy", OK, ncclCommDestroy(other));
  other = NULL;
  if (row->ends && code == ncclSuccess) return;
  expect("at the end", "ncclCommAbort", OK, ncclCommAbort(comm));
}

static void in_group(const Row* row) {
  now_testing("in a group", row->name);
  if (row->group == NEVER) return;
  const ncclComm_t comm = alone(true);
  expect("in a group", "ncclGroupStart", OK, ncclGroupStart());
  const ncclResult_t code = row->call(comm);
  expect("in a group", row->name, row->group, code);
  const ncclResult_t ended = ncclGroupEnd();
  if (row->group != ANY) require(ended == code, "ncclGroupEnd gives the call's code");
  end(row, comm, ended);
}

static void not_blocking(const Row* row) {
  now_testing("not blocking", row->name);
  const ncclComm_t comm = alone(false);
  const ncclResult_t code = row->call(comm);
  expect("not blocking", row->name, row->nonblocking, code);
  if (!row->ends && (code == ncclSuccess || code == ncclInProgress)) {
    expect("not blocking, once it is done", row->name, OK, settled(comm, ncclInProgress));
  }
  end(row, comm, code);
}

static void while_initialising(const Row* row) {
  now_testing("while initialising", row->name);
  const ncclComm_t comm = initialising();
  const ncclResult_t code = row->call(comm);
  expect("while initialising", row->name, row->initialising, code);
  if (row->initialising == ARGUMENT) {
    ncclResult_t state = ncclSuccess;
    expect("afterwards", "ncclCommGetAsyncError", OK, ncclCommGetAsyncError(comm, &state));
    require(state == ncclInvalidArgument, "what is called while it is in progress sticks");
  }
  end(row, comm, code);
}

static void revoked(const Row* row) {
  now_testing("revoked", row->name);
  const ncclComm_t comm = alone(true);
  expect("at first", "ncclCommRevoke", OK, ncclCommRevoke(comm, 0));
  const ncclResult_t code = row->call(comm);
  expect("revoked", row->name, row->revoked, code);
  if (code == ncclInvalidUsage && row->revoked == USAGE) text_has("revoked", "revoked");
  end(row, comm, code);
}

static void finalised(const Row* row) {
  now_testing("finalised", row->name);
  const ncclComm_t comm = alone(true);
  expect("at first", "ncclCommFinalize", OK, ncclCommFinalize(comm));
  const ncclResult_t code = row->call(comm);
  expect("finalised", row->name, row->finalised, code);
  end(row, comm, code);
}

static void when_broken(const Row* row) {
  now_testing("broken", row->name);
  const ncclComm_t comm = broken();
  const ncclResult_t code = row->call(comm);
  expect("broken", row->name, row->broken, code);
  if (!row->ends) {
    ncclResult_t state = ncclSuccess;
    expect("broken", "ncclCommGetAsyncError", OK, ncclCommGetAsyncError(comm, &state));
    require(state == ncclRemoteError, "a failure stays the communicator's state");
  }
  end(row, comm, code);
}

/* In cudaStreamBeginCapture's global mode, no thread may have ended the capture meanwhile. */
static void captured(const Row* row, const Capture* capture) {
  now_testing("captured", row->name);
  const ncclComm_t comm = alone(true);
  /* An earlier call, which ends and waits may query. */
  expect("before the capture", "ncclAllReduce", OK, AllReduce(comm));
  capture->begin();
  const ncclResult_t code = row->call(comm);
  expect("captured", row->name, row->captured, code);
  require(capture->launch(), "the capture goes on, and its graph is launched");
  end(row, comm, code);
}

void check_captured(const Capture* capture) {
  in = capture->in;
  out = capture->out;
  stream = capture->stream;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) captured(&rows[i], capture);
}

void check_states(void) {
  /* Memory that is no communicator. */
  void* const nothing = calloc(1, 65536);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    const Row* const row = &rows[i];
    now_testing("NULL", row->name);
    expect("NULL", row->name, row->null, row->call(NULL));
    now_testing("no communicator", row->name);
    expect("no communicator", row->name, row->dead, row->call((ncclComm_t)nothing));
    in_group(row);
    not_blocking(row);
    while_initialising(row);
    revoked(row);
    finalised(row);
    when_broken(row);
  }
  free(nothing);
  now_testing("gone", "ncclAllReduce");
  for (int aborts = 0; aborts < 2; ++aborts) {
    const ncclComm_t gone = alone(true);
    expect("alone", "its end", OK, aborts ? ncclCommAbort(gone) : ncclCommDestroy(gone));
    expect("gone", "ncclAllReduce", ARGUMENT, AllReduce(gone));
    expect("gone", "ncclCommCount", ARGUMENT, CommCount(gone));
    expect("gone", "ncclCommDestroy", ARGUMENT, ncclCommDestroy(gone));
    expect("gone", "ncclCommAbort", ARGUMENT, ncclCommAbort(gone));
  }
}

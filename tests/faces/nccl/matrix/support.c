/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "matrix.h"

static int failures = 0;
static const char* tested[2] = {"", ""};

static void at_alarm(int signal) {
  (void)signal;
  static const char said[] = "matrix: the time is up, in this: ";
  for (int i = -1; i < 2; ++i) {
    const char* const text = i < 0 ? said : tested[i];
    if (write(2, text, strlen(text)) < 0 || write(2, " ", 1) < 0) break;
  }
  _exit(1);
}

void now_testing(const char* situation, const char* function) {
  tested[0] = situation;
  tested[1] = function;
  signal(SIGALRM, at_alarm);
  alarm(30);
}

void require(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "%s: it does not hold that %s; last error: %s\n", tested[0], what,
          ncclGetLastError(NULL));
}

void text_has(const char* situation, const char* word) {
  if (strstr(ncclGetLastError(NULL), word) != NULL) return;
  ++failures;
  fprintf(stderr, "%s: the text should have '%s': %s\n", situation, word, ncclGetLastError(NULL));
}

static bool is_among(unsigned codes, ncclResult_t got) {
  return got >= 0 && got < 16 && (codes >> got & 1) == 1;
}

static void tell(const char* situation, const char* function, unsigned codes, ncclResult_t got) {
  ++failures;
  fprintf(stderr, "%s: %s gives %d; expected", situation, function, (int)got);
  for (int code = 0; code < 9; ++code) {
    if (is_among(codes, (ncclResult_t)code)) fprintf(stderr, " %d", code);
  }
  fprintf(stderr, "; last error: %s\n", ncclGetLastError(NULL));
}

void group_starts(void) { expect("a group begins", "ncclGroupStart", OK, ncclGroupStart()); }

void group_ends(unsigned codes) {
  const ncclResult_t got = ncclGroupEnd();
  if (!is_among(codes, got)) tell(tested[0], "ncclGroupEnd", codes, got);
}

void expect(const char* situation, const char* function, unsigned codes, ncclResult_t got) {
  if (is_among(codes, got)) {
    const bool refused = got == ncclInvalidArgument || got == ncclInvalidUsage;
    if (refused && codes != ANY && strstr(ncclGetLastError(NULL), function) == NULL) {
      ++failures;
      fprintf(stderr, "%s: the text does not name %s: %s\n", situation, function,
              ncclGetLastError(NULL));
    }
    return;
  }
  tell(situation, function, codes, got);
}

int verdict(void) {
  alarm(0);
  if (failures > 0) fprintf(stderr, "%d entries are not as the table has them\n", failures);
  return failures > 0 ? 1 : 0;
}

static void must(const char* what, ncclResult_t code) {
  if (code == ncclSuccess) return;
  fprintf(stderr, "%s, %s: %s gives %d: %s\n", tested[0], tested[1], what, (int)code,
          ncclGetLastError(NULL));
  exit(1);
}

ncclResult_t settled(ncclComm_t comm, ncclResult_t code) {
  if (code != ncclInProgress) return code;
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    must("ncclCommGetAsyncError", ncclCommGetAsyncError(comm, &state));
    if (state == ncclInProgress) usleep(200);
  }
  return state;
}

ncclComm_t alone(bool blocking) {
  ncclUniqueId id;
  must("ncclGetUniqueId", ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  ncclComm_t comm = NULL;
  const ncclResult_t code = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  if (code != ncclInProgress) must("ncclCommInitRankConfig", code);
  must("making it", settled(comm, code));
  return comm;
}

ncclComm_t initialising(void) {
  ncclUniqueId id;
  must("ncclGetUniqueId", ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = NULL;
  const ncclResult_t code = ncclCommInitRankConfig(&comm, 2, id, 0, &config);
  require(code == ncclInProgress, "ncclCommInitRankConfig without blocking is in progress");
  require(comm != NULL, "its handle is there at once");
  return comm;
}

typedef struct {
  ncclUniqueId id;
  int rank;
  ncclComm_t comm;
} Start;

static void* start(void* argument) {
  Start* const one = argument;
  must("ncclCommInitRank", ncclCommInitRank(&one->comm, 2, one->id, one->rank));
  return NULL;
}

Pair pair(void) {
  Start starts[2] = {{.rank = 0}, {.rank = 1}};
  must("ncclGetUniqueId", ncclGetUniqueId(&starts[0].id));
  starts[1].id = starts[0].id;
  pthread_t thread;
  pthread_create(&thread, NULL, start, &starts[1]);
  start(&starts[0]);
  pthread_join(thread, NULL);
  return (Pair){{starts[0].comm, starts[1].comm}};
}

void destroy_pair(Pair pair) {
  for (int i = 0; i < 2; ++i) must("ncclCommDestroy", ncclCommDestroy(pair.ranks[i]));
}

typedef struct {
  ncclComm_t comm;
  ncclResult_t code;
} Blocked;

static void* reduce(void* argument) {
  Blocked* const one = argument;
  float value = 1;
  one->code = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, one->comm, NULL);
  return NULL;
}

static void* receive(void* argument) {
  Blocked* const one = argument;
  float value = 1;
  one->code = ncclRecv(&value, 1, ncclFloat32, 0, one->comm, NULL);
  return NULL;
}

ncclComm_t broken(void) {
  const Pair both = pair();
  Blocked calls[2] = {{both.ranks[0], ncclSuccess}, {both.ranks[1], ncclSuccess}};
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, reduce, &calls[0]);
  pthread_create(&threads[1], NULL, receive, &calls[1]);
  usleep(50000);  // both wait for something that never comes
  expect("both ranks in calls", "ncclCommAbort", OK, ncclCommAbort(both.ranks[1]));
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  expect("its peer aborts", "ncclAllReduce", REMOTE, calls[0].code);
  require(calls[1].code != ncclSuccess, "a call that its own rank aborts does not end well");
  return both.ranks[0];
}

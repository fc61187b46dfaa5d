/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the parts of the matrix test: which codes a call may give, communicators in
 * every state, and the report of differences. */

#include <pthread.h>
#include <stdbool.h>

#include "newer.h"

/* Sets of codes. */
enum {
  OK = 1 << ncclSuccess,
  SYSTEM = 1 << ncclSystemError,
  ARGUMENT = 1 << ncclInvalidArgument,
  USAGE = 1 << ncclInvalidUsage,
  REMOTE = 1 << ncclRemoteError,
  PROGRESS = 1 << ncclInProgress,
  NEVER = 0,   /* not called in that state */
  ANY = 0xffff /* any code, as long as the call returns */
};

/* Checks that a call gave one of the codes; a refusal must name the called function. */
void expect(const char* situation, const char* function, unsigned codes, ncclResult_t got);
/* A group; its failure names the call in it that failed. */
void group_starts(void);
void group_ends(unsigned codes);
/* Checks a condition. */
void require(bool holds, const char* what);
/* Checks that the last error's text contains a word. */
void text_has(const char* situation, const char* word);
/* Sets the text for the time limit's message. */
void now_testing(const char* situation, const char* function);
/* Returns 0 if nothing was wrong. */
int verdict(void);

/* A communicator of one rank, blocking or nonblocking, that is ready. */
ncclComm_t alone(bool blocking);
/* A nonblocking rank of two whose peer never comes. */
ncclComm_t initialising(void);
/* The final code of a nonblocking communicator. */
ncclResult_t settled(ncclComm_t comm, ncclResult_t code);

/* Two blocking ranks. */
typedef struct {
  ncclComm_t ranks[2];
} Pair;
Pair pair(void);
/* Rank 0 of two whose peer has aborted while both were in calls. */
ncclComm_t broken(void);
void destroy_pair(Pair pair);

/* A GPU's stream and memory, and the functions that capture the stream. */
typedef struct {
  cudaStream_t stream;
  float *in, *out;
  void (*begin)(void);
  /* Whether the capture succeeds, and its graph runs. */
  bool (*launch)(void);
} Capture;

/* The parts of the test. */
void check_states(void);
void check_captured(const Capture* capture);
void check_library(void);
void check_making(void);
void check_collectives(void);
void check_reductions(void);
void check_groups(void);
void check_memory(void);
void check_newer(void);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the parts of the matrix test: which codes a call may give, communicators in
 * every state, and how a difference is told. */

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

/* That a call gave one of the codes; a refusal must name the function that was called. */
void expect(const char* situation, const char* function, unsigned codes, ncclResult_t got);
/* A group, whose failure is named by the call in it that failed. */
void group_starts(void);
void group_ends(unsigned codes);
/* That a condition holds. */
void require(bool holds, const char* what);
/* That the last error's text has a word in it. */
void text_has(const char* situation, const char* word);
/* For the time limit's message. */
void now_testing(const char* situation, const char* function);
/* 0 if nothing was wrong. */
int verdict(void);

/* One rank alone, that blocks or does not; ready. */
ncclComm_t alone(bool blocking);
/* A rank of two that does not block, whose peer never comes. */
ncclComm_t initialising(void);
/* The code once a communicator that does not block is done. */
ncclResult_t settled(ncclComm_t comm, ncclResult_t code);

/* Two ranks that block. */
typedef struct {
  ncclComm_t ranks[2];
} Pair;
Pair pair(void);
/* Rank 0 of two whose peer has aborted while both were in calls. */
ncclComm_t broken(void);
void destroy_pair(Pair pair);

/* A stream of a GPU, memory of it, and what captures the stream. */
typedef struct {
  cudaStream_t stream;
  float *in, *out;
  void (*begin)(void);
  /* Whether the capture ends well, and its graph runs. */
  bool (*launch)(void);
} Capture;

/* The parts. */
void check_states(void);
void check_captured(const Capture* capture);
void check_library(void);
void check_making(void);
void check_collectives(void);
void check_reductions(void);
void check_groups(void);
void check_memory(void);
void check_newer(void);

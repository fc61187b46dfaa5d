/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_C_COMMUNICATORS_H
#define CCOLL_C_COMMUNICATORS_H

/* Stores where ranks meet, and communicators. */

#include <stddef.h>
#include <stdint.h>

#include "ccoll/c/options.h"
#include "ccoll/c/results.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Stores ----------------------------------------------------------------------------------- */

/* "tcp://host:port" or "file:///path". `token` may be NULL. Waits up to `timeout_ms` for a TCP
   store's server. */
CCOLL_EXPORT ccoll_result ccoll_store_open(const char *url, const char *token, int64_t timeout_ms,
                                           ccoll_store *made);

/* The caller's own store: ccoll::Store (ccoll/store.hpp), whose methods say what each function has
   to do, from any thread. All functions must be there. Each returns a ccoll_result. What it returns
   by pointer it takes from malloc, and the library frees it. */
typedef struct ccoll_store_functions {
  size_t size;
  ccoll_result (*set)(void *context, ccoll_bytes key, ccoll_bytes value, int64_t timeout_ms);
  /* Waits until the key exists. */
  ccoll_result (*get)(void *context, ccoll_bytes key, int64_t timeout_ms, ccoll_bytes *value);
  ccoll_result (*add)(void *context, ccoll_bytes key, int64_t delta, int64_t timeout_ms,
                      int64_t *sum);
  /* `expected` is NULL if the key must not exist. */
  ccoll_result (*compare_set)(void *context, ccoll_bytes key, const ccoll_bytes *expected,
                              ccoll_bytes desired, int64_t timeout_ms, int32_t *was_set);
  ccoll_result (*check)(void *context, ccoll_bytes key, int64_t timeout_ms, int32_t *exists);
  ccoll_result (*remove)(void *context, ccoll_bytes key, int64_t timeout_ms, int32_t *existed);
  /* All keys with that prefix, sorted: an array of `count`, each with memory of its own. */
  ccoll_result (*list)(void *context, ccoll_bytes prefix, int64_t timeout_ms, ccoll_bytes **keys,
                       size_t *count);
} ccoll_store_functions;

/* `context` must last until the store is freed and every create that uses it has returned. */
CCOLL_EXPORT ccoll_result ccoll_store_custom(const ccoll_store_functions *functions, void *context,
                                             ccoll_store *made);
CCOLL_EXPORT void ccoll_store_free(ccoll_store store);

/* Serves a TCP store at "host:port"; NULL is loopback, port 0 any free one. */
CCOLL_EXPORT ccoll_result ccoll_store_serve(const char *address, const char *token,
                                            ccoll_store_server *made);
/* "host:port", with the port in use. */
CCOLL_EXPORT ccoll_result ccoll_store_server_address(ccoll_store_server server, char *text,
                                                     size_t size, size_t *needed);
CCOLL_EXPORT void ccoll_store_server_free(ccoll_store_server server);

/* ---- Communicators ---------------------------------------------------------------------------- */

#define CCOLL_UNIQUE_ID_BYTES 128

/* A new id (ccoll/unique_id.hpp). `interface_name` may be NULL. */
CCOLL_EXPORT ccoll_result ccoll_unique_id_create(unsigned char id[CCOLL_UNIQUE_ID_BYTES],
                                                 const char *interface_name);

/* As the environment says. `options` may be NULL here and below: all of it from the environment. */
CCOLL_EXPORT ccoll_result ccoll_create(const ccoll_options *options, ccoll_comm *made);
/* The communicator keeps the store: it may be freed. */
CCOLL_EXPORT ccoll_result ccoll_create_store(ccoll_store store, int32_t rank, int32_t size,
                                             const ccoll_options *options, ccoll_comm *made);
CCOLL_EXPORT ccoll_result ccoll_create_id(const unsigned char id[CCOLL_UNIQUE_ID_BYTES],
                                          int32_t rank, int32_t size, const ccoll_options *options,
                                          ccoll_comm *made);
/* All `size` ranks in this process: `made` has room for `size` handles. `devices`, unless it is
   NULL, has one number for each. */
CCOLL_EXPORT ccoll_result ccoll_create_all(int32_t size, const ccoll_options *options,
                                           const int32_t *devices, ccoll_comm *made);
/* The `count` ranks of a job of `size` that `ranks` lists. */
CCOLL_EXPORT ccoll_result ccoll_create_all_id(const unsigned char id[CCOLL_UNIQUE_ID_BYTES],
                                              const int32_t *ranks, int32_t count, int32_t size,
                                              const ccoll_options *options, const int32_t *devices,
                                              ccoll_comm *made);

CCOLL_EXPORT ccoll_result ccoll_duplicate(ccoll_comm comm, const ccoll_group_options *options,
                                          ccoll_comm *made);
/* *made is NULL for a rank that gives CCOLL_NO_COLOR. */
#define CCOLL_NO_COLOR (-1)
CCOLL_EXPORT ccoll_result ccoll_split(ccoll_comm comm, int32_t color, int32_t key,
                                      const ccoll_group_options *options, ccoll_comm *made);
CCOLL_EXPORT ccoll_result ccoll_subgroup(ccoll_comm comm, const int32_t *ranks, int32_t count,
                                         const ccoll_group_options *options, ccoll_comm *made);
CCOLL_EXPORT ccoll_result ccoll_shrink(ccoll_comm comm, const ccoll_group_options *options,
                                       ccoll_comm *made);
CCOLL_EXPORT ccoll_result ccoll_shrink_without(ccoll_comm comm, const int32_t *excluded,
                                               int32_t count, const ccoll_group_options *options,
                                               ccoll_comm *made);

/* Closes and frees; the handle is gone even if this returns an error, which is what close() would
   throw. No other thread may be using the handle. */
CCOLL_EXPORT ccoll_result ccoll_close(ccoll_comm comm);
/* From any thread. `reason` may be NULL. */
CCOLL_EXPORT ccoll_result ccoll_abort(ccoll_comm comm, const char *reason);
/* Communicator::leave(). Frees, as ccoll_close(). `reason` may be NULL. */
CCOLL_EXPORT ccoll_result ccoll_leave(ccoll_comm comm, const char *reason);

CCOLL_EXPORT ccoll_result ccoll_rank(ccoll_comm comm, int32_t *rank);
CCOLL_EXPORT ccoll_result ccoll_size(ccoll_comm comm, int32_t *size);
CCOLL_EXPORT ccoll_result ccoll_name(ccoll_comm comm, char *text, size_t size, size_t *needed);
/* The first cause if the communicator is broken, "" if it is not. */
CCOLL_EXPORT ccoll_result ccoll_comm_error(ccoll_comm comm, char *text, size_t size,
                                           size_t *needed);
/* *in_other is -1 if `other` does not have that rank. */
CCOLL_EXPORT ccoll_result ccoll_rank_in(ccoll_comm comm, ccoll_comm other, int32_t rank,
                                        int32_t *in_other);
CCOLL_EXPORT ccoll_result ccoll_transport_to(ccoll_comm comm, int32_t peer, char *text, size_t size,
                                             size_t *needed);
CCOLL_EXPORT ccoll_result ccoll_algorithm_for(ccoll_comm comm, const char *operation, size_t count,
                                              int32_t type, const ccoll_call_options *options,
                                              char *text, size_t size, size_t *needed);
CCOLL_EXPORT ccoll_result ccoll_explain(ccoll_comm comm, const char *operation, size_t count,
                                        int32_t type, const ccoll_call_options *options, char *text,
                                        size_t size, size_t *needed);
CCOLL_EXPORT ccoll_result ccoll_predicted_time(ccoll_comm comm, const char *operation, size_t count,
                                               int32_t type, const ccoll_call_options *options,
                                               double *nanoseconds);
/* The flight recorder, as JSON. */
CCOLL_EXPORT ccoll_result ccoll_dump(ccoll_comm comm, char *text, size_t size, size_t *needed);

/* ccoll::PeerCounters. */
typedef struct ccoll_peer_counters {
  int32_t rank;
  int32_t reserved;
  char transport[16];
  uint64_t messages_sent;
  uint64_t bytes_sent;
  uint64_t messages_received;
  uint64_t bytes_received;
  uint64_t waits;
  int64_t time_lost_ns;
  uint64_t retries;
  uint64_t errors;
} ccoll_peer_counters;

/* ccoll::Counters. Set `size` before the call. */
typedef struct ccoll_counters {
  size_t size;
  uint64_t collectives;
  uint64_t device_memory_bytes;
  uint64_t device_workspace_bytes;
  uint64_t peers;  /* how many entries there are */
} ccoll_counters;

/* `peers` has room for `most` entries, which are filled from the first; it may be NULL if `most` is
   0. */
CCOLL_EXPORT ccoll_result ccoll_get_counters(ccoll_comm comm, ccoll_counters *counters,
                                             ccoll_peer_counters *peers, size_t most);

#ifdef __cplusplus
}
#endif

#endif

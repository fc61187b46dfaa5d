/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_C_OPTIONS_H
#define CCOLL_C_OPTIONS_H

/* The options of communicators, calls and groups. */

#include <stddef.h>
#include <stdint.h>

#include "ccoll/c/results.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ccoll_comm_s *ccoll_comm;
typedef struct ccoll_work_s *ccoll_work;
typedef struct ccoll_store_s *ccoll_store;
typedef struct ccoll_store_server_s *ccoll_store_server;
typedef struct ccoll_memory_s *ccoll_memory;

/* As a time limit, in milliseconds: none. */
#define CCOLL_NO_LIMIT INT64_MAX

/* Ends start-ups: std::stop_source, whose token is CommunicatorOptions::start_stop. */
typedef struct ccoll_stop_s *ccoll_stop;
CCOLL_EXPORT ccoll_result ccoll_stop_create(ccoll_stop *made);
/* Every start-up whose options have it ends with CCOLL_ABORTED. From any thread. */
CCOLL_EXPORT ccoll_result ccoll_stop_request(ccoll_stop stop);
/* Start-ups that have begun go on, and nothing ends them any more. */
CCOLL_EXPORT void ccoll_stop_free(ccoll_stop stop);

/* No GPU: ccoll_options.device. */
#define CCOLL_HOST (-1)

typedef enum ccoll_device_way CCOLL_ENUM_AS_INT {
  CCOLL_DEVICE_WAY_AUTOMATIC = 0,
  CCOLL_DEVICE_WAY_TEAM = 1,
  CCOLL_DEVICE_WAY_STEPS = 2,
  CCOLL_DEVICE_WAY_HOST = 3
} ccoll_device_way;

typedef enum ccoll_device_copies CCOLL_ENUM_AS_INT {
  CCOLL_DEVICE_COPIES_BY_SIZE = 0,
  CCOLL_DEVICE_COPIES_ALWAYS = 1,
  CCOLL_DEVICE_COPIES_NEVER = 2
} ccoll_device_copies;

/* ccoll::CommunicatorOptions (ccoll/options.hpp). A string that is NULL is what the environment
   says; "" is none. */
typedef struct ccoll_options {
  size_t size;
  const char *name;
  const char *transport;
  const char *algorithm;
  const char *interface_name;
  const char *token;
  const char *tls_mode;
  const char *tls_certificate;
  const char *tls_key;
  const char *tls_authority;
  const char *tls_name;
  int64_t timeout_ms;
  int64_t start_timeout_ms;
  int64_t heartbeat_ms;
  uint64_t eager_limit;     /* bytes */
  uint64_t shm_slot_bytes;
  uint64_t device_staging_bytes;
  uint64_t device_workspace_bytes;
  uint64_t device_blocks;
  int32_t max_lanes;
  int32_t deterministic;
  int32_t checksum;
  int32_t strict_sends;
  int32_t shm_single_copy;
  int32_t shm_huge_pages;
  int32_t device;           /* the GPU's number, or CCOLL_HOST */
  int32_t device_way;       /* a ccoll_device_way */
  int32_t device_copies;    /* a ccoll_device_copies */
  int32_t device_direct_messages;
  int64_t warn_after_ms;    /* 0: never */
  ccoll_stop start_stop;    /* NULL: none */
  const char *socket_family;
} ccoll_options;

/* Fills the first `size` bytes of `options`: numbers are what the environment sets, else the
   defaults; strings are NULL. `size` is sizeof *options. */
CCOLL_EXPORT ccoll_result ccoll_options_init(ccoll_options *options, size_t size);

/* ccoll::CallOptions. */
typedef struct ccoll_call_options {
  size_t size;
  int64_t timeout_ms;     /* 0: the communicator's */
  const char *algorithm;  /* NULL: the communicator's */
  const char *label;      /* NULL: none */
  void *stream;           /* a cudaStream_t; used if has_stream is 1 */
  int32_t has_stream;
  int32_t reserved;       /* 0 */
} ccoll_call_options;

CCOLL_EXPORT ccoll_result ccoll_call_options_init(ccoll_call_options *options, size_t size);

/* ccoll::GroupOptions. */
typedef struct ccoll_group_options {
  size_t size;
  const char *name;    /* NULL: made from the parent's */
  int64_t timeout_ms;  /* 0: the parent's */
} ccoll_group_options;

CCOLL_EXPORT ccoll_result ccoll_group_options_init(ccoll_group_options *options, size_t size);

#ifdef __cplusplus
}
#endif

#endif

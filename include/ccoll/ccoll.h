/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_CCOLL_H
#define CCOLL_CCOLL_H

/* ccoll for C and for every language that calls C. It offers what the C++ headers offer, and their
   contracts hold here too: this header says only what is different.

   Results. Every function that can fail returns a ccoll_result. ccoll_error_text() has the words.
   No exception and no signal crosses this interface.

   Handles are pointers to opaque structs. The function that frees one takes NULL and does nothing
   then. A handle may be used by several threads where the C++ object may be.

   Strings are UTF-8 and end with a NUL. The library copies what it needs before a call returns.
   Functions that return text take a buffer of `size` bytes and write as much as fits, always with a
   NUL if `size` is not 0. `needed`, unless it is NULL, receives the size that would have sufficed.

   Option structs begin with their size, so that programs and libraries of different ages fit each
   other. Fill them with their ..._init function first. Booleans are int32_t: 0 or 1. */

#include <stddef.h>
#include <stdint.h>

/* The version of this interface. It grows when something is added; what is there never changes. */
#define CCOLL_C_API 1

#ifndef CCOLL_EXPORT
#define CCOLL_EXPORT __attribute__((visibility("default")))
#endif

/* Programs pass numbers that are no enumerator, and get an error. For that, an enumeration has to
   be as wide as an int in C++, as it is in C. */
#ifdef __cplusplus
#define CCOLL_ENUM_AS_INT : int
#else
#define CCOLL_ENUM_AS_INT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results ---------------------------------------------------------------------------------- */

/* CCOLL_OK, or the kind of the error (ErrorKind in ccoll/types.hpp). */
typedef enum ccoll_result CCOLL_ENUM_AS_INT {
  CCOLL_OK = 0,
  CCOLL_INVALID_ARGUMENT = 1,
  CCOLL_UNSUPPORTED = 2,
  CCOLL_TIMED_OUT = 3,
  CCOLL_PEER_LOST = 4,
  CCOLL_MISMATCH = 5,
  CCOLL_ABORTED = 6,
  CCOLL_EXHAUSTED = 7,
  CCOLL_CORRUPT = 8,
  CCOLL_INTERNAL = 9
} ccoll_result;

/* "timed_out"; "unknown" for a number that is no ccoll_result. Never NULL. */
CCOLL_EXPORT const char *ccoll_result_name(ccoll_result result);
/* The error text of this thread's last call that failed; "" if none has. Valid until this thread's
   next call that fails. Never NULL. */
CCOLL_EXPORT const char *ccoll_error_text(void);
/* The rank that it names, ccoll::Error::culprit(); -1 if none is known, or nothing has failed. */
CCOLL_EXPORT int32_t ccoll_error_culprit(void);
/* "0.2.0": the version of the library. */
CCOLL_EXPORT const char *ccoll_version(void);
/* The CCOLL_C_API of the library. */
CCOLL_EXPORT int32_t ccoll_c_api(void);
/* Frees memory that a function here says is freed so. */
CCOLL_EXPORT void ccoll_free(void *memory);

/* A byte string, which may contain NULs. */
typedef struct ccoll_bytes {
  void *data;
  size_t size;
} ccoll_bytes;

/* ---- Elements and blocks ---------------------------------------------------------------------- */

typedef enum ccoll_type CCOLL_ENUM_AS_INT {
  CCOLL_INT8 = 0,
  CCOLL_UINT8 = 1,
  CCOLL_INT16 = 2,
  CCOLL_UINT16 = 3,
  CCOLL_INT32 = 4,
  CCOLL_UINT32 = 5,
  CCOLL_INT64 = 6,
  CCOLL_UINT64 = 7,
  CCOLL_FLOAT16 = 8,
  CCOLL_BFLOAT16 = 9,
  CCOLL_FLOAT32 = 10,
  CCOLL_FLOAT64 = 11,
  CCOLL_FLOAT8_E4M3 = 12,
  CCOLL_FLOAT8_E5M2 = 13,
  CCOLL_BOOL = 14
} ccoll_type;

/* Elements to read or to write: ccoll::Block (ccoll/blocks.hpp). Only outputs are written. The
   fields behind `type` may be 0: the elements then lie one after another. Otherwise they are whole
   rows of `row_length` elements, and every row begins `stride` elements behind the row before it. Rows in
   memory of a GPU are CCOLL_UNSUPPORTED. */
typedef struct ccoll_block {
  void *data;
  size_t count;        /* elements */
  int32_t type;        /* a ccoll_type */
  int32_t reserved;    /* 0 */
  size_t row_length;   /* elements */
  size_t stride;       /* elements */
} ccoll_block;

/* A block of `count` elements that lie one after another. For const data, cast the const away:
   inputs are not written. */
static inline ccoll_block ccoll_block_of(void *data, size_t count, ccoll_type type) {
  ccoll_block block;
  block.data = data;
  block.count = count;
  block.type = (int32_t)type;
  block.reserved = 0;
  block.row_length = 0;
  block.stride = 0;
  return block;
}

/* One buffer of a coalesced call. */
typedef struct ccoll_block_pair {
  ccoll_block input;
  ccoll_block output;
} ccoll_block_pair;

/* ---- Reductions ------------------------------------------------------------------------------- */

/* A ccoll_op, or the result of a ccoll_reduction_... function. */
typedef uintptr_t ccoll_reduction;

typedef enum ccoll_op CCOLL_ENUM_AS_INT {
  CCOLL_SUM = 0,
  CCOLL_PRODUCT = 1,
  CCOLL_MIN = 2,
  CCOLL_MAX = 3,
  CCOLL_AVG = 4,
  CCOLL_BIT_AND = 5,
  CCOLL_BIT_OR = 6,
  CCOLL_BIT_XOR = 7
} ccoll_op;

/* The caller's own operation: inout[i] = in[i] op inout[i]. Its contract is that of
   ccoll::CombineElements (ccoll/reduction.hpp). A return value other than 0 ends the call on all
   ranks, with CCOLL_ABORTED and that number in the text. */
typedef int32_t (*ccoll_combine)(const void *in, void *inout, size_t count, int32_t type,
                                 void *context);

/* The sum of contributions, each multiplied by its own rank's factor: one element of `type`. */
CCOLL_EXPORT ccoll_result ccoll_reduction_premultiplied(const void *factor, int32_t type,
                                                        ccoll_reduction *made);
/* The same with a factor that is read when the call begins: for a call in a stream, when the stream
   has reached it, at each launch of a graph. `place` is memory of the rank's GPU or of the host. */
CCOLL_EXPORT ccoll_result ccoll_reduction_premultiplied_at(const void *place, int32_t type,
                                                           ccoll_reduction *made);
/* The caller's own function. Ranks compare `name`. `context` must last until the last call that
   uses the reduction is over. */
CCOLL_EXPORT ccoll_result ccoll_reduction_custom(ccoll_combine function, void *context,
                                                 const char *name, int32_t commutative,
                                                 ccoll_reduction *made);
/* Calls that have begun keep what they need. A ccoll_op is not freed: nothing happens. */
CCOLL_EXPORT void ccoll_reduction_free(ccoll_reduction reduction);

/* ---- Options ---------------------------------------------------------------------------------- */

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

/* ---- Operations under way --------------------------------------------------------------------- */

/* A received message. */
typedef struct ccoll_received {
  int32_t from;
  int32_t tag;
  uint64_t count;
  uint64_t bytes;
} ccoll_received;

/* Waits without a limit of its own if `limit_ms` is below 0. */
CCOLL_EXPORT ccoll_result ccoll_work_wait(ccoll_work work, int64_t limit_ms);
/* *is_over is 1 once the operation is over, whether it failed or not. */
CCOLL_EXPORT ccoll_result ccoll_work_test(ccoll_work work, int32_t *is_over);
CCOLL_EXPORT ccoll_result ccoll_work_error(ccoll_work work, char *text, size_t size,
                                           size_t *needed);
CCOLL_EXPORT ccoll_result ccoll_work_received(ccoll_work work, size_t receive,
                                              ccoll_received *received);
/* Calls tell(CCOLL_OK, "", user) once the operation is over, or its error's code and text: see
   ccoll::Work::on_done. ccoll_error_culprit() then tells its rank. `work` may be freed before. */
typedef void (*ccoll_told)(ccoll_result result, const char *text, void *user);
CCOLL_EXPORT ccoll_result ccoll_work_on_done(ccoll_work work, ccoll_told tell, void *user);
/* Neither ends the operation nor gives its buffers back. */
CCOLL_EXPORT void ccoll_work_free(ccoll_work work);

/* ---- Collectives ------------------------------------------------------------------------------ */

/* Blocks fit each other as ccoll/communicator.hpp says for each operation. The two of a call may be
   one and the same where it works in place. A block that a rank has no use for may be NULL.
   `options` may be NULL. The ..._async forms return at once; their buffers, but not the structs
   that describe them, belong to the operation until it is over. */

CCOLL_EXPORT ccoll_result ccoll_all_reduce(ccoll_comm comm, const ccoll_block *input,
                                           const ccoll_block *output, ccoll_reduction op,
                                           const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_all_reduce_async(ccoll_comm comm, const ccoll_block *input,
                                                 const ccoll_block *output, ccoll_reduction op,
                                                 const ccoll_call_options *options,
                                                 ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_reduce(ccoll_comm comm, const ccoll_block *input,
                                       const ccoll_block *output, ccoll_reduction op, int32_t root,
                                       const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_reduce_async(ccoll_comm comm, const ccoll_block *input,
                                             const ccoll_block *output, ccoll_reduction op,
                                             int32_t root, const ccoll_call_options *options,
                                             ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_broadcast(ccoll_comm comm, const ccoll_block *input,
                                          const ccoll_block *output, int32_t root,
                                          const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_broadcast_async(ccoll_comm comm, const ccoll_block *input,
                                                const ccoll_block *output, int32_t root,
                                                const ccoll_call_options *options,
                                                ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_all_gather(ccoll_comm comm, const ccoll_block *input,
                                           const ccoll_block *output,
                                           const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_all_gather_async(ccoll_comm comm, const ccoll_block *input,
                                                 const ccoll_block *output,
                                                 const ccoll_call_options *options,
                                                 ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_reduce_scatter(ccoll_comm comm, const ccoll_block *input,
                                               const ccoll_block *output, ccoll_reduction op,
                                               const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_reduce_scatter_async(ccoll_comm comm, const ccoll_block *input,
                                                     const ccoll_block *output, ccoll_reduction op,
                                                     const ccoll_call_options *options,
                                                     ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_all_to_all(ccoll_comm comm, const ccoll_block *input,
                                           const ccoll_block *output,
                                           const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_all_to_all_async(ccoll_comm comm, const ccoll_block *input,
                                                 const ccoll_block *output,
                                                 const ccoll_call_options *options,
                                                 ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_gather(ccoll_comm comm, const ccoll_block *input,
                                       const ccoll_block *output, int32_t root,
                                       const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_gather_async(ccoll_comm comm, const ccoll_block *input,
                                             const ccoll_block *output, int32_t root,
                                             const ccoll_call_options *options, ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_scatter(ccoll_comm comm, const ccoll_block *input,
                                        const ccoll_block *output, int32_t root,
                                        const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_scatter_async(ccoll_comm comm, const ccoll_block *input,
                                              const ccoll_block *output, int32_t root,
                                              const ccoll_call_options *options, ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_barrier(ccoll_comm comm, const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_barrier_async(ccoll_comm comm, const ccoll_call_options *options,
                                              ccoll_work *work);

/* Blocks of different sizes. A list has one block for each rank, size of the communicator in all;
   one that a rank has no use for may be NULL. */

CCOLL_EXPORT ccoll_result ccoll_all_gather_v(ccoll_comm comm, const ccoll_block *input,
                                             const ccoll_block *outputs,
                                             const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_all_gather_v_async(ccoll_comm comm, const ccoll_block *input,
                                                   const ccoll_block *outputs,
                                                   const ccoll_call_options *options,
                                                   ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_reduce_scatter_v(ccoll_comm comm, const ccoll_block *inputs,
                                                 const ccoll_block *output, ccoll_reduction op,
                                                 const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_reduce_scatter_v_async(ccoll_comm comm, const ccoll_block *inputs,
                                                       const ccoll_block *output,
                                                       ccoll_reduction op,
                                                       const ccoll_call_options *options,
                                                       ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_all_to_all_v(ccoll_comm comm, const ccoll_block *inputs,
                                             const ccoll_block *outputs,
                                             const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_all_to_all_v_async(ccoll_comm comm, const ccoll_block *inputs,
                                                   const ccoll_block *outputs,
                                                   const ccoll_call_options *options,
                                                   ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_gather_v(ccoll_comm comm, const ccoll_block *input,
                                         const ccoll_block *outputs, int32_t root,
                                         const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_gather_v_async(ccoll_comm comm, const ccoll_block *input,
                                               const ccoll_block *outputs, int32_t root,
                                               const ccoll_call_options *options,
                                               ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_scatter_v(ccoll_comm comm, const ccoll_block *inputs,
                                          const ccoll_block *output, int32_t root,
                                          const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_scatter_v_async(ccoll_comm comm, const ccoll_block *inputs,
                                                const ccoll_block *output, int32_t root,
                                                const ccoll_call_options *options,
                                                ccoll_work *work);

/* Several buffers in one call: `count` pairs. */

CCOLL_EXPORT ccoll_result ccoll_all_reduce_coalesced(ccoll_comm comm,
                                                     const ccoll_block_pair *pairs, size_t count,
                                                     ccoll_reduction op,
                                                     const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_all_reduce_coalesced_async(ccoll_comm comm,
                                                           const ccoll_block_pair *pairs,
                                                           size_t count, ccoll_reduction op,
                                                           const ccoll_call_options *options,
                                                           ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_reduce_coalesced(ccoll_comm comm, const ccoll_block_pair *pairs,
                                                 size_t count, ccoll_reduction op, int32_t root,
                                                 const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_reduce_coalesced_async(ccoll_comm comm,
                                                       const ccoll_block_pair *pairs, size_t count,
                                                       ccoll_reduction op, int32_t root,
                                                       const ccoll_call_options *options,
                                                       ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_broadcast_coalesced(ccoll_comm comm, const ccoll_block_pair *pairs,
                                                    size_t count, int32_t root,
                                                    const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_broadcast_coalesced_async(ccoll_comm comm,
                                                          const ccoll_block_pair *pairs,
                                                          size_t count, int32_t root,
                                                          const ccoll_call_options *options,
                                                          ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_all_gather_coalesced(ccoll_comm comm,
                                                     const ccoll_block_pair *pairs, size_t count,
                                                     const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_all_gather_coalesced_async(ccoll_comm comm,
                                                           const ccoll_block_pair *pairs,
                                                           size_t count,
                                                           const ccoll_call_options *options,
                                                           ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_reduce_scatter_coalesced(ccoll_comm comm,
                                                         const ccoll_block_pair *pairs,
                                                         size_t count, ccoll_reduction op,
                                                         const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_reduce_scatter_coalesced_async(ccoll_comm comm,
                                                               const ccoll_block_pair *pairs,
                                                               size_t count, ccoll_reduction op,
                                                               const ccoll_call_options *options,
                                                               ccoll_work *work);

/* Byte strings whose lengths the other ranks do not know. */

/* *out is the root's string: free its data by ccoll_free. */
CCOLL_EXPORT ccoll_result ccoll_broadcast_bytes(ccoll_comm comm, const void *bytes, size_t size,
                                                int32_t root, const ccoll_call_options *options,
                                                ccoll_bytes *out);
/* *out is an array with an entry for each rank: free it, entries included, by one ccoll_free. */
CCOLL_EXPORT ccoll_result ccoll_all_gather_bytes(ccoll_comm comm, const void *bytes, size_t size,
                                                 const ccoll_call_options *options,
                                                 ccoll_bytes **out);
/* The same at the root; *out is NULL elsewhere. */
CCOLL_EXPORT ccoll_result ccoll_gather_bytes(ccoll_comm comm, const void *bytes, size_t size,
                                             int32_t root, const ccoll_call_options *options,
                                             ccoll_bytes **out);

/* ---- Messages --------------------------------------------------------------------------------- */

#define CCOLL_ANY_RANK (-1)
#define CCOLL_ANY_TAG (-1)

CCOLL_EXPORT ccoll_result ccoll_send(ccoll_comm comm, const ccoll_block *block, int32_t to,
                                     int32_t tag, const ccoll_call_options *options);
CCOLL_EXPORT ccoll_result ccoll_send_async(ccoll_comm comm, const ccoll_block *block, int32_t to,
                                           int32_t tag, const ccoll_call_options *options,
                                           ccoll_work *work);
/* `received` may be NULL here and below. */
CCOLL_EXPORT ccoll_result ccoll_recv(ccoll_comm comm, const ccoll_block *block, int32_t from,
                                     int32_t tag, const ccoll_call_options *options,
                                     ccoll_received *received);
CCOLL_EXPORT ccoll_result ccoll_recv_async(ccoll_comm comm, const ccoll_block *block, int32_t from,
                                           int32_t tag, const ccoll_call_options *options,
                                           ccoll_work *work);
CCOLL_EXPORT ccoll_result ccoll_probe(ccoll_comm comm, int32_t from, int32_t tag,
                                      const ccoll_call_options *options, ccoll_received *received);
/* *found is 1 if there is such a message. */
CCOLL_EXPORT ccoll_result ccoll_try_probe(ccoll_comm comm, int32_t from, int32_t tag,
                                          ccoll_received *received, int32_t *found);
CCOLL_EXPORT ccoll_result ccoll_send_recv(ccoll_comm comm, const ccoll_block *out, int32_t to,
                                          const ccoll_block *in, int32_t from, int32_t tag,
                                          const ccoll_call_options *options,
                                          ccoll_received *received);
CCOLL_EXPORT ccoll_result ccoll_send_recv_async(ccoll_comm comm, const ccoll_block *out, int32_t to,
                                                const ccoll_block *in, int32_t from, int32_t tag,
                                                const ccoll_call_options *options,
                                                ccoll_work *work);

/* One send or receive of a batch. */
typedef struct ccoll_message {
  ccoll_block block;
  int32_t receives;  /* 1: a receive; 0: a send */
  int32_t peer;
  int32_t tag;
  int32_t reserved;  /* 0 */
} ccoll_message;

/* `received`, unless it is NULL, has room for an entry for each receive, in their order. */
CCOLL_EXPORT ccoll_result ccoll_batch(ccoll_comm comm, const ccoll_message *messages, size_t count,
                                      const ccoll_call_options *options, ccoll_received *received);
CCOLL_EXPORT ccoll_result ccoll_batch_async(ccoll_comm comm, const ccoll_message *messages,
                                            size_t count, const ccoll_call_options *options,
                                            ccoll_work *work);

/* ---- Groups of calls, memory ------------------------------------------------------------------ */

/* As ccoll/call_group.hpp: blocking calls of this thread only begin until the group's end. */
CCOLL_EXPORT ccoll_result ccoll_group_begin(void);
CCOLL_EXPORT ccoll_result ccoll_group_end(void);

typedef enum ccoll_where CCOLL_ENUM_AS_INT {
  CCOLL_WHERE_HOST = 0,
  CCOLL_WHERE_DEVICE = 1
} ccoll_where;

/* Memory that ranks of one host read where it lies (ccoll/memory.hpp). `device` below 0 is the
   thread's current one. */
CCOLL_EXPORT ccoll_result ccoll_memory_allocate(size_t bytes, int32_t where, int32_t device,
                                                ccoll_memory *made);
/* Shared memory of the caller's: a mapping of `file` from `file_offset` on. */
CCOLL_EXPORT ccoll_result ccoll_memory_register_file(void *data, size_t bytes, int32_t file,
                                                     uint64_t file_offset, ccoll_memory *made);
/* Memory of a GPU, of cudaMalloc. */
CCOLL_EXPORT ccoll_result ccoll_memory_register_device(void *data, size_t bytes,
                                                       ccoll_memory *made);
CCOLL_EXPORT void *ccoll_memory_data(ccoll_memory memory);
CCOLL_EXPORT size_t ccoll_memory_size(ccoll_memory memory);
/* *is_free is 1 if the caller may call cudaFree now. */
CCOLL_EXPORT ccoll_result ccoll_memory_reset_within(ccoll_memory memory, int64_t limit_ms,
                                                    int32_t *is_free);
CCOLL_EXPORT void ccoll_memory_free(ccoll_memory memory);

#ifdef __cplusplus
}
#endif

#endif

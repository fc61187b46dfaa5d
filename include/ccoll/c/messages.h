/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_C_MESSAGES_H
#define CCOLL_C_MESSAGES_H

/* Messages between two ranks. */

#include <stddef.h>
#include <stdint.h>

#include "ccoll/c/elements.h"
#include "ccoll/c/options.h"
#include "ccoll/c/results.h"
#include "ccoll/c/work.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif

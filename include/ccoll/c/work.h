/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_C_WORK_H
#define CCOLL_C_WORK_H

/* Operations under way. */

#include <stddef.h>
#include <stdint.h>

#include "ccoll/c/options.h"
#include "ccoll/c/results.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif

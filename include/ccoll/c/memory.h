/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_C_MEMORY_H
#define CCOLL_C_MEMORY_H

/* Groups of calls, and memory that ranks share. */

#include <stddef.h>
#include <stdint.h>

#include "ccoll/c/options.h"
#include "ccoll/c/results.h"

#ifdef __cplusplus
extern "C" {
#endif

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

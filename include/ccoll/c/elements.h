/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_C_ELEMENTS_H
#define CCOLL_C_ELEMENTS_H

/* Elements and blocks of them, and how they are reduced. */

#include <stddef.h>
#include <stdint.h>

#include "ccoll/c/results.h"

#ifdef __cplusplus
extern "C" {
#endif

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
   rows of `row_length` elements, and every row begins `stride` elements behind the row before it.
   Rows in memory of a GPU are packed there, by copies in the call's stream. */
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

#ifdef __cplusplus
}
#endif

#endif

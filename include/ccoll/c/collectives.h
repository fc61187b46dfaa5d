/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_C_COLLECTIVES_H
#define CCOLL_C_COLLECTIVES_H

/* Collective operations, blocking or under way at once. */

#include <stddef.h>
#include <stdint.h>

#include "ccoll/c/elements.h"
#include "ccoll/c/options.h"
#include "ccoll/c/results.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0
   The numbers and layouts of ccoll.h, which never change: programs and bindings rely on them. */
#include <ccoll/ccoll.h>

#ifdef __cplusplus
#define HOLDS(claim) static_assert(claim, #claim)
#else
#define HOLDS(claim) _Static_assert(claim, #claim)
#endif
#define AT(type, field, offset) HOLDS(offsetof(type, field) == (offset))

HOLDS(CCOLL_C_API == 1);
HOLDS(CCOLL_UNIQUE_ID_BYTES == 128);
HOLDS(CCOLL_HOST == -1 && CCOLL_NO_COLOR == -1 && CCOLL_ANY_RANK == -1 && CCOLL_ANY_TAG == -1);

HOLDS(CCOLL_OK == 0 && CCOLL_INVALID_ARGUMENT == 1 && CCOLL_UNSUPPORTED == 2);
HOLDS(CCOLL_TIMED_OUT == 3 && CCOLL_PEER_LOST == 4 && CCOLL_MISMATCH == 5 && CCOLL_ABORTED == 6);
HOLDS(CCOLL_EXHAUSTED == 7 && CCOLL_CORRUPT == 8 && CCOLL_INTERNAL == 9);

HOLDS(CCOLL_INT8 == 0 && CCOLL_UINT8 == 1 && CCOLL_INT16 == 2 && CCOLL_UINT16 == 3);
HOLDS(CCOLL_INT32 == 4 && CCOLL_UINT32 == 5 && CCOLL_INT64 == 6 && CCOLL_UINT64 == 7);
HOLDS(CCOLL_FLOAT16 == 8 && CCOLL_BFLOAT16 == 9 && CCOLL_FLOAT32 == 10 && CCOLL_FLOAT64 == 11);
HOLDS(CCOLL_FLOAT8_E4M3 == 12 && CCOLL_FLOAT8_E5M2 == 13 && CCOLL_BOOL == 14);

HOLDS(CCOLL_SUM == 0 && CCOLL_PRODUCT == 1 && CCOLL_MIN == 2 && CCOLL_MAX == 3 && CCOLL_AVG == 4);
HOLDS(CCOLL_BIT_AND == 5 && CCOLL_BIT_OR == 6 && CCOLL_BIT_XOR == 7);
HOLDS(CCOLL_DEVICE_WAY_AUTOMATIC == 0 && CCOLL_DEVICE_WAY_TEAM == 1);
HOLDS(CCOLL_DEVICE_WAY_STEPS == 2 && CCOLL_DEVICE_WAY_HOST == 3);
HOLDS(CCOLL_DEVICE_COPIES_BY_SIZE == 0 && CCOLL_DEVICE_COPIES_ALWAYS == 1);
HOLDS(CCOLL_DEVICE_COPIES_NEVER == 2 && CCOLL_WHERE_HOST == 0 && CCOLL_WHERE_DEVICE == 1);

HOLDS(sizeof(ccoll_result) == 4 && sizeof(ccoll_type) == 4 && sizeof(ccoll_op) == 4);
HOLDS(sizeof(ccoll_reduction) == 8);

HOLDS(sizeof(ccoll_block) == 40);
AT(ccoll_block, data, 0);
AT(ccoll_block, count, 8);
AT(ccoll_block, type, 16);
AT(ccoll_block, reserved, 20);
AT(ccoll_block, row_length, 24);
AT(ccoll_block, stride, 32);
HOLDS(sizeof(ccoll_block_pair) == 80);
AT(ccoll_block_pair, output, 40);

HOLDS(sizeof(ccoll_bytes) == 16);
AT(ccoll_bytes, size, 8);

HOLDS(sizeof(ccoll_received) == 24);
AT(ccoll_received, from, 0);
AT(ccoll_received, tag, 4);
AT(ccoll_received, count, 8);
AT(ccoll_received, bytes, 16);

HOLDS(sizeof(ccoll_message) == 56);
AT(ccoll_message, receives, 40);
AT(ccoll_message, peer, 44);
AT(ccoll_message, tag, 48);

HOLDS(sizeof(ccoll_call_options) == 48);
AT(ccoll_call_options, timeout_ms, 8);
AT(ccoll_call_options, algorithm, 16);
AT(ccoll_call_options, label, 24);
AT(ccoll_call_options, stream, 32);
AT(ccoll_call_options, has_stream, 40);

HOLDS(sizeof(ccoll_group_options) == 24);
AT(ccoll_group_options, name, 8);
AT(ccoll_group_options, timeout_ms, 16);

HOLDS(sizeof(ccoll_options) == 216);
AT(ccoll_options, size, 0);
AT(ccoll_options, name, 8);
AT(ccoll_options, transport, 16);
AT(ccoll_options, algorithm, 24);
AT(ccoll_options, interface_name, 32);
AT(ccoll_options, token, 40);
AT(ccoll_options, tls_mode, 48);
AT(ccoll_options, tls_certificate, 56);
AT(ccoll_options, tls_key, 64);
AT(ccoll_options, tls_authority, 72);
AT(ccoll_options, tls_name, 80);
AT(ccoll_options, timeout_ms, 88);
AT(ccoll_options, start_timeout_ms, 96);
AT(ccoll_options, heartbeat_ms, 104);
AT(ccoll_options, eager_limit, 112);
AT(ccoll_options, shm_slot_bytes, 120);
AT(ccoll_options, device_staging_bytes, 128);
AT(ccoll_options, device_workspace_bytes, 136);
AT(ccoll_options, device_blocks, 144);
AT(ccoll_options, max_lanes, 152);
AT(ccoll_options, deterministic, 156);
AT(ccoll_options, checksum, 160);
AT(ccoll_options, strict_sends, 164);
AT(ccoll_options, shm_single_copy, 168);
AT(ccoll_options, shm_huge_pages, 172);
AT(ccoll_options, device, 176);
AT(ccoll_options, device_way, 180);
AT(ccoll_options, device_copies, 184);
AT(ccoll_options, device_direct_messages, 188);
AT(ccoll_options, warn_after_ms, 192);
AT(ccoll_options, start_stop, 200);
AT(ccoll_options, socket_family, 208);

HOLDS(sizeof(ccoll_store_functions) == 64);
AT(ccoll_store_functions, set, 8);
AT(ccoll_store_functions, get, 16);
AT(ccoll_store_functions, add, 24);
AT(ccoll_store_functions, compare_set, 32);
AT(ccoll_store_functions, check, 40);
AT(ccoll_store_functions, remove, 48);
AT(ccoll_store_functions, list, 56);

HOLDS(sizeof(ccoll_counters) == 40);
AT(ccoll_counters, collectives, 8);
AT(ccoll_counters, device_memory_bytes, 16);
AT(ccoll_counters, device_workspace_bytes, 24);
AT(ccoll_counters, peers, 32);
HOLDS(sizeof(ccoll_peer_counters) == 88);
AT(ccoll_peer_counters, rank, 0);
AT(ccoll_peer_counters, transport, 8);
AT(ccoll_peer_counters, messages_sent, 24);
AT(ccoll_peer_counters, bytes_sent, 32);
AT(ccoll_peer_counters, messages_received, 40);
AT(ccoll_peer_counters, bytes_received, 48);
AT(ccoll_peer_counters, waits, 56);
AT(ccoll_peer_counters, time_lost_ns, 64);
AT(ccoll_peer_counters, retries, 72);
AT(ccoll_peer_counters, errors, 80);

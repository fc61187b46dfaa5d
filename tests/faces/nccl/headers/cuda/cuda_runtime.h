/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of CUDA's header that an nccl.h needs, for machines without CUDA. */

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 12080
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

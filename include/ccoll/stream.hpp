// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CUDA's streams by their name, which is all that ccoll's headers need of CUDA.

/// As CUDA's own headers declare it; those may be included before or after.
using cudaStream_t = struct CUstream_st*;

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// NCCL's names and numbers for files that define its functions: nccl/nccl.h, additions of newer
/// headers, and the one macro that gives a function its two names.

// A stream is a pointer here; only device/cuda.cpp knows CUDA's headers.
#include <cstddef>
#include <cstdint>

#define CCOLL_NCCL_NO_CUDA_HEADERS 1
#pragma GCC visibility push(default)
#include "nccl/nccl.h"
#pragma GCC visibility pop

/// Defines `pncclNAME`, and `ncclNAME` as its weak second name, which profilers may define
/// themselves. The library itself calls neither.
#define CCOLL_NCCL_FACE(RESULT, NAME, ...)                                           \
  extern "C" __attribute__((visibility("default"))) RESULT pnccl##NAME(__VA_ARGS__); \
  extern "C" __attribute__((visibility("default"), weak, alias("pnccl" #NAME)))      \
  RESULT nccl##NAME(__VA_ARGS__);                                                    \
  RESULT pnccl##NAME(__VA_ARGS__)

namespace ccoll::nccl {

/// The newest level of NCCL whose functions and structs are known here: 2.30.7.
inline constexpr unsigned kKnownLevel = 23007;
/// The answer of ncclGetVersion. Clients take a version as a promise: from 2.29 on they use
/// windows.
inline constexpr int kReportedVersion = 22809;
/// The first version that has ncclTimeout.
inline constexpr int kTimeoutSince = 23000;
inline constexpr auto kTimeout = static_cast<ncclResult_t>(8);

/// Begins a config and every other struct with a size, a magic number and a version.
inline constexpr std::uint32_t kMagic = 0xcafebeef;
inline constexpr std::uint32_t kSimulationMagic = 0x74685283;

}  // namespace ccoll::nccl

// Types of headers after 2.27.7, if they are passed by value.
struct ncclTeam_t {
  int nRanks;
  int rank;
  int stride;
};
struct ncclMultimemHandle_t {
  void* base;
};

// SPDX-License-Identifier: Apache-2.0
// The two functions of Highway's library that its dispatch calls. That library measures the
// processor's timer when it is loaded, which takes 8 ms of every program that links it. The targets
// are those of Highway 1.0.3: for a later one's newer targets the next lower one serves. HWY_ASSERT
// would need a third function.
#include "kernels/targets.hpp"

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hwy {

std::int64_t SupportedTargets() {
  std::int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  // __builtin_cpu_supports also checks that the operating system saves the registers. clang 16 does
  // not know F16C and LZCNT by it; these two need no registers beyond those of AVX2.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool has_lzcnt =
      __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_LZCNT) != 0;
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul") ||
      !__builtin_cpu_supports("aes"))
    return targets;
  targets |= HWY_SSE4;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") || !has_f16c || !has_lzcnt)
    return targets;
  targets |= HWY_AVX2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd"))
    targets |= HWY_AVX3;
#endif
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy

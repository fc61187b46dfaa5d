// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Non-default floating-point states of threads, for tests of results that must not depend on them.

#include <cstdint>
#include <vector>

namespace ccoll::testing {

#if defined(__x86_64__)
inline std::uint64_t float_state() {
  std::uint32_t word = 0;
  asm volatile("stmxcsr %0" : "=m"(word) : : "memory");
  return word & ~0x3fu;  // without the exception flags
}
inline void set_float_state(std::uint64_t state) {
  const auto word = static_cast<std::uint32_t>(state);
  asm volatile("ldmxcsr %0" : : "m"(word) : "memory");
}
/// Round up, down, towards zero; flush results, operands, both to zero; all at once.
inline std::vector<std::uint64_t> unusual_float_states() {
  return {0x5f80, 0x3f80, 0x7f80, 0x9f80, 0x1fc0, 0x9fc0, 0xdfc0};
}
#elif defined(__aarch64__)
inline std::uint64_t float_state() {
  std::uint64_t word = 0;
  asm volatile("mrs %0, fpcr" : "=r"(word) : : "memory");
  return word;
}
inline void set_float_state(std::uint64_t state) {
  asm volatile("msr fpcr, %0" : : "r"(state) : "memory");
}
/// Round up, down, towards zero; flush to zero; default NaNs; all at once.
inline std::vector<std::uint64_t> unusual_float_states() {
  return {1u << 22, 2u << 22, 3u << 22, 1u << 24, 1u << 25, 7u << 23};
}
#else
inline std::uint64_t float_state() { return 0; }
inline void set_float_state(std::uint64_t) {}
inline std::vector<std::uint64_t> unusual_float_states() { return {}; }
#endif

/// The thread has that state while this lives.
class UnusualFloatState {
 public:
  explicit UnusualFloatState(std::uint64_t state) { set_float_state(state); }
  ~UnusualFloatState() { set_float_state(before_); }
  UnusualFloatState(const UnusualFloatState&) = delete;
  UnusualFloatState& operator=(const UnusualFloatState&) = delete;

 private:
  std::uint64_t before_ = float_state();
};

}  // namespace ccoll::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The part of a thread's floating-point state that results depend on: how it rounds, whether it
/// takes subnormal numbers for zeros (torch.set_flush_denormal), and which exceptions trap. Threads
/// that make progress on one call may differ in it, and so may ranks; their results must not.

#include <cstdint>

namespace ccoll {

/// While it lives, the thread has the state with which C++ programs start. Then its own state
/// returns, with the exception flags of both. On processors with an unknown state it does nothing.
class DefaultFloatState {
 public:
  DefaultFloatState() : own_(read()) {
    if (!is_default(own_)) write(kDefault);
  }
  ~DefaultFloatState() {
    if (!is_default(own_)) write(own_ | (read() & kFlags));
  }
  DefaultFloatState(const DefaultFloatState&) = delete;
  DefaultFloatState& operator=(const DefaultFloatState&) = delete;

  /// Whether the thread has that state already.
  static bool is_there() { return is_default(read()); }

 private:
#if defined(__x86_64__)
  using Word = std::uint32_t;  // MXCSR
  static constexpr Word kFlags = 0x3f;
  static constexpr Word kDefault = 0x1f80;  // every exception masked
#else
  using Word = std::uint64_t;  // FPCR, which has no flags: they are in FPSR
  static constexpr Word kFlags = 0;
  static constexpr Word kDefault = 0;
#endif

  static bool is_default(Word word) { return (word & ~kFlags) == kDefault; }

  // Neither may be moved across a memory access, so arithmetic on values in memory stays between.
  static Word read() {
    Word word = kDefault;
#if defined(__x86_64__)
    asm volatile("stmxcsr %0" : "=m"(word) : : "memory");
#elif defined(__aarch64__)
    asm volatile("mrs %0, fpcr" : "=r"(word) : : "memory");
#endif
    return word;
  }
  static void write([[maybe_unused]] Word word) {
#if defined(__x86_64__)
    asm volatile("ldmxcsr %0" : : "m"(word) : "memory");
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" : : "r"(word) : "memory");
#endif
  }

  Word own_;
};

/// Calls `work`, with all operands in memory, in the default state. If the thread has that state
/// already, it costs an all_reduce of 8 bytes seven instructions.
template <class Work>
void in_default_float_state(const Work& work) {
  if (DefaultFloatState::is_there()) [[likely]]
    return work();
  const DefaultFloatState state;
  work();
}

}  // namespace ccoll

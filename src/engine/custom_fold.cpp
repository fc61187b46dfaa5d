// SPDX-License-Identifier: Apache-2.0
#include "engine/custom_fold.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>

#include "core/float_state.hpp"
#include "core/result.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

/// The forks among this process and its ancestors.
struct Forks {
  std::atomic<unsigned> count{0};
};
/// The count is made first: a child that is forked amid this cannot make it.
const int registered = (static_cast<void>(Runtime::one<Forks>()),
                        pthread_atfork(nullptr, nullptr, [] { Runtime::one<Forks>().count++; }));

/// A caller's function that this thread is running.
struct Folding {
  const void* whose;
  const Folding* outer;
};
thread_local const Folding* innermost = nullptr;

}  // namespace

bool is_folding_for(const void* whose) {
  const Folding* at = innermost;
  while (at != nullptr && at->whose != whose) at = at->outer;
  return at != nullptr;
}

CustomFold::CustomFold(DataType type, std::size_t elem_bytes)
    : type_(type), elem_bytes_(elem_bytes) {
  CCOLL_CHECK(registered == 0, "pthread_atfork: {}", registered);
}

bool CustomFold::operator()(const Reduction::Custom& custom, const void* whose,
                            const std::byte* const* sources, std::size_t source_count,
                            std::byte* out, std::size_t elems) {
  const std::size_t chunk = kChunkBytes / elem_bytes_;
  for (std::size_t first = 0; first < elems; first += chunk) {
    const std::size_t count = std::min(chunk, elems - first);
    const std::size_t at = first * elem_bytes_;
    std::memcpy(accumulated_, sources[source_count - 1] + at, count * elem_bytes_);
    for (std::size_t s = source_count - 1; s-- > 0;)
      if (!call(custom, whose, sources[s] + at, count)) return false;
    std::memcpy(out + at, accumulated_, count * elem_bytes_);
  }
  return true;
}

bool CustomFold::call(const Reduction::Custom& custom, const void* whose, const std::byte* in,
                      std::size_t elems) {
  if (thrown_ || in_child_) return false;
  if (reinterpret_cast<std::uintptr_t>(in) % elem_bytes_ != 0) {
    std::memcpy(operand_, in, elems * elem_bytes_);
    in = operand_;
  }
  const Folding folding{whose, innermost};
  const struct Restore {
    const Folding& of;
    ~Restore() { innermost = of.outer; }
  } restore{folding};
  innermost = &folding;
  const DefaultFloatState state;  // any thread may make the call
  const auto& forks = Runtime::one<Forks>().count;
  const unsigned before = forks.load(std::memory_order_relaxed);
  try {
    custom.function(in, accumulated_, elems, type_);
    in_child_ = forks.load(std::memory_order_relaxed) != before;
    return !in_child_;
  } catch (const std::exception& error) {
    thrown_ = error.what();
  } catch (...) {
    thrown_ = "an object that is not a std::exception";
  }
  in_child_ = forks.load(std::memory_order_relaxed) != before;
  return false;
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "kernels/families.hpp"
#include "kernels/scalar.hpp"
#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/combine_bits.cpp"
#include <hwy/foreach_target.h>

#include "kernels/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ccoll::HWY_NAMESPACE {
#if CCOLL_SCALAR_TARGET

CombineFunction FindBytes(ReduceOp op) { return find_combine_scalar<std::uint8_t>(op); }
CombineFunction FindBool(ReduceOp op) { return find_combine_scalar<element::Bool>(op); }

#else
namespace {

struct BitAnd : Unfinished {
  template <class D, class V>
  static HWY_INLINE V Fold(D /*d*/, V a, V b) {
    return hn::And(a, b);
  }
};

struct BitOr : Unfinished {
  template <class D, class V>
  static HWY_INLINE V Fold(D /*d*/, V a, V b) {
    return hn::Or(a, b);
  }
};

struct BitXor : Unfinished {
  template <class D, class V>
  static HWY_INLINE V Fold(D /*d*/, V a, V b) {
    return hn::Xor(a, b);
  }
};

/// Bytes that are not 0 are read as 1; then the operations on bits are those on truth.
struct Truth : Plain<std::uint8_t> {
  static HWY_INLINE V Load(const Stored* from) {
    return hn::Min(Plain::Load(from), hn::Set(D(), 1));
  }
};

template <typename T, class Format>
CombineFunction Find(ReduceOp op) {
  switch (op) {
    case ReduceOp::bit_and:
      return &Combine<T, ReduceOp::bit_and, Format, BitAnd>;
    case ReduceOp::bit_or:
      return &Combine<T, ReduceOp::bit_or, Format, BitOr>;
    case ReduceOp::bit_xor:
      return &Combine<T, ReduceOp::bit_xor, Format, BitXor>;
    default:
      return nullptr;
  }
}

}  // namespace

CombineFunction FindBytes(ReduceOp op) { return Find<std::uint8_t, Plain<std::uint8_t>>(op); }

CombineFunction FindBool(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
      op = ReduceOp::bit_or;
      break;
    case ReduceOp::product:
    case ReduceOp::min:
      op = ReduceOp::bit_and;
      break;
    default:
      break;
  }
  return Find<element::Bool, Truth>(op);
}

#endif
}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(FindBytes);
HWY_EXPORT(FindBool);

namespace {

/// Bits do not know where an element ends: every size of integer is so many bytes. Each call looks
/// up the SIMD target, as a function has no room for the result of an earlier look-up.
template <ReduceOp op, std::size_t size>
void combine_bytes(const std::byte* const* sources, std::size_t count, std::byte* out,
                   std::size_t elems, std::uint32_t divisor) {
  HWY_DYNAMIC_DISPATCH(FindBytes)(op)(sources, count, out, elems * size, divisor);
}

template <ReduceOp op>
CombineFunction of_size(std::size_t size) {
  if (size == 2) return &combine_bytes<op, 2>;
  return size == 4 ? &combine_bytes<op, 4> : &combine_bytes<op, 8>;
}

}  // namespace

CombineFunction find_combine_bits(DataType type, ReduceOp op) {
  const std::size_t size = size_of(type);
  if (size == 1) return HWY_DYNAMIC_DISPATCH(FindBytes)(op);
  if (op == ReduceOp::bit_and) return of_size<ReduceOp::bit_and>(size);
  return op == ReduceOp::bit_or ? of_size<ReduceOp::bit_or>(size)
                                : of_size<ReduceOp::bit_xor>(size);
}

CombineFunction find_combine_bool(ReduceOp op) { return HWY_DYNAMIC_DISPATCH(FindBool)(op); }

}  // namespace ccoll
#endif

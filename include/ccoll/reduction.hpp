// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The operation by which all_reduce, reduce and reduce_scatter combine: one of ReduceOp, a sum of
/// contributions that each rank multiplies by a factor of its own, or the caller's own function.
///
/// Results do not depend on the floating-point state of any thread: the library rounds to nearest
/// and keeps subnormal numbers, and the thread has its own state again afterwards. Every NaN that
/// is made, by combining or by a factor, is its type's canonical one:
///
///     float16      0x7e00        float32      0x7fc00000            float8_e4m3  0x7f
///     bfloat16     0x7fc0        float64      0x7ff8000000000000    float8_e5m2  0x7f
///
/// A NaN that is combined with nothing, as on a communicator of one rank, is copied as it is.
///
/// An average of float16, float8_e4m3 or float8_e5m2 never overflows if all contributions are
/// finite, whatever the algorithm. For n ranks' contributions x it is the mean, rounded once to the
/// type, after an error in float32 of at most n × 2^-24 × the mean of |x|. Algorithms that do not
/// combine all in one step move four bytes for each such element. The choice counts that, and may
/// differ from the one that Communicator::explain shows for a sum.
///
/// Other averages, and all sums, are infinite (NaN in float8_e4m3) if a partial sum leaves the
/// type's range, though later contributions may lead back into it. Partial sums depend on the
/// algorithm, except in a deterministic communicator: there, 8- and 16-bit floats are summed in
/// float32 and only the result is of the type. Averages of bfloat16, float32 and float64 overflow
/// beyond 3e38 or 1e308: to prevent it would cost a multiplication for each contribution.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ccoll/types.hpp"

namespace ccoll {

/// The caller's own operation: inout[i] = in[i] op inout[i] for the `count` elements of either, as
/// an MPI_User_function does. `in` is the left operand: if the operation is not commutative, it has
/// contributions of lower ranks than `inout`.
///
/// - Both are host memory, aligned to the size of an element, and do not overlap; `in` must not
///   be written. They are some part of the buffers of a call: a call of 1000 elements may come as
///   600 and 400, in any order, so an element's result must not depend on where it stands.
/// - It is called by the thread that makes progress: one that is inside a call of the
///   communicator, or the library's own if there is none. For one communicator, two threads never
///   call it at once; for several communicators they may.
/// - It finds the floating-point state in which C++ programs start (rounding to nearest, subnormal
///   numbers kept, no traps), whatever the thread's own is, which it has again afterwards.
/// - It must be associative, and must not use the communicator, which is Error{invalid_argument}.
///   At the end of a group of calls, the same holds for all communicators of the group.
/// - An exception ends the call, on all ranks, with Error{aborted} and the exception's text; the
///   communicator is then broken, as after any failure.
using CombineElements =
    std::function<void(const void* in, void* inout, std::size_t count, DataType type)>;

/// Facts that ranks know of the caller's own operation.
struct CCOLL_API CustomReduction {
  /// Ranks compare it to find out whether they use the same function. Not empty.
  std::string name;
  /// If not, contributions are only combined with those of the ranks next to them, in rank order.
  /// Few algorithms do that; asking for another one is Error{invalid_argument}.
  bool commutative = true;
};

/// A value; copies share the caller's function, which is kept until the last call that uses it is
/// done.
class CCOLL_API Reduction {
 public:
  /// Implicit: every call takes `ReduceOp::max`.
  Reduction(ReduceOp op = ReduceOp::sum) : op_(op) {}

  /// The sum of contributions, each multiplied by its own rank's factor beforehand: ranks may give
  /// different ones.
  ///
  /// The factor is rounded to the type in which elements are combined (float32 for floats of 32
  /// bits and fewer, float64 for float64); the product is rounded to the element's type once,
  /// before any other rank sees it, so all ranks get the same bits. For integers the factor is a
  /// whole number and products wrap modulo 2^bits. Not defined on bool. If the result is as long as
  /// the input, the products stand in the output buffer; else the call allocates memory for them,
  /// as much as the input has.
  static Reduction premultiplied_sum(double factor);
  /// The same with a factor in the form of an element, as ncclRedOpCreatePreMulSum takes it.
  template <Element T>
  static Reduction premultiplied_sum(T factor) {
    return premultiplied_sum(&factor, data_type_of<T>);
  }
  static Reduction premultiplied_sum(const void* factor, DataType type);
  /// The same with a factor that comes later: an element of `type`, the call's, at `place`, in
  /// memory of the rank's GPU or of the host. It is read when the call begins: for a call in a
  /// stream, when the stream has reached it, and again at each launch of a graph. The place must
  /// last until then. A factor of another type than the call's is Error{invalid_argument}.
  static Reduction premultiplied_sum_at(const void* place, DataType type);

  /// The caller's own function. Throws Error{invalid_argument} when it or its name is empty.
  static Reduction custom(CombineElements function, CustomReduction description);

  // Read by calls:

  /// Which of the three it is.
  enum class Form : std::uint8_t { plain, premultiplied_sum, custom };
  Form form() const { return form_; }
  /// sum for a pre-multiplied one; without meaning for a custom one.
  ReduceOp op() const { return op_; }
  double factor() const { return factor_; }
  /// Modulo 2^64; none if the factor has a fraction.
  bool has_whole_factor() const { return has_whole_factor_; }
  std::uint64_t whole_factor() const { return whole_factor_; }
  /// Where a factor that comes later will be; null: the factor is known.
  const void* factor_place() const { return factor_place_; }
  DataType factor_type() const { return factor_type_; }
  /// The caller's function and its description.
  struct Custom {
    CombineElements function;
    CustomReduction description;
  };
  /// Null for the other forms.
  const std::shared_ptr<const Custom>& custom() const { return custom_; }
  /// "sum", "premultiplied_sum by 0.5", "reduction 'my name'".
  std::string text() const;

 private:
  Form form_ = Form::plain;
  ReduceOp op_ = ReduceOp::sum;
  bool has_whole_factor_ = true;
  double factor_ = 1;
  std::uint64_t whole_factor_ = 1;
  const void* factor_place_ = nullptr;
  DataType factor_type_ = DataType::uint8;  ///< of the factor at factor_place_
  std::shared_ptr<const Custom> custom_;
};

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace ccoll::plugin {
namespace {

using at::ScalarType;

std::string name_of(ScalarType type) {
  return "torch." + std::string(c10::getDtypeNames(type).first);
}

std::string describe(const Tensor& tensor) {
  return name_of(tensor.scalar_type()) + " of shape " + as_tuple(tensor.sizes()) + ", strides " +
         as_tuple(tensor.strides()) + ", on " + tensor.device().str();
}

struct Element {
  DataType type;
  int parts;  ///< how many of ccoll's elements one of torch's has
};

/// Complex numbers are pairs; types that ccoll does not know are bytes.
Element element_of(const char* call, const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      return {DataType::float32, 1};
    case ScalarType::Double:
      return {DataType::float64, 1};
    case ScalarType::Half:
      return {DataType::float16, 1};
    case ScalarType::BFloat16:
      return {DataType::bfloat16, 1};
    case ScalarType::Char:
      return {DataType::int8, 1};
    case ScalarType::Byte:
      return {DataType::uint8, 1};
    case ScalarType::Short:
      return {DataType::int16, 1};
    case ScalarType::UInt16:
      return {DataType::uint16, 1};
    case ScalarType::Int:
      return {DataType::int32, 1};
    case ScalarType::UInt32:
      return {DataType::uint32, 1};
    case ScalarType::Long:
      return {DataType::int64, 1};
    case ScalarType::UInt64:
      return {DataType::uint64, 1};
    case ScalarType::Bool:
      return {DataType::boolean, 1};
    case ScalarType::Float8_e4m3fn:
      return {DataType::float8_e4m3, 1};
    case ScalarType::Float8_e5m2:
      return {DataType::float8_e5m2, 1};
    case ScalarType::ComplexFloat:
      return {DataType::float32, 2};
    case ScalarType::ComplexDouble:
      return {DataType::float64, 2};
    case ScalarType::Float8_e4m3fnuz:
    case ScalarType::Float8_e5m2fnuz:
    case ScalarType::Float8_e8m0fnu:
      return {DataType::uint8, 1};
    case ScalarType::ComplexHalf:
      return {DataType::uint8, 4};
    default:
      refuse(call,
             name_of(tensor.scalar_type()) +
                 ": expected elements that are bool, integers of 8 to 64 bits, floats of 8 to 64 "
                 "bits, or complex numbers");
  }
}

void check_apart(const char* call, const Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.dim(); i++)
    if (tensor.stride(i) == 0 && tensor.size(i) > 1)
      refuse(call, "an output whose elements share memory: " + describe(tensor) +
                       "; give a contiguous() one");
}

/// Whether its elements lie in their order, as they are.
bool is_plain(const Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

Tensor made_plain(const Tensor& tensor) {
  return tensor.detach().contiguous().resolve_conj().resolve_neg();
}

/// Rows of so many elements, the beginnings of which are `stride` elements apart; 0: no gaps.
struct Rows {
  std::int64_t length = 0;
  std::int64_t stride = 0;
};

/// The rows of a tensor with gaps, such as some columns of a matrix, if they are equally far apart.
/// A GPU makes its copies itself.
std::optional<Rows> rows_of(const Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.is_conj() || tensor.is_neg()) return std::nullopt;
  std::int64_t rows = 1;
  Rows found{1, 0};
  for (auto i = tensor.dim(); i-- > 0;) {
    if (tensor.size(i) == 0) return std::nullopt;
    if (tensor.size(i) == 1) continue;
    if (rows == 1 && tensor.stride(i) == found.length) {
      found.length *= tensor.size(i);
    } else if (rows == 1 && tensor.stride(i) > found.length) {
      found.stride = tensor.stride(i);
      rows = tensor.size(i);
    } else if (rows > 1 && tensor.stride(i) == rows * found.stride) {
      rows *= tensor.size(i);
    } else {
      return std::nullopt;
    }
  }
  return found;
}

template <typename AnyBlock, typename Pointer>
AnyBlock block_of(const char* call, const Tensor& tensor, Pointer data, Rows rows = {}) {
  const auto element = element_of(call, tensor);
  const auto count = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements * element.parts);
  };
  return {data, count(tensor.numel()), element.type, count(rows.stride == 0 ? 0 : rows.length),
          count(rows.stride)};
}

ReduceOp of_bool(const char* call, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
      return ReduceOp::bit_or;
    case ReduceOp::product:
    case ReduceOp::min:
      return ReduceOp::bit_and;
    case ReduceOp::avg:
      refuse(call,
             "avg of bool tensors has no meaning; SUM and MAX are `or`, MIN and PRODUCT `and`");
    default:
      return op;
  }
}

ReduceOp plain_op(const char* call, const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::avg;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::product;
    case c10d::ReduceOp::MIN:
      return ReduceOp::min;
    case c10d::ReduceOp::MAX:
      return ReduceOp::max;
    case c10d::ReduceOp::BAND:
      return ReduceOp::bit_and;
    case c10d::ReduceOp::BOR:
      return ReduceOp::bit_or;
    case c10d::ReduceOp::BXOR:
      return ReduceOp::bit_xor;
    default:
      refuse(call, "there is no reduction " + std::to_string(static_cast<int>(op.op_)));
  }
}

double factor_of(const c10d::ReduceOp& op) {
  const auto& factor = static_cast<const c10d::NCCLPreMulSumSupplement&>(*op.supplement_);
  return factor.tensor_factor.defined() ? factor.tensor_factor.item<double>()
                                        : factor.double_factor;
}

std::string joined(at::IntArrayRef numbers) {
  std::string text;
  for (const auto each : numbers) text += (text.empty() ? "" : ", ") + std::to_string(each);
  return text;
}

}  // namespace

void refuse(const char* call, const std::string& why) {
  C10_THROW_ERROR(ValueError, std::string("ccoll: ") + call + ": " + why);
}

std::string as_tuple(at::IntArrayRef numbers) {
  return "(" + joined(numbers) + (numbers.size() == 1 ? ",)" : ")");
}

std::string as_list(at::IntArrayRef numbers) { return "[" + joined(numbers) + "]"; }

void Arguments::check(const Tensor& tensor) {
  if (tensor.layout() != at::kStrided)
    refuse(call(), "a tensor of layout " + c10::str(tensor.layout()) +
                       ": give its dense parts, or its values()");
  if (tensor.is_quantized()) refuse(call(), "a quantised tensor: give its int_repr()");
  place_on(tensor.device());
}

void Arguments::place_on(at::Device device) {
  if (device.is_cuda() && !device.has_index())
    device = c10::impl::VirtualGuardImpl(device.type()).getDevice();
  if (!device.is_cpu() && !device.is_cuda())
    refuse(call(), "a tensor on " + device.str() + ": expected one on the CPU or on CUDA's GPUs");
  if (device_ && *device_ != device)
    refuse(call(), "tensors on " + device_->str() + " and on " + device.str() +
                       ": expected all tensors of a call on one device");
  device_ = device;
}

ConstBlock Arguments::read(const Tensor& tensor) {
  check(tensor);
  if (!is_plain(tensor)) {
    if (const auto rows = rows_of(tensor)) {
      inputs_.push_back(tensor);
      return block_of<ConstBlock>(call(), tensor, tensor.const_data_ptr(), *rows);
    }
  }
  inputs_.push_back(is_plain(tensor) ? tensor : made_plain(tensor));
  return block_of<ConstBlock>(call(), inputs_.back(), inputs_.back().const_data_ptr());
}

std::vector<ConstBlock> Arguments::read(at::TensorList tensors) {
  std::vector<ConstBlock> blocks;
  for (const auto& each : tensors) blocks.push_back(read(each));
  return blocks;
}

Block Arguments::write(const Tensor& tensor) { return write(tensor, false); }

std::vector<Block> Arguments::write(at::TensorList tensors) {
  std::vector<Block> blocks;
  for (const auto& each : tensors) blocks.push_back(write(each, false));
  return blocks;
}

Block Arguments::both(const Tensor& tensor) { return write(tensor, true); }

Block Arguments::write(const Tensor& tensor, bool with_contents) {
  check(tensor);
  check_apart(call(), tensor);
  outputs_.push_back(tensor);
  if (is_plain(tensor)) return block_of<Block>(call(), tensor, tensor.mutable_data_ptr());
  if (const auto rows = rows_of(tensor))
    return block_of<Block>(call(), tensor, tensor.mutable_data_ptr(), *rows);
  const auto made = with_contents
                        ? made_plain(tensor)
                        : at::empty(tensor.sizes(), tensor.options().requires_grad(false));
  copies_.emplace_back(tensor, made);
  return block_of<Block>(call(), made, made.mutable_data_ptr());
}

void Arguments::add(const Arguments& other) {
  outputs_.insert(outputs_.end(), other.outputs_.begin(), other.outputs_.end());
  inputs_.insert(inputs_.end(), other.inputs_.begin(), other.inputs_.end());
}

void Arguments::copy_back() {
  const at::NoGradGuard guard;
  for (const auto& [tensor, made] : copies_) {
    // Such a tensor is written in that mode alone, which the library's thread is not in.
    std::optional<c10::InferenceMode> mode;
    if (tensor.is_inference()) mode.emplace();
    tensor.copy_(made);
  }
}

void Arguments::finish() {
  copy_back();
  copies_.clear();
}

const Tensor& only(const char* call, const Tensors& tensors) {
  if (tensors.size() != 1)
    refuse(call, "expected one tensor, not " + std::to_string(tensors.size()));
  return tensors.front();
}

const Tensors& only(const char* call, const std::vector<Tensors>& lists) {
  if (lists.size() != 1)
    refuse(call, "expected one list of tensors, not " + std::to_string(lists.size()));
  return lists.front();
}

void check_same_type(const char* call, const Tensor& one, at::TensorList others) {
  for (const auto& each : others)
    if (each.scalar_type() != one.scalar_type())
      refuse(call, "tensors of one type are expected: " + describe(one) + " and " + describe(each));
}

void check_pairs(const char* call, at::TensorList outputs, at::TensorList inputs) {
  if (outputs.size() != inputs.size())
    refuse(call, "as many outputs as inputs are expected, not " + std::to_string(outputs.size()) +
                     " and " + std::to_string(inputs.size()));
  for (std::size_t i = 0; i < outputs.size(); i++) check_same_type(call, outputs[i], inputs[i]);
}

void check_size(const char* call, const Tensor& tensor, std::int64_t expected,
                const std::string& why) {
  if (tensor.numel() != expected)
    refuse(call, std::to_string(expected) + " elements are expected, " + why + "; the tensor is " +
                     describe(tensor));
}

void check_one_for_each(const char* call, std::size_t count, int size) {
  if (count != static_cast<std::size_t>(size))
    refuse(call, "a list of " + std::to_string(size) +
                     " tensors, one for each rank, is expected, not " + std::to_string(count));
}

std::vector<std::size_t> counts_of(const char* call, const Tensor& tensor,
                                   const std::vector<std::int64_t>& splits, int size) {
  if (tensor.dim() == 0) refuse(call, "a tensor without dimensions cannot be split");
  const std::int64_t rows = tensor.size(0);
  const std::int64_t row = rows > 0 ? tensor.numel() / rows : 0;
  if (splits.empty()) {
    if (rows % size != 0)
      refuse(call, "dimension 0 of " + as_tuple(tensor.sizes()) +
                       " does not divide equally among " + std::to_string(size) + " ranks");
    return std::vector<std::size_t>(static_cast<std::size_t>(size),
                                    static_cast<std::size_t>(rows / size * row));
  }
  const bool has_negative = std::any_of(splits.begin(), splits.end(), [](auto n) { return n < 0; });
  if (splits.size() != static_cast<std::size_t>(size) || has_negative ||
      std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) != rows)
    refuse(call, "split sizes " + as_list(splits) + " do not match dimension 0 of " +
                     as_tuple(tensor.sizes()) + " and " + std::to_string(size) + " ranks");
  std::vector<std::size_t> counts;
  for (const auto each : splits) counts.push_back(static_cast<std::size_t>(each * row));
  return counts;
}

Reduction reduction_of(const char* call, const c10d::ReduceOp& op, at::ScalarType type) {
  const bool is_opaque = type == ScalarType::Float8_e4m3fnuz ||
                         type == ScalarType::Float8_e5m2fnuz ||
                         type == ScalarType::Float8_e8m0fnu || type == ScalarType::ComplexHalf;
  if (is_opaque) refuse(call, name_of(type) + " can be moved, not reduced");
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM) return Reduction::premultiplied_sum(factor_of(op));
  const auto plain = plain_op(call, op);
  if (type == ScalarType::Bool) return of_bool(call, plain);
  const bool is_fraction = at::isFloatingType(type) || at::isComplexType(type);
  if (plain >= ReduceOp::bit_and && is_fraction)
    refuse(call, std::string(to_string(plain)) + " of " + name_of(type) +
                     ": bitwise reductions take integers and bool only");
  if (at::isComplexType(type) && plain != ReduceOp::sum && plain != ReduceOp::avg)
    refuse(call, std::string(to_string(plain)) + " of " + name_of(type) +
                     ": expected sum or avg, which complex numbers have");
  return plain;
}

}  // namespace ccoll::plugin

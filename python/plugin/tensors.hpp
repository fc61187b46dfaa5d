// SPDX-License-Identifier: Apache-2.0
#pragma once

/// torch's tensors as ccoll's blocks, and torch's reductions as ccoll's. Texts of errors are those
/// of python/ccoll/torch/_tensors.py.

#include <ATen/core/Tensor.h>
#include <ccoll/ccoll.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

namespace ccoll::plugin {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// Throws torch's ValueError.
[[noreturn]] void refuse(const char* call, const std::string& why);

/// "(2, 3)", "(2,)": as Python shows a shape.
std::string as_tuple(at::IntArrayRef numbers);
/// "[2, 3]"
std::string as_list(at::IntArrayRef numbers);

/// The tensors of one call. Their memory stays until the call is over, and outputs for which a copy
/// was written get their elements then.
class Arguments {
 public:
  /// `title`: "ccoll:" and the call's name; a literal.
  explicit Arguments(const char* title) : title_(title) {}

  /// The block that the call reads of a tensor: its elements in order. A copy unless they lie one
  /// after another, or in rows that are equally far apart.
  ConstBlock read(const Tensor& tensor);
  std::vector<ConstBlock> read(at::TensorList tensors);
  /// The block that the call writes in place of a tensor.
  Block write(const Tensor& tensor);
  std::vector<Block> write(at::TensorList tensors);
  /// The block that the call reads and writes.
  Block both(const Tensor& tensor);

  const char* title() const { return title_; }
  const char* call() const { return title_ + std::string_view("ccoll:").size(); }
  bool has_copies() const { return !copies_.empty(); }
  /// Where its tensors are; the CPU where there are none.
  at::Device device() const { return device_.value_or(at::kCPU); }
  /// Refuses a device other than that of the tensors so far.
  void place_on(at::Device device);
  const Tensors& outputs() const { return outputs_; }
  /// A result that the call does not write.
  void add_output(const Tensor& tensor) { outputs_.push_back(tensor); }
  /// Adds those of another call that is part of this one.
  void add(const Arguments& other);
  /// Puts results where they belong.
  void copy_back();
  /// The same once, at the end of a call that succeeded.
  void finish();

 private:
  Block write(const Tensor& tensor, bool with_contents);

  void check(const Tensor& tensor);

  const char* title_;
  std::optional<at::Device> device_;
  Tensors outputs_;
  Tensors inputs_;
  std::vector<std::pair<Tensor, Tensor>> copies_;  ///< a tensor, and what the call writes for it
};

/// The tensor of a call that takes a list of one.
const Tensor& only(const char* call, const Tensors& tensors);
/// The list of a call that takes a list of one list.
const Tensors& only(const char* call, const std::vector<Tensors>& lists);

void check_same_type(const char* call, const Tensor& one, at::TensorList others);
/// For calls on several pairs.
void check_pairs(const char* call, at::TensorList outputs, at::TensorList inputs);
void check_size(const char* call, const Tensor& tensor, std::int64_t expected,
                const std::string& why);
void check_one_for_each(const char* call, std::size_t count, int size);

/// Elements for each rank of `splits`, which count rows of dimension 0; none: equal ones.
std::vector<std::size_t> counts_of(const char* call, const Tensor& tensor,
                                   const std::vector<std::int64_t>& splits, int size);
/// Blocks of these many of torch's elements, one after another.
template <typename AnyBlock>
std::vector<AnyBlock> cut(const AnyBlock& whole, const Tensor& tensor,
                          const std::vector<std::size_t>& counts);

Reduction reduction_of(const char* call, const c10d::ReduceOp& op, at::ScalarType type);

template <typename AnyBlock>
std::vector<AnyBlock> cut(const AnyBlock& whole, const Tensor& tensor,
                          const std::vector<std::size_t>& counts) {
  const std::size_t parts =
      tensor.numel() == 0 ? 1 : whole.count / static_cast<std::size_t>(tensor.numel());
  auto at = reinterpret_cast<std::uintptr_t>(whole.data);
  std::vector<AnyBlock> blocks;
  for (const auto count : counts) {
    blocks.emplace_back(reinterpret_cast<void*>(at), count * parts, whole.type);
    at += count * parts * size_of(whole.type);
  }
  return blocks;
}

}  // namespace ccoll::plugin

// SPDX-License-Identifier: Apache-2.0
#include "engine/describe.hpp"

#include <fmt/format.h>

#include "ccoll/types.hpp"
#include "schedule/problem.hpp"

namespace ccoll {
namespace {

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

bool rooted(Kind kind) {
  return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather ||
         kind == Kind::scatter;
}

std::string reduction_text(const Signature& signature) {
  switch (signature.op) {
    case kPremultipliedSum:
      return "premultiplied_sum";
    case kCustom:
    case kOrderedCustom:
      return fmt::format("a custom reduction{} (name and root {:08x})",
                         signature.op == kCustom ? "" : " in rank order", signature.root);
    default:
      return std::string(to_string(static_cast<ReduceOp>(signature.op)));
  }
}

}  // namespace

std::string describe(const Signature& signature) {
  if (signature.kind == kSplit) return "split";
  if (signature.kind == kSubgroup) return "subgroup";
  if (signature.kind == kMesh) return "mesh";
  const auto kind = static_cast<Kind>(signature.kind);
  if (kind == Kind::barrier) return "barrier";
  const auto type = to_string(static_cast<DataType>(signature.type));
  std::string text = fmt::format("{} of {} {}", to_string(kind), signature.count, type);
  const bool is_custom = signature.op == kCustom || signature.op == kOrderedCustom;
  if (reduces(kind)) text += fmt::format(", {}", reduction_text(signature));
  if (rooted(kind) && !is_custom) text += fmt::format(", root {}", signature.root);
  return text;
}

std::string describe_mismatch(std::uint32_t rank, const Signature& mine, std::uint64_t my_sequence,
                              std::uint32_t peer, const Signature& theirs,
                              std::uint64_t their_sequence) {
  auto my_call = describe(mine), their_call = describe(theirs);
  if (my_call == their_call && my_sequence == their_sequence) {
    my_call += fmt::format(" by {}", to_string(static_cast<Algorithm>(mine.algorithm)));
    their_call += fmt::format(" by {}", to_string(static_cast<Algorithm>(theirs.algorithm)));
  }
  return fmt::format("ranks call different things: rank {} {} (call {}), rank {} {} (call {})",
                     rank, my_call, my_sequence, peer, their_call, their_sequence);
}

}  // namespace ccoll

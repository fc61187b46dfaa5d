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

bool is_custom(const Signature& signature) {
  return signature.op == kCustom || signature.op == kOrderedCustom;
}

std::string reduction_text(const Signature& signature) {
  if (signature.op == kPremultipliedSum) return "premultiplied_sum";
  if (signature.op == kCustom) return "a custom reduction";
  if (signature.op == kOrderedCustom) return "a custom reduction in rank order";
  return std::string(to_string(static_cast<ReduceOp>(signature.op)));
}

/// The calls that serve others.
std::string_view helper_name(std::uint8_t kind) {
  switch (kind) {
    case kSplit:
      return "split";
    case kSubgroup:
      return "subgroup";
    case kMesh:
      return "mesh";
    case kBytes:
      return "an exchange of byte strings";
    default:
      return {};
  }
}

}  // namespace

std::string describe(const Signature& signature) {
  if (const auto name = helper_name(signature.kind); !name.empty()) return std::string(name);
  const bool ragged = signature.kind & kRagged, coalesced = signature.kind & kCoalesced;
  const auto kind = static_cast<Kind>(signature.kind & ~(kRagged | kCoalesced));
  if (kind == Kind::barrier) return "barrier";
  const bool custom = reduces(kind) && is_custom(signature);
  const bool sizes = coalesced || (ragged && !sizes_are_private(kind));
  std::string text(to_string(kind));
  if (ragged) text += "_v";
  text += " of ";
  if (coalesced) text += "several buffers, together ";
  if (!ragged || sizes) text += fmt::format("{} ", signature.count);
  text += to_string(static_cast<DataType>(signature.type));
  if (reduces(kind)) text += fmt::format(", {}", reduction_text(signature));
  if (custom || sizes)
    text += fmt::format(" ({}{} {:08x})", sizes ? "sizes" : "name",
                        custom && sizes ? ", name and root" : " and root", signature.root);
  else if (rooted(kind))
    text += fmt::format(", root {}", signature.root);
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

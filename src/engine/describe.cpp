// SPDX-License-Identifier: Apache-2.0
#include "engine/describe.hpp"

#include <fmt/format.h>

#include "ccoll/types.hpp"
#include "core/text.hpp"
#include "schedule/problem.hpp"

namespace ccoll {
namespace {

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

/// What a signature holds as a hash only: "the sizes", "the sizes or the roots".
std::string hashed_parts(const Signature& signature) {
  std::vector<std::string_view> parts;
  if (!helper_name(signature.kind).empty()) return {};
  const auto kind = static_cast<Kind>(signature.kind & ~(kRagged | kCoalesced));
  if (signature.kind & (kRagged | kCoalesced)) parts.emplace_back("the sizes");
  if (reduces(kind) && is_custom(signature)) parts.emplace_back("the names of the reductions");
  if (rooted(kind)) parts.emplace_back("the roots");
  return joined(parts, " or ");
}

}  // namespace

bool has_private_sizes(const Signature& signature) {
  return helper_name(signature.kind).empty() && (signature.kind & kRagged) != 0 &&
         sizes_are_private(static_cast<Kind>(signature.kind & ~kRagged));
}

CallWords words_of(const Signature& signature) {
  CallWords words;
  words.kind = helper_name(signature.kind);
  if (!words.kind.empty()) return words;
  const auto kind = static_cast<Kind>(signature.kind & ~(kRagged | kCoalesced));
  words.kind = to_string(kind);
  if (signature.kind & kRagged) words.kind += "_v";
  if (kind == Kind::barrier) return words;
  words.type = to_string(static_cast<DataType>(signature.type));
  if (reduces(kind)) words.op = reduction_text(signature);
  if (rooted(kind) && hashed_parts(signature) == "the roots") words.root = signature.root;
  return words;
}

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
  if (rooted(kind) && !custom && !sizes) text += fmt::format(", root {}", signature.root);
  return text;
}

std::string describe_mismatch(std::uint32_t rank, const Signature& mine, std::uint64_t my_sequence,
                              std::uint32_t peer, const Signature& theirs,
                              std::uint64_t their_sequence) {
  auto my_call = describe(mine), their_call = describe(theirs);
  std::string why;
  if (my_call == their_call && my_sequence == their_sequence) {
    if (mine.root != theirs.root) {
      why = fmt::format("; {} differ", hashed_parts(mine));
    } else {
      my_call += fmt::format(" by {}", to_string(static_cast<Algorithm>(mine.algorithm)));
      their_call += fmt::format(" by {}", to_string(static_cast<Algorithm>(theirs.algorithm)));
    }
  }
  const bool mine_is_older = my_sequence < their_sequence;
  const auto& older = mine_is_older ? mine : theirs;
  if (my_sequence != their_sequence && has_private_sizes(older))
    why = fmt::format("; perhaps rank {} expects elements where rank {} has a count of 0 for it",
                      mine_is_older ? rank : peer, mine_is_older ? peer : rank);
  return fmt::format("ranks call different things: rank {} {} (call {}), rank {} {} (call {}){}",
                     rank, my_call, my_sequence, peer, their_call, their_sequence, why);
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "engine/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ccoll/types.hpp"
#include "core/printable.hpp"
#include "core/text.hpp"
#include "schedule/problem.hpp"

namespace ccoll {
namespace {

bool rooted(Kind kind) {
  return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather ||
         kind == Kind::scatter;
}

/// Separates the two parts of a note; a label, which is text, does not contain it.
constexpr char kBetween = '\0';

bool is_custom(const Signature& signature) {
  return signature.op == kCustom || signature.op == kOrderedCustom;
}

std::string reduction_text(const Signature& signature) {
  if (signature.op == kPremultipliedSum) return "premultiplied_sum";
  if (signature.op == kCustom) return "a custom reduction";
  if (signature.op == kOrderedCustom) return "a custom reduction in rank order";
  return std::string(to_string(static_cast<ReduceOp>(signature.op)));
}

/// Names of the calls that serve other calls.
std::string_view helper_name(std::uint8_t kind) {
  switch (kind) {
    case kSplit:
      return "split";
    case kSubgroup:
      return "subgroup";
    case kMesh:
      return "mesh";
    case kDeviceWay:
      return "device_way";
    case kBroadcastBytes:
      return "broadcast_bytes";
    case kAllGatherBytes:
      return "all_gather_bytes";
    case kGatherBytes:
      return "gather_bytes";
    default:
      return {};
  }
}

bool is_rooted_helper(std::uint8_t kind) { return kind == kBroadcastBytes || kind == kGatherBytes; }

/// Whether a signature's root is mixed with a hash of the sizes. Private sizes are not hashed.
bool hashes_sizes(const Signature& signature) {
  if (signature.kind & kCoalesced) return true;
  return (signature.kind & kRagged) != 0 &&
         !sizes_are_private(static_cast<Kind>(signature.kind & ~kRagged));
}

/// The parts of a call that its signature only hashes: "the sizes", "the sizes or the roots".
std::string hashed_parts(const Signature& signature) {
  std::vector<std::string_view> parts;
  if (!helper_name(signature.kind).empty()) return {};
  const auto kind = static_cast<Kind>(signature.kind & ~(kRagged | kCoalesced));
  if (hashes_sizes(signature)) parts.emplace_back("the sizes");
  if (reduces(kind) && is_custom(signature)) parts.emplace_back("the names of the reductions");
  if (rooted(kind)) parts.emplace_back("the roots");
  return joined(parts, " or ");
}

}  // namespace

bool serves_others(std::uint8_t kind) { return !helper_name(kind).empty(); }

bool has_private_sizes(const Signature& signature) {
  return helper_name(signature.kind).empty() && (signature.kind & kRagged) != 0 &&
         sizes_are_private(static_cast<Kind>(signature.kind & ~kRagged));
}

CallWords words_of(const Signature& signature) {
  CallWords words;
  words.kind = helper_name(signature.kind);
  if (is_rooted_helper(signature.kind)) words.root = signature.root;
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
  if (const auto name = helper_name(signature.kind); !name.empty())
    return is_rooted_helper(signature.kind) ? fmt::format("{}, root {}", name, signature.root)
                                            : std::string(name);
  const bool ragged = signature.kind & kRagged, coalesced = signature.kind & kCoalesced;
  const auto kind = static_cast<Kind>(signature.kind & ~(kRagged | kCoalesced));
  if (kind == Kind::barrier) return "barrier";
  const bool custom = reduces(kind) && is_custom(signature);
  const bool sizes = hashes_sizes(signature);
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

std::string shown_label(std::string_view label) {
  constexpr std::size_t kMost = 100;
  const auto shown = printable(label, kMost);
  return shown.whole ? shown.text : shown.text + "...";
}

std::string quoted_label(std::string_view label) {
  return fmt::format("\"{}\"", shown_label(label));
}

std::string label_behind(std::string_view label) {
  return label.empty() ? "" : ", " + quoted_label(label);
}

std::string note_of(std::string_view label, std::string_view reduction) {
  // A sent note is cut off at a limit: the name must leave room for the label.
  constexpr std::size_t kMostOfName = 256;
  if (reduction.empty()) return std::string(label);
  auto note = std::string(reduction.substr(0, kMostOfName));
  std::ranges::replace(note, kBetween, ' ');
  return note + kBetween + std::string(label);
}

std::string_view label_in(std::string_view note) {
  const auto between = note.find(kBetween);
  return between == note.npos ? note : note.substr(between + 1);
}

std::string_view reduction_in(std::string_view note) {
  const auto between = note.find(kBetween);
  return between == note.npos ? std::string_view{} : note.substr(0, between);
}

std::string describe_mismatch(const MadeCall& mine, const MadeCall& theirs) {
  auto my_call = describe(mine.signature), their_call = describe(theirs.signature);
  std::string why;
  if (my_call == their_call && mine.sequence == theirs.sequence) {
    if (mine.signature.root != theirs.signature.root) {
      why = fmt::format("; {} differ", hashed_parts(mine.signature));
    } else {
      const auto by = [](const MadeCall& call) {
        return fmt::format(" by {}", to_string(static_cast<Algorithm>(call.signature.algorithm)));
      };
      my_call += by(mine);
      their_call += by(theirs);
    }
  }
  const bool mine_is_older = mine.sequence < theirs.sequence;
  const auto& [older, newer] = mine_is_older ? std::tie(mine, theirs) : std::tie(theirs, mine);
  if (mine.sequence != theirs.sequence && has_private_sizes(older.signature))
    why = fmt::format("; perhaps rank {} expects elements where rank {} has a count of 0 for it",
                      older.rank, newer.rank);
  const auto side = [](const MadeCall& call, std::string_view words) {
    const auto reduction = reduction_in(call.note);
    return fmt::format("rank {} {}{} (call {}{})", call.rank, words,
                       reduction.empty() ? "" : fmt::format(" '{}'", shown_label(reduction)),
                       call.sequence, label_behind(label_in(call.note)));
  };
  return fmt::format("ranks call different things: {}, {}{}", side(mine, my_call),
                     side(theirs, their_call), why);
}

std::string describe_counts(const MadeCall& theirs, std::uint64_t sent, std::uint32_t to,
                            std::uint64_t expected) {
  return fmt::format(
      "{} (call {}): rank {} sends {} elements to rank {}, which expects {}: their counts for each "
      "other differ",
      describe(theirs.signature), theirs.sequence, theirs.rank, sent, to, expected);
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "engine/describe.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "ccoll/types.hpp"
#include "schedule/problem.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;

Signature signed_as(Kind kind, std::uint64_t count, DataType type, ReduceOp op = ReduceOp::sum,
                    std::uint32_t root = 0) {
  return {.count = count,
          .root = root,
          .kind = static_cast<std::uint8_t>(kind),
          .type = static_cast<std::uint8_t>(type),
          .op = static_cast<std::uint8_t>(op)};
}

Signature of_helper(std::uint8_t kind, std::uint32_t root) { return {.root = root, .kind = kind}; }

Signature with_flag(Signature signature, std::uint8_t flag) {
  signature.kind |= flag;
  return signature;
}

Signature with_reduction(Signature signature, std::uint8_t op) {
  signature.op = op;
  return signature;
}

/// Any call's signature, with all the fields that such a call uses.
Signature some_signature(std::mt19937_64& random) {
  const auto kind = static_cast<Kind>(random() % (static_cast<unsigned>(Kind::barrier) + 1));
  auto signature = signed_as(kind, random() % 100, kDataTypes[random() % std::size(kDataTypes)],
                             kReduceOps[random() % std::size(kReduceOps)],
                             static_cast<std::uint32_t>(random() % 100));
  if (kind == Kind::barrier) return signature;
  constexpr std::uint8_t kFlags[] = {0, kRagged, kCoalesced};
  signature.kind |= kFlags[random() % 3];
  constexpr std::uint8_t kReductions[] = {kPremultipliedSum, kCustom, kOrderedCustom};
  if (random() % 2 == 0) signature.op = kReductions[random() % 3];
  return signature;
}

/// Whether sizes or a reduction's name are mixed with the root.
bool has_hash(const Signature& signature) {
  const auto words = words_of(signature);
  return (signature.kind & kCoalesced) != 0 || words.op.starts_with("a custom") ||
         (words.kind.ends_with("_v") && !has_private_sizes(signature));
}

/// The two sides of a mismatch, and what is behind them.
struct Sides {
  std::string mine, theirs, why;
};
Sides sides_of(const std::string& text) {
  const std::string begin = "ranks call different things: rank 1 ", between = ", rank 0 ";
  REQUIRE(text.starts_with(begin));
  const auto middle = text.find(between);
  REQUIRE(middle != text.npos);
  const auto end = std::min(text.find(';'), text.size());
  return {text.substr(begin.size(), middle - begin.size()),
          text.substr(middle + between.size(), end - middle - between.size()), text.substr(end)};
}

}  // namespace

TEST_CASE("describe: a call's words have all that its signature says", "[engine][unit]") {
  const auto sum = signed_as(Kind::all_reduce, 10, DataType::float32);
  const auto rooted = signed_as(Kind::reduce, 10, DataType::int8, ReduceOp::max, 2);
  CHECK(describe(sum) == "all_reduce of 10 float32, sum");
  CHECK(describe(rooted) == "reduce of 10 int8, max, root 2");
  CHECK(describe(signed_as(Kind::all_gather, 3, DataType::float64)) == "all_gather of 3 float64");
  CHECK(describe(signed_as(Kind::barrier, 1, DataType::uint8)) == "barrier");

  // The root of a call is no number if sizes or names are mixed with it.
  CHECK(describe(with_flag(rooted, kCoalesced)) ==
        "reduce of several buffers, together 10 int8, max");
  CHECK(describe(with_reduction(rooted, kCustom)) == "reduce of 10 int8, a custom reduction");
  CHECK(describe(with_reduction(sum, kOrderedCustom)) ==
        "all_reduce of 10 float32, a custom reduction in rank order");
  CHECK(describe(with_reduction(rooted, kPremultipliedSum)) ==
        "reduce of 10 int8, premultiplied_sum, root 2");

  // There is no sum of sizes that only two ranks know.
  const auto gathered = signed_as(Kind::gather, 0, DataType::int16, ReduceOp::sum, 3);
  CHECK(describe(with_flag(gathered, kRagged)) == "gather_v of int16, root 3");
  CHECK(describe(with_flag(signed_as(Kind::all_gather, 30, DataType::int16), kRagged)) ==
        "all_gather_v of 30 int16");

  CHECK(describe(of_helper(kSplit, 0)) == "split");
  CHECK(describe(of_helper(kAllGatherBytes, 0)) == "all_gather_bytes");
  CHECK(describe(of_helper(kGatherBytes, 3)) == "gather_bytes, root 3");
}

TEST_CASE("describe: a call's single words are those of its text", "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; i++) {
    const auto signature = some_signature(random);
    const auto text = describe(signature);
    const auto words = words_of(signature);
    CAPTURE(seed, text);
    CHECK(text.starts_with(words.kind));
    CHECK_THAT(text, Contains(words.type) && Contains(words.op));
    const auto root = text.find(", root ");
    CHECK(words.root.has_value() == (root != text.npos));
    if (words.root) CHECK(text.substr(root) == fmt::format(", root {}", *words.root));
    CHECK_FALSE(serves_others(signature.kind));
  }
  for (const auto kind :
       {kSplit, kSubgroup, kMesh, kDeviceWay, kBroadcastBytes, kAllGatherBytes, kGatherBytes}) {
    const auto words = words_of(of_helper(kind, 3));
    CHECK(describe(of_helper(kind, 3)) == words.kind + (words.root ? ", root 3" : ""));
    CHECK(serves_others(kind));
    CHECK_FALSE(has_private_sizes(of_helper(kind, 3)));
  }
}

TEST_CASE("describe: a note keeps the label, and the beginning of the reduction's name",
          "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; i++) {
    const auto text = [&](std::size_t most) {
      std::string some(random() % most, ' ');
      for (auto& each : some) each = static_cast<char>(1 + random() % 255);
      return some;
    };
    const auto label = text(300), reduction = text(400);
    CAPTURE(seed, i);
    const auto note = note_of(label, reduction);
    CHECK(label_in(note) == label);
    CHECK(reduction_in(note) == reduction.substr(0, 256));
  }
  // The name may have any byte, and nothing of it becomes part of the label.
  const auto note = note_of("label", std::string_view("a\0b", 3));
  CHECK(reduction_in(note) == "a b");
  CHECK(label_in(note) == "label");
}

TEST_CASE("describe: a label is shown in quotes, printable and not too long", "[engine][unit]") {
  CHECK(quoted_label("gradients") == "\"gradients\"");
  CHECK(quoted_label("two\nlines") == "\"two\\nlines\"");
  CHECK(label_behind("loss") == ", \"loss\"");
  CHECK(label_behind("").empty());
  CHECK(shown_label(std::string(100, 'a')) == std::string(100, 'a'));
  CHECK(shown_label(std::string(101, 'a')) == std::string(100, 'a') + "...");
}

TEST_CASE("describe: both sides of a mismatch have their words, numbers and labels",
          "[engine][unit]") {
  const MadeCall mine{1, 5, signed_as(Kind::all_reduce, 12, DataType::float32),
                      note_of("gradients", "")};
  const MadeCall theirs{0, 6, signed_as(Kind::barrier, 1, DataType::uint8)};
  CHECK(describe_mismatch(mine, theirs) ==
        "ranks call different things: rank 1 all_reduce of 12 float32, sum (call 5, "
        "\"gradients\"), rank 0 barrier (call 6)");
  auto custom = mine;
  custom.signature.op = kCustom;
  custom.note = note_of("gradients", "clip\n");
  CHECK_THAT(describe_mismatch(custom, theirs),
             Contains("a custom reduction 'clip\\n' (call 5, \"gradients\")"));
}

TEST_CASE("describe: a mismatch says why if the two sides sound alike", "[engine][unit]") {
  const auto why = [](Signature signature) {
    auto other = signature;
    other.root ^= 1;
    return sides_of(describe_mismatch({1, 5, signature}, {0, 5, other})).why;
  };
  const auto sum = signed_as(Kind::all_reduce, 12, DataType::float32);
  const auto rooted = signed_as(Kind::reduce, 12, DataType::float32);
  CHECK(why(with_reduction(sum, kCustom)) == "; the names of the reductions differ");
  CHECK(why(with_flag(sum, kCoalesced)) == "; the sizes differ");
  CHECK(why(with_flag(with_reduction(sum, kCustom), kCoalesced)) ==
        "; the sizes or the names of the reductions differ");
  CHECK(why(with_flag(rooted, kCoalesced)) == "; the sizes or the roots differ");
  CHECK(why(with_reduction(rooted, kCustom)) ==
        "; the names of the reductions or the roots differ");
  CHECK(why(rooted).empty());
}

TEST_CASE("describe: whatever two calls differ in, a mismatch shows a difference",
          "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 5000; i++) {
    const auto signature = some_signature(random);
    auto other = signature;
    const auto words = words_of(signature);
    const auto text = describe(signature);
    switch (random() % 5) {
      case 0:
        other.algorithm ^= 1;
        break;
      case 1:
        // Calls without a sum of elements in their text have none in the signature.
        if (text.find(fmt::format(" {} ", signature.count)) == text.npos) continue;
        other.count++;
        break;
      case 2:
        if (words.type.empty()) continue;
        other.type =
            static_cast<std::uint8_t>(words.type == "int8" ? DataType::uint8 : DataType::int8);
        break;
      case 3:
        if (words.op.empty()) continue;
        other.op = static_cast<std::uint8_t>(words.op == "sum" ? ReduceOp::max : ReduceOp::sum);
        break;
      default:
        if (!words.root && !has_hash(signature)) continue;
        other.root ^= 1;
    }
    const auto error = describe_mismatch({1, 5, signature}, {0, 5, other});
    CAPTURE(seed, i, error);
    const auto [mine, theirs, why] = sides_of(error);
    CHECK((mine != theirs || why.ends_with("s differ")));
  }
}

TEST_CASE("describe: a call behind one with private sizes may be the other side of a count of 0",
          "[engine][unit]") {
  const auto exchange = with_flag(signed_as(Kind::all_to_all, 0, DataType::int8), kRagged);
  const auto sum = signed_as(Kind::all_reduce, 12, DataType::float32);
  REQUIRE(has_private_sizes(exchange));
  const std::string why = "; perhaps rank 3 expects elements where rank 4 has a count of 0 for it";
  CHECK_THAT(describe_mismatch({3, 5, exchange}, {4, 6, sum}), Catch::Matchers::EndsWith(why));
  CHECK_THAT(describe_mismatch({4, 6, sum}, {3, 5, exchange}), Catch::Matchers::EndsWith(why));
  // The later call's sizes explain nothing.
  CHECK_THAT(describe_mismatch({3, 7, exchange}, {4, 6, sum}), !Contains("perhaps"));
  CHECK_THAT(describe_mismatch({3, 5, exchange}, {4, 5, sum}), !Contains("perhaps"));
}

TEST_CASE("describe: counts that differ name both ranks and both counts", "[engine][unit]") {
  const auto exchange = with_flag(signed_as(Kind::all_to_all, 0, DataType::float32), kRagged);
  CHECK(describe_counts({1, 5, exchange}, 2, 0, 7) ==
        "all_to_all_v of float32 (call 5): rank 1 sends 2 elements to rank 0, which expects 7: "
        "their counts for each other differ");
}

}  // namespace ccoll::test

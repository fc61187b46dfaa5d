// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A call in words, for errors: "all_reduce of 10 float32, sum".

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/signature.hpp"

namespace ccoll {

std::string describe(const Signature& signature);

/// A call's parts in words; empty if the call has no such part, or its signature only hashes it.
struct CallWords {
  std::string kind;  ///< "all_reduce", "all_gather_v"
  std::string type;
  std::string op;
  std::optional<std::uint32_t> root;
};
CallWords words_of(const Signature& signature);

/// Whether a signature's `kind` is that of a call that serves others, such as split's.
bool serves_others(std::uint8_t kind);

/// Whether only the two ranks of each pair know their sizes for each other.
bool has_private_sizes(const Signature& signature);

/// A call that a rank has made.
struct MadeCall {
  std::uint32_t rank = 0;
  std::uint64_t sequence = 0;
  Signature signature;
  std::string note = {};  ///< from note_of(); empty if there is none, or it is unknown
};
/// The note of a call: the parts that its signature cannot hold, as stored and sent. These are the
/// caller's label and the name of a custom reduction; either may be empty.
std::string note_of(std::string_view label, std::string_view reduction);
std::string_view label_in(std::string_view note);
std::string_view reduction_in(std::string_view note);

/// A label, or a communicator's name, as errors and dumps show it: anything but printable UTF-8 is
/// escaped ("\n", "\x1b"), and a long text is cut off.
std::string shown_label(std::string_view label);
/// "\"gradients\"".
std::string quoted_label(std::string_view label);
/// ", \"gradients\"", after other words about the call; empty if there is no label.
std::string label_behind(std::string_view label);
/// "ranks call different things: rank 1 all_reduce of 12 float32, sum (call 5, "gradients"), rank 0
/// …".
std::string describe_mismatch(const MadeCall& mine, const MadeCall& theirs);
/// "all_to_all_v of float32 (call 5): rank 1 sends 2 elements to rank 0, which expects 0: …".
std::string describe_counts(const MadeCall& theirs, std::uint64_t sent, std::uint32_t to,
                            std::uint64_t expected);

}  // namespace ccoll

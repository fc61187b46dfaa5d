// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Blocking collectives that may be made again with other buffers.

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "comm/call/call.hpp"
#include "comm/collectives/collective_operation.hpp"

namespace ccoll {

/// Remembers the last operations, one for each of a few hashes of calls, with the sizes of their
/// buffers. A look-up is part of the shortest way of a call: it allocates and locks nothing. Used
/// by the holder of the owner flag.
class Repeats {
 public:
  using Pointer = std::shared_ptr<CollectiveOperation>;

  struct Found {
    const Pointer* operation = nullptr;  ///< null: the call has to be made the general way
    bool in_place = false;
  };

  /// The operation takes the place of another one with the same hash.
  void remember(const PlainCall& call, std::size_t input_bytes, std::size_t output_bytes,
                Pointer operation) {
    at(call) = {call, input_bytes, output_bytes, std::move(operation)};
  }
  /// The operation of a remembered call that differs from `call` only in its buffers, whose
  /// conditions the buffers of `call` meet, too.
  Found find(const PlainCall& call) const {
    const auto& last = repeatables_[call.hash() % kRepeatables];
    const bool in_place =
        call.input == call.output && last.input_bytes > 0 && last.output_bytes > 0;
    if (!last.operation || !call.is_like(last.call) || !fits(last, call, in_place)) return {};
    return {&last.operation, in_place};
  }

 private:
  struct Repeatable {
    PlainCall call;
    std::size_t input_bytes = 0;
    std::size_t output_bytes = 0;
    Pointer operation;
  };
  static constexpr std::size_t kRepeatables = 64;

  Repeatable& at(const PlainCall& call) { return repeatables_[call.hash() % kRepeatables]; }
  static bool fits(const Repeatable& last, const PlainCall& call, bool in_place) {
    if (call.input == nullptr && last.input_bytes > 0) return false;
    if (call.output == nullptr && last.output_bytes > 0) return false;
    // In the other kinds, a rank's own block lies elsewhere in the input than in the output.
    if (in_place) return divides_whole_buffer(call.kind);
    return apart(call.input, last.input_bytes, call.output, last.output_bytes);
  }

  std::array<Repeatable, kRepeatables> repeatables_;  ///< by PlainCall::hash()
};

}  // namespace ccoll

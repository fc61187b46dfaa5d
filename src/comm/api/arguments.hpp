// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is wrong with a call's arguments, found before anything is sent.

#include "comm/api/implementation.hpp"
#include "core/result.hpp"

namespace ccoll {

/// Whether a call has any of its own.
inline bool has_options(const CallOptions& options) {
  return options.timeout.count() != 0 || !options.algorithm.empty() || !options.label.empty() ||
         options.stream.has_value();
}

/// Whether two pieces of memory share nothing.
inline bool apart(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(a);
  const auto other = reinterpret_cast<std::uintptr_t>(b);
  return begin + a_bytes <= other || other + b_bytes <= begin;
}

/// That it is one of them: a cast can make any number.
Status check_type(std::string_view call, DataType type);
/// That it is a rank; as it was given, it may be negative.
Status check_root(std::string_view call, Rank root, Rank size);
/// That it is 0, for the communicator's own, or more.
Status check_timeout(std::string_view call, std::chrono::milliseconds timeout);

/// A failure for calls that cannot take place in a stream, where one is given.
Status refuse_in_stream(std::string_view call, const CallOptions& options);

/// What a call cannot be, whatever its buffers: its root, type, reduction and count.
Status check_values(const Call& call, Rank size);
/// The same; no null buffer where one is used, and buffers that are apart or the same as the
/// operation allows. Says whether input and output share memory.
Result<bool> check_arguments(const Call& call, Rank rank, Rank size);
/// An algorithm that was asked for must combine in the order that the reduction needs.
Status check_order(const Call& call, Rank size, bool deterministic);

/// A collective by its name: "all_gather", "all_gather_v".
struct Collective {
  Kind kind = Kind::all_reduce;
  bool ragged = false;
};
Result<Collective> collective_named(std::string_view name);

/// The algorithm that a call option names, if it names one.
Result<std::optional<Algorithm>> algorithm_named(std::string_view name, Collective collective);

}  // namespace ccoll

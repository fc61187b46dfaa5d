// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Checks of a call's arguments, before anything is sent.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ccoll/communicator.hpp"
#include "comm/call/call.hpp"
#include "core/result.hpp"

namespace ccoll {

/// Whether a call has any options of its own.
inline bool has_options(const CallOptions& options) {
  return options.timeout.count() != 0 || !options.algorithm.empty() || !options.label.empty() ||
         options.stream.has_value();
}

/// Fails unless it is a DataType: a cast can make any number.
Status check_type(std::string_view call, DataType type);
/// "broadcast: root 9 is not one of 2 ranks: expected 0 to 1".
std::string no_such_rank(std::string_view subject, std::int64_t rank, Rank size);
/// Fails unless it is a rank; the number may have been negative when it was given.
Status check_root(std::string_view call, Rank root, Rank size);
/// Fails unless it is 0, for the communicator's own limit, or more.
Status check_timeout(std::string_view call, std::chrono::milliseconds timeout);

/// Fails if a stream is given, for calls that cannot take place in one.
Status refuse_in_stream(std::string_view call, const CallOptions& options);

/// Checks the root, type, reduction and count, whatever the buffers.
Status check_values(const Call& call, Rank size);
/// The same; also fails if a used buffer is null, or if buffers overlap in a way that the operation
/// does not allow. Sets whether input and output share memory.
Status check_arguments(Call& call, Rank rank, Rank size);
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

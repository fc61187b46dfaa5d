// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Failures as values. All code inside ccoll returns Result<T>; only the public API throws.

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

// Nobody may ignore one. The library does not say so; a declaration before its own can.
namespace tl {
template <typename T, typename E>
class [[nodiscard]] expected;
}  // namespace tl
#include <tl/expected.hpp>

#include "ccoll/types.hpp"

namespace ccoll {

struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  /// The rank at fault, or the one that a call waited for, if known. It is a rank of the job;
  /// towards the caller it is a rank of the communicator.
  std::optional<std::uint32_t> culprit;
  friend bool operator==(const Failure&, const Failure&) = default;
};

template <typename T>
using Result = tl::expected<T, Failure>;
using Status = Result<void>;

/// `return fail(ErrorKind::timed_out, "no store at {} after {} s", address, seconds);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Failure> fail(ErrorKind kind, fmt::format_string<Args...> format,
                                           Args&&... args) {
  return tl::unexpected<Failure>(
      Failure{kind, fmt::format(format, std::forward<Args>(args)...), std::nullopt});
}

inline Error error_of(const Failure& failure) {
  return {failure.kind, failure.message, failure.culprit ? static_cast<int>(*failure.culprit) : -1};
}

[[noreturn]] inline void raise(const Failure& failure) { throw error_of(failure); }

/// The value; a failure is thrown as ccoll::Error. This is the edge to the public API.
template <typename T>
T value_or_throw(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// The failure for an exception from other code: out of memory or descriptors is `exhausted`,
/// ccoll's own errors keep their kind, all else is `internal`.
Failure failure_of(const std::exception_ptr& thrown);

/// The Result or Status that `step` returns, or the failure for what it throws.
template <typename Step>
auto caught(Step step) -> decltype(step()) {
  try {
    return step();
  } catch (...) {
    return tl::unexpected(failure_of(std::current_exception()));
  }
}

[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& operands);

}  // namespace ccoll

/// Returns a failure of `expression` (a Result or Status) to the caller.
#define CCOLL_TRY(expression)                                                   \
  do {                                                                          \
    if (auto ccoll_status = (expression); !ccoll_status)                        \
      return tl::unexpected<::ccoll::Failure>(std::move(ccoll_status.error())); \
  } while (false)

/// A condition that only a defect of ccoll can break; always checked. Prints further arguments.
#define CCOLL_CHECK(condition, ...)                                                       \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::ccoll::check_failed(#condition, __FILE__, __LINE__, fmt::format("" __VA_ARGS__)); \
  } while (false)

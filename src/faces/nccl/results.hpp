// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Failures as NCCL's codes, and the text for ncclGetLastError.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "ccoll/types.hpp"
#include "faces/nccl/abi.hpp"

namespace ccoll::nccl {

/// Thrown if a call cannot do what it is asked.
struct Refusal {
  ncclResult_t code;
  std::string text;
};

template <typename... Args>
[[noreturn]] void refuse(ncclResult_t code, fmt::format_string<Args...> text, Args&&... args) {
  throw Refusal{code, fmt::format(text, std::forward<Args>(args)...)};
}

/// Marks the reason with which a rank aborts a communicator because of a mismatch, so that other
/// ranks report the mismatch and not an abort.
inline constexpr std::string_view kMismatchMark = "[ncclInvalidUsage]";

/// The code of an error of that kind with that text.
ncclResult_t code_of(ErrorKind kind, std::string_view text);

/// Turns the exception under way into a refusal for the caller. Only a handler calls it.
Refusal refusal_of_exception();

/// Keeps the text for ncclGetLastError, as this thread's and the process's last.
ncclResult_t note(ncclResult_t code, std::string_view text) noexcept;
/// The same for the exception under way, with `function` before it.
ncclResult_t note_exception(std::string_view function) noexcept;

/// Runs the body of a function of the face. No exception leaves it.
template <typename Function>
ncclResult_t guarded(std::string_view function, Function&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return note_exception(function);
  }
}

/// The object behind a pointer; refuses NULL.
template <typename T>
T& given(T* pointer, std::string_view name) {
  if (pointer == nullptr) refuse(ncclInvalidArgument, "{} is NULL", name);
  return *pointer;
}

}  // namespace ccoll::nccl

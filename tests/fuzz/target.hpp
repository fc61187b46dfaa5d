// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A fuzz target is a function of untrusted bytes. It may refuse them but must return, and what it
/// accepts must be a possible message of its own side. libFuzzer calls it where clang's runtime
/// exists (tools/fuzz); elsewhere replay.cpp does, with the corpus.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ccoll::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the process unless `holds`: the fuzzer then keeps the input.
inline void require(bool holds, const char* what,
                    const std::source_location& where = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: not so: %s\n", where.file_name(), where.line(), what);
  std::abort();
}

/// Reading, writing and reading again gives the same value and the same bytes.
template <typename Parse, typename Print>
void require_round_trip(std::string_view bytes, Parse parse, Print print) {
  const auto value = parse(bytes);
  if (!value) return;
  const auto printed = print(*value);
  const auto again = parse(printed);
  require(static_cast<bool>(again), "what was accepted is accepted again once printed");
  require(*again == *value, "what was printed is the same value");
  require(print(*again) == printed, "what was printed is printed alike");
}

}  // namespace ccoll::fuzz

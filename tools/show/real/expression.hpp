// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Expressions for element i of rank r's input, as users write them: "10*r+i".

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace ccoll::show {

/// The value of `text` for that rank, element and number of ranks: numbers, r, i, n, + - * / %,
/// parentheses and blanks, with the usual precedence. Fails with the column and what was expected
/// there.
Result<double> evaluate(std::string_view text, std::uint64_t r, std::uint64_t i, std::uint64_t n);

}  // namespace ccoll::show

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Errors of a schedule in words for learners: which element is wrong and why, or which ranks wait
/// for each other. Empty if all is right.

#include <cstddef>
#include <string>

#include "show/model/picture.hpp"

namespace ccoll::show {

std::string explanation(const Picture& picture, std::size_t width);

/// Whether every result would be right if all elements of all ranks were equal: a test with such an
/// input finds nothing.
bool hides_in_equal_inputs(const Rounds& rounds);

}  // namespace ccoll::show

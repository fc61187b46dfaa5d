// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The files of page/, embedded by the build: the same for every page.

#include <string_view>
#include <vector>

namespace ccoll::show {

extern const std::vector<std::string_view> kPageFrame;  ///< page.html with @NAMES@ to fill in
extern const std::vector<std::string_view> kPageStyle;
/// The lesson of a run (page.hpp), by operation and algorithm.
extern const std::vector<std::string_view> kPageLessons;
extern const std::vector<std::string_view> kPageScript;

}  // namespace ccoll::show

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The files of page/, as the build has them: what is the same for every page.

#include <string_view>
#include <vector>

namespace ccoll::show {

extern const std::vector<std::string_view> kPageFrame;  ///< page.html, with @NAMES@ to be filled in
extern const std::vector<std::string_view> kPageStyle;
/// By operation and algorithm: a run's lesson (page.hpp).
extern const std::vector<std::string_view> kPageLessons;
extern const std::vector<std::string_view> kPageScript;

}  // namespace ccoll::show

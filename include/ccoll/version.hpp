// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The version of ccoll. Versions follow semver; before 1.0 a minor version may change the API, and
/// the shared library's soname changes with it. All ranks of a job must run the same minor version.

#include <string_view>

/// Marks the exports of the library. Everything else in it is hidden.
#define CCOLL_API __attribute__((visibility("default")))
/// Marks parts of an exported class that are ccoll's own.
#define CCOLL_HIDDEN __attribute__((visibility("hidden")))

namespace ccoll {

/// "0.1.0": the version of the library that is linked.
CCOLL_API std::string_view version();

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which ccoll this is. Versions follow semver; before 1.0 a minor version may change the API, and
/// the shared library's soname changes with it. All ranks of a job must run the same minor version.

#include <string_view>

/// What the library exports. Everything else in it is hidden.
#define CCOLL_API __attribute__((visibility("default")))
/// For what lies within an exported class and is ccoll's own.
#define CCOLL_HIDDEN __attribute__((visibility("hidden")))

namespace ccoll {

/// "0.1.0": the version of the library that is linked.
CCOLL_API std::string_view version();

}  // namespace ccoll

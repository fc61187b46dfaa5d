// SPDX-License-Identifier: Apache-2.0
#pragma once

/// For tests that are separate programs because they fork, exit or limit their process.

#include <iostream>
#include <string>

namespace ccoll::testing {

/// The number of failed checks; the program's exit status.
inline int failures = 0;

inline void check(bool condition, const std::string& what) {
  if (condition) return;
  std::cout << "failed: " << what << std::endl;
  failures++;
}

}  // namespace ccoll::testing

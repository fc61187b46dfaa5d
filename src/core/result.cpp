// SPDX-License-Identifier: Apache-2.0
#include "core/result.hpp"

#include <cstdio>
#include <cstdlib>

namespace ccoll {

void check_failed(const char* expression, const char* file, int line, const std::string& operands) {
  std::fprintf(stderr, "ccoll: %s:%d: check failed: %s%s%s\n", file, line, expression,
               operands.empty() ? "" : ": ", operands.c_str());
  std::abort();
}

}  // namespace ccoll

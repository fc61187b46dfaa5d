// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/describe.hpp"

namespace ccoll {

/// Two calls that differ, and how that was found. The peer is asked for its label.
struct DifferentCalls {
  MadeCall mine;
  MadeCall theirs;
  std::string found;
  std::string text() const;
};

}  // namespace ccoll

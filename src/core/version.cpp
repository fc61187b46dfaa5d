// SPDX-License-Identifier: Apache-2.0
#include "ccoll/version.hpp"

namespace ccoll {

std::string_view version() { return CCOLL_VERSION; }

}  // namespace ccoll

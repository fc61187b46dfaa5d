// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>

#include "support/ranks.hpp"
#include "usable_transports.hpp"

namespace ccoll::testing {

/// Runs body(communicator) on `size` ranks over each transport in turn; the body throws on errors.
inline void on_all_transports(int size, const std::function<void(Communicator&)>& body,
                              CommunicatorOptions options = {}) {
  for (const auto& kind : testing::usable_transports()) {
    options.transport = kind.name;
    options.timeout = std::chrono::seconds(30);
    const auto errors = run_ranks(size, options, body);
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
  }
}

}  // namespace ccoll::testing

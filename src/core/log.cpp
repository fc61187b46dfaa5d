// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

namespace ccoll {

spdlog::logger& log() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("ccoll",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%n: %l: %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *logger;
}

}  // namespace ccoll

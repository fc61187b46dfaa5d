// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What ccoll's log says.

#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "core/file_descriptor.hpp"

namespace ccoll::testing {

/// All that this process writes to standard error while `body` runs; also where that throws, it
/// writes to the former one afterwards.
inline std::string logged(const std::function<void()>& body) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::tmpfile(), std::fclose);
  {
    const struct Instead {
      FileDescriptor before = FileDescriptor(dup(STDERR_FILENO));
      explicit Instead(int with) { dup2(with, STDERR_FILENO); }
      ~Instead() {
        std::fflush(stderr);
        dup2(before.number(), STDERR_FILENO);
      }
    } instead(fileno(file.get()));
    body();
  }
  std::rewind(file.get());
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

}  // namespace ccoll::testing

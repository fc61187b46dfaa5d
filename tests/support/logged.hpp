// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Captures ccoll's log.

#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "system/file_descriptor.hpp"

namespace ccoll::testing {

/// How often `words` occur in `text`.
inline int count_of(const std::string& words, const std::string& text) {
  int count = 0;
  for (auto at = text.find(words); at != text.npos; at = text.find(words, at + 1)) count++;
  return count;
}

/// A file that captures the standard error of processes. A parent can read its children's, even if
/// they crash.
class Heard {
 public:
  /// Redirects this process's standard error into the file.
  void begin() const { dup2(fileno(file_.get()), STDERR_FILENO); }

  std::string text() const {
    std::string text(1 << 16, '\0');
    const auto bytes = pread(fileno(file_.get()), text.data(), text.size(), 0);
    text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return text;
  }
  /// How often the words occur in it.
  int count(const std::string& words) const { return count_of(words, text()); }

 private:
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file_{std::tmpfile(), std::fclose};
};

/// Everything that this process writes to standard error while `body` runs, which can read it
/// meanwhile. Restores standard error even if `body` throws.
inline std::string logged(const std::function<void(const Heard&)>& body) {
  const Heard heard;
  {
    const struct Instead {
      FileDescriptor before = FileDescriptor(dup(STDERR_FILENO));
      explicit Instead(const Heard& heard) { heard.begin(); }
      ~Instead() {
        std::fflush(stderr);
        dup2(before.number(), STDERR_FILENO);
      }
    } instead(heard);
    body(heard);
  }
  return heard.text();
}
inline std::string logged(const std::function<void()>& body) {
  return logged([&](const Heard&) { body(); });
}

}  // namespace ccoll::testing

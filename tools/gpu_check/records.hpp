// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A file of JSON lines that several processes append to: what is in it stays when a run is cut.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

namespace ccoll::gpu_check {

/// The file cannot be written, and what() says why.
struct NotRecorded : std::system_error {
  explicit NotRecorded(const std::string& path)
      : system_error(errno, std::generic_category(), "cannot write " + path) {}
};

class Records {
 public:
  explicit Records(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (file_ < 0) throw NotRecorded(path);
  }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;
  ~Records() { close(file_); }

  /// In one piece, and at once.
  void add(const nlohmann::json& record) const {
    // What a child has printed may be any bytes.
    const auto line = record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    errno = ENOSPC;  // where only a part of it has room
    if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      throw NotRecorded(path_);
    }
  }

 private:
  std::string path_;
  int file_;
};

}  // namespace ccoll::gpu_check

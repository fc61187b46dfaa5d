// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A file of JSON lines that several processes append to: its content survives if a run is cut.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

namespace ccoll::gpu_check {

/// The file cannot be written; what() gives the reason.
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

  /// Writes one whole line immediately.
  void add(const nlohmann::json& record) const {
    // A child's output may contain any bytes.
    const auto line = record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    errno = ENOSPC;  // if only a part fits
    if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      throw NotRecorded(path_);
    }
  }

 private:
  std::string path_;
  int file_;
};

}  // namespace ccoll::gpu_check

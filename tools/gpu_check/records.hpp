// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A file of JSON lines that several processes append to: what is in it stays when a run is cut.

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace ccoll::gpu_check {

class Records {
 public:
  explicit Records(const std::string& path)
      : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (file_ < 0) throw std::runtime_error("cannot write to " + path);
  }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;
  ~Records() { close(file_); }

  /// In one piece, and at once.
  void add(const nlohmann::json& record) const {
    // What a child has printed may be any bytes.
    const auto line = record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      throw std::runtime_error("the results cannot be written");
    }
  }

 private:
  int file_;
};

}  // namespace ccoll::gpu_check

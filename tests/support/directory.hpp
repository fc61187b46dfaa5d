// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A directory of a test's own, for its files.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace ccoll::testing {

/// Lies in the system's temporary directory and is removed with its contents on destruction.
class Directory {
 public:
  Directory() {
    std::string name = std::filesystem::temp_directory_path() / "ccoll-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no directory " + name);
    path_ = name;
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string path() const { return path_; }
  std::string file(const std::string& name) const { return path_ / name; }
  /// Returns the file's path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace ccoll::testing

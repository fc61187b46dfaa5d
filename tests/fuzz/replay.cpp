// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without a fuzzer, on files and on all files of folders.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/target.hpp"

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> files_of(const fs::path& place) {
  if (!fs::is_directory(place)) return {place};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(place)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// A copy of exact size, so that a sanitizer detects reads beyond it.
void run(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const auto copy = std::make_unique<std::uint8_t[]>(bytes.size());
  std::ranges::copy(bytes, copy.get());
  LLVMFuzzerTestOneInput(copy.get(), bytes.size());
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t runs = 0;
  for (int i = 1; i < count; i++) {
    for (const auto& path : files_of(arguments[i])) {
      std::printf("%s\n", path.c_str());
      std::fflush(stdout);  // the last line names the file that ended the process
      run(path);
      runs++;
    }
  }
  std::printf("%zu inputs\n", runs);
  if (runs == 0) std::fprintf(stderr, "usage: %s FILE-OR-FOLDER...\n", arguments[0]);
  return runs == 0 ? 2 : 0;
}

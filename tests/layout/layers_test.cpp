// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {

const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"core", {}},
    {"schedule", {"core"}},
    {"algorithms", {"core", "schedule"}},
    {"sim", {"algorithms", "core", "schedule"}},
    {"kernels", {"core"}},
    {"rendezvous", {"core"}},
    {"control", {"core"}},
    {"transport", {"core"}},
    {"engine", {"core", "kernels", "schedule", "transport"}},
    {"comm",
     {"algorithms", "control", "core", "engine", "kernels", "rendezvous", "schedule", "transport"}},
};

}  // namespace

TEST_CASE("layers: each folder of src/ includes only what docs/architecture.md allows",
          "[engine][unit]") {
  const std::filesystem::path source = std::filesystem::path(CCOLL_SOURCE_ROOT) / "src";
  std::size_t edges = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(source)) {
    const auto extension = file.path().extension();
    if (extension != ".cpp" && extension != ".hpp" && extension != ".cu" && extension != ".cuh") {
      continue;
    }
    if (file.path().parent_path() == source) continue;  // outsiders' headers, precompiled
    const auto folder = file.path().lexically_relative(source).begin()->string();
    const auto allowed = kMayInclude.find(folder);
    CAPTURE(file.path().string());
    REQUIRE(allowed != kMayInclude.end());
    std::ifstream text(file.path());
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with("#include \"")) continue;
      const auto target = line.substr(10, line.find('/') - 10);
      if (target == folder || target == "ccoll") continue;
      CAPTURE(line);
      CHECK(allowed->second.contains(target));
      edges++;
    }
  }
  CHECK(edges > 20);
}

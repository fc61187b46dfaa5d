// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using Names = std::set<std::string>;
namespace fs = std::filesystem;

/// The folders whose headers a folder's sources may include, besides its own.
const std::map<std::string, std::string> kMayInclude = {
    {"core", ""},
    {"system", "core"},
    {"net", "core system net/wire"},
    {"net/wire", "core system"},
    {"schedule", "core"},
    {"verify", "schedule"},
    {"algorithms", "schedule algorithms/trees"},
    {"algorithms/choosing", "core algorithms"},
    {"algorithms/trees", "schedule algorithms"},
    {"sim", "core algorithms"},
    {"kernels", "core"},
    {"kernels/device", "core"},
    {"rendezvous", "core system net net/wire rendezvous/stores"},
    {"rendezvous/stores", "core system net net/wire"},
    {"control", "core system net net/wire control/connections control/state"},
    {"control/connections", "core net net/wire control control/state"},
    {"control/state", "core system control"},
    {"transport", "core system net transport/inproc transport/shm transport/tcp transport/verbs"},
    {"transport/inproc", "core system transport"},
    {"transport/shm", "core system net transport"},
    {"transport/tcp", "core system net transport"},
    {"transport/verbs", "core system net net/wire transport transport/verbs/device"},
    {"transport/verbs/device", "core system net transport"},
    {"engine", "core system schedule transport engine/plan"},
    {"engine/plan", "core schedule kernels transport engine"},
    {"gpu", "core system schedule kernels/device gpu/cuda gpu/memory gpu/program gpu/staging"},
    {"gpu/cuda", "core system kernels/device gpu"},
    {"gpu/group",
     "core system kernels/device gpu gpu/cuda gpu/memory gpu/program gpu/staging gpu/team"},
    {"gpu/kernel", "kernels/device gpu/program"},
    {"gpu/memory", "core system kernels/device gpu/cuda"},
    {"gpu/program", "core system schedule verify kernels/device"},
    {"gpu/staging", "core system kernels/device gpu gpu/cuda gpu/program"},
    {"gpu/team", "core system kernels/device gpu gpu/cuda gpu/kernel gpu/program gpu/staging"},
    {"comm",
     "transport engine comm/collectives comm/groups comm/messages comm/progress comm/streams"},
    {"comm/api",
     "core system rendezvous transport engine gpu comm comm/call comm/collectives comm/failures "
     "comm/groups comm/messages comm/progress comm/record comm/streams"},
    {"comm/call", "core system schedule algorithms engine comm/progress"},
    {"comm/collectives",
     "core system verify algorithms kernels engine gpu comm comm/call comm/failures comm/groups "
     "comm/progress comm/record comm/streams"},
    {"comm/failures",
     "core system net schedule algorithms control transport engine comm "
     "comm/collectives comm/groups comm/progress comm/record"},
    {"comm/groups",
     "core system net net/wire schedule algorithms rendezvous control transport engine gpu "
     "comm/call comm/collectives comm/failures comm/progress"},
    {"comm/messages",
     "core schedule transport engine gpu comm comm/collectives comm/failures comm/groups "
     "comm/progress comm/record"},
    {"comm/progress", "core system schedule transport"},
    {"comm/record",
     "core system schedule rendezvous engine comm comm/collectives comm/failures "
     "comm/groups comm/progress comm/record/dump comm/record/trace"},
    {"comm/record/dump", ""},
    {"comm/record/trace", "core system schedule algorithms"},
    {"comm/streams",
     "core system net algorithms engine gpu comm comm/call comm/collectives comm/failures "
     "comm/groups comm/messages comm/progress"},
    {"faces/c", ""},
    {"faces/nccl", "core system faces/nccl/device faces/nccl/settings"},
    {"faces/nccl/device", "system gpu/cuda faces/nccl"},
    {"faces/nccl/functions", "system rendezvous faces/nccl faces/nccl/settings"},
    {"faces/nccl/settings", "core system faces/nccl"},
    {"dumps", "core comm/record/dump"},
    {"rounds", "schedule verify"},
    {"trace", "core schedule comm/record/trace"},
    {"run", "core system rendezvous dumps"},
    {"bench", "system bench/command"},
    {"bench/command",
     "core system algorithms kernels kernels/device rendezvous transport comm/groups "
     "faces/nccl/settings run bench/measure bench/report"},
    {"bench/costs", "core system algorithms transport engine trace"},
    {"bench/measure",
     "core system net schedule algorithms kernels/device rendezvous gpu/cuda bench/command "
     "bench/report"},
    {"bench/report", "core bench/command bench/measure"},
    {"show", "system show/commands"},
    {"show/commands",
     "core verify algorithms sim rendezvous comm/groups rounds bench/command bench/report "
     "show/model show/page show/real show/text"},
    {"show/model",
     "core schedule verify algorithms sim rendezvous engine rounds trace bench/command "
     "bench/measure bench/report show/text"},
    {"show/page",
     "core schedule algorithms bench/command bench/measure bench/report show/commands "
     "show/model show/text"},
    {"show/real",
     "core system net schedule algorithms rendezvous transport engine run bench/command "
     "bench/measure bench/report show/commands show/model show/text"},
    {"show/text", "core system schedule comm/record/dump dumps rounds bench/command show/model"},
    {"gpu_check", "core system algorithms kernels/device gpu/cuda gpu/team gpu_check/phases"},
    {"gpu_check/figures",
     "core algorithms kernels/device gpu/cuda gpu/team gpu_check gpu_check/phases"},
    {"gpu_check/phases",
     "core system kernels/device gpu/cuda gpu/kernel gpu/program gpu/team gpu_check "
     "gpu_check/figures"},
    {"gpu_check/phases/communicators", "core system schedule gpu/cuda gpu_check gpu_check/phases"},
    {"gpu_check/standalone", ""},
};

/// A room is a folder below one of these, with everything in it.
const std::map<std::string, std::string> kRoots = {
    {"src", "src"}, {"tools", "tools"}, {"bench", "."}};

/// The headers of a room that other rooms may include: those on its top level, its door, and these.
/// The GPU kernels are a room of their own, beside the CPU kernels.
const Names kDoors = {
    "comm/groups/copy_calibration.hpp",
    "comm/groups/costs.hpp",
    "comm/groups/tuning.hpp",
    "comm/record/dump/dump.hpp",
    "comm/record/trace/format.hpp",
    "comm/record/trace/texts.hpp",
    "faces/nccl/settings/environment.hpp",
    "gpu/cuda/cuda.hpp",
    "net/wire/frame.hpp",
    "net/wire/openssl.hpp",
    "net/wire/outbox.hpp",
    "net/wire/stream.hpp",
    "net/wire/turns.hpp",
};
/// Rooms without a door: their headers serve others directly.
const Names kOpen = {"bench", "kernels"};
/// This room may look into the GPUs' rooms.
const Names kGuests = {"gpu_check"};

Names words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// A source, by the name under which it is included, and our headers that it includes.
struct Source {
  std::string name;
  std::vector<std::string> includes;

  std::string folder() const { return fs::path(name).parent_path().string(); }
};

std::string room_of(const std::string& path) { return fs::path(path).begin()->string(); }

std::vector<std::string> includes_of(const fs::path& path) {
  std::vector<std::string> includes;
  std::ifstream text(path);
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("#include \""))
      includes.push_back(line.substr(10, line.find('"', 10) - 10));
  return includes;
}

std::vector<Source> sources() {
  std::vector<Source> all;
  for (const auto& [folder, root] : kRoots) {
    const auto top = fs::path(CCOLL_SOURCE_ROOT) / folder;
    for (const auto& file : fs::recursive_directory_iterator(top)) {
      static const Names kExtensions = {".cpp", ".cu", ".cuh", ".h", ".hpp"};
      if (!kExtensions.contains(file.path().extension().string())) continue;
      const auto name =
          file.path().lexically_relative(fs::path(CCOLL_SOURCE_ROOT) / root).lexically_normal();
      if (!name.has_parent_path() || name.parent_path() == "bench/peers") continue;
      all.push_back({name.string(), includes_of(file.path())});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("layers: each folder includes only what the table here allows, and all of that",
          "[layout][unit]") {
  const auto all = sources();
  Names known;
  for (const auto& source : all) known.insert(source.name);
  std::map<std::string, Names> used;
  for (const auto& source : all) {
    const auto folder = source.folder();
    const auto allowed = kMayInclude.find(folder);
    CAPTURE(source.name);
    REQUIRE(allowed != kMayInclude.end());
    const auto folders = words_of(allowed->second);
    for (const auto& include : source.includes) {
      const auto from = fs::path(include).parent_path().string();
      if (!known.contains(include) || from == folder) continue;
      CAPTURE(include);
      CHECK(folders.contains(from));
      used[folder].insert(from);
    }
  }
  // A permission that is not used must be removed.
  for (const auto& [folder, folders] : kMayInclude) {
    CAPTURE(folder);
    CHECK(used[folder] == words_of(folders));
  }
}

TEST_CASE("layers: others include a room's headers only at its door", "[layout][unit]") {
  std::size_t seen = 0;
  for (const auto& source : sources()) {
    const auto room = room_of(source.name);
    if (kGuests.contains(room)) continue;
    for (const auto& include : source.includes) {
      const auto other = room_of(include);
      const auto depth = std::ranges::count(include, '/');
      if (other == room || other == "ccoll" || kOpen.contains(other) || depth < 2) continue;
      CAPTURE(source.name, include);
      CHECK(kDoors.contains(include));
      seen++;
    }
  }
  CHECK(seen > 0);
}

TEST_CASE("layers: no part of a communicator knows the whole", "[layout][unit]") {
  std::size_t seen = 0;
  for (const auto& source : sources()) {
    const auto is_of_whole = [](const auto& each) { return each.starts_with("comm/api/"); };
    if (std::ranges::none_of(source.includes, is_of_whole)) continue;
    CAPTURE(source.name);
    CHECK(source.folder() == "comm/api");
    seen++;
  }
  CHECK(seen > 0);
}

TEST_CASE("layers: no arrow between rooms of the library leads back", "[layout][unit]") {
  std::map<std::string, Names> below;
  for (const auto& [folder, folders] : kMayInclude)
    for (const auto& each : words_of(folders))
      if (room_of(each) != room_of(folder)) below[room_of(folder)].insert(room_of(each));
  for (std::size_t i = 0; i < below.size(); i++)
    for (auto& [room, rooms] : below)
      for (const auto& each : Names(rooms)) rooms.merge(Names(below[each]));
  for (const auto& [room, rooms] : below) {
    CAPTURE(room);
    CHECK_FALSE(rooms.contains(room));
  }
}

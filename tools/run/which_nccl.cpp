// SPDX-License-Identifier: Apache-2.0
#include "run/which_nccl.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "core/os_error.hpp"
#include "run/elf_file.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll {

namespace {

constexpr const char* kFunction = "ncclAllReduce";
/// A variable that only ccoll's library reads.
constexpr const char* kOurs = "CCOLL_NCCL_HOST";
/// A longer chain of libraries is invalid.
constexpr int kMostLibraries = 10000;

struct Mapped {
  std::string path;
  std::uint64_t begin = 0;  ///< where the file's first byte is in memory
};

std::string place(pid_t process, const char* what) {
  return fmt::format("/proc/{}/{}", process, what);
}

/// The files in a process's memory, each once.
Result<std::vector<Mapped>> mapped_files(pid_t process) {
  std::ifstream maps(place(process, "maps"));
  if (!maps) {
    return fail(ErrorKind::invalid_argument, "process {} cannot be looked at: {}", process,
                os_error(errno));
  }
  std::vector<Mapped> files;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string range, rights, offset, device, node, path;
    fields >> range >> rights >> offset >> device >> node >> std::ws;
    std::getline(fields, path);
    if (path.empty() || path[0] != '/') continue;
    const auto same = [&](const Mapped& each) { return each.path == path; };
    if (std::any_of(files.begin(), files.end(), same)) continue;
    files.push_back({path, std::stoull(range, nullptr, 16) - std::stoull(offset, nullptr, 16)});
  }
  return files;
}

/// Reads another process's memory.
class MemoryOf {
 public:
  explicit MemoryOf(pid_t process)
      : file_(::open(place(process, "mem").c_str(), O_RDONLY | O_CLOEXEC)) {}

  template <typename T>
  std::optional<T> at(std::uint64_t address) const {
    T value;
    if (!file_.open()) return std::nullopt;
    const auto got = ::pread(file_.number(), &value, sizeof value, static_cast<off_t>(address));
    if (got != static_cast<ssize_t>(sizeof value)) return std::nullopt;
    return value;
  }
  std::string text_at(std::uint64_t address) const {
    std::string text;
    for (auto next = at<char>(address); next && *next != '\0' && text.size() < 4096;
         next = at<char>(++address)) {
      text += *next;
    }
    return text;
  }

 private:
  FileDescriptor file_;
};

/// The loaded files in the loader's search order; empty if it cannot be determined. The program
/// itself has an empty name.
std::vector<std::string> loading_order(pid_t process, const ElfFile& program,
                                       const std::vector<Mapped>& files, const std::string& path) {
  const MemoryOf memory(process);
  const auto own = std::find_if(files.begin(), files.end(),
                                [&](const Mapped& each) { return each.path == path; });
  if (own == files.end() || program.dynamic_section() == 0) return {};
  std::uint64_t entry = program.dynamic_section() + (program.moves() ? own->begin : 0);
  std::uint64_t debug = 0;
  for (;; entry += sizeof(Elf64_Dyn)) {
    const auto next = memory.at<Elf64_Dyn>(entry);
    if (!next || next->d_tag == DT_NULL) break;
    if (next->d_tag == DT_DEBUG) debug = next->d_un.d_ptr;
  }
  if (debug == 0) return {};
  const auto loader = memory.at<r_debug>(debug);
  if (!loader) return {};
  std::vector<std::string> order;
  auto at = reinterpret_cast<std::uint64_t>(loader->r_map);
  while (at != 0 && order.size() < kMostLibraries) {
    const auto library = memory.at<link_map>(at);
    if (!library) return {};
    order.push_back(memory.text_at(reinterpret_cast<std::uint64_t>(library->l_name)));
    at = reinterpret_cast<std::uint64_t>(library->l_next);
  }
  return order;
}

/// A path without links, as in the maps.
std::string real_path(const std::string& path) {
  char* const resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string real = resolved;
  ::free(resolved);
  return real;
}

}  // namespace

Result<NcclInUse> nccl_of(pid_t process) {
  const auto mapped = mapped_files(process);
  if (!mapped) return tl::unexpected(mapped.error());
  const auto& files = *mapped;
  const std::string program_path = real_path(place(process, "exe"));
  const auto program = ElfFile::read(place(process, "exe"));
  NcclInUse use;
  // An exported function of the program also comes first.
  if (program && (program->contains(kFunction) || program->exports(kFunction))) {
    use.path = program_path;
    use.is_static = true;
    use.is_ours = program->has_text(kOurs);
    return use;
  }
  struct Candidate {
    std::string path;
    bool is_ours;
  };
  std::vector<Candidate> candidates;
  for (const auto& file : files) {
    const auto elf = ElfFile::read(place(process, "root") + file.path);
    if (elf && elf->exports(kFunction)) candidates.push_back({file.path, elf->has_text(kOurs)});
  }
  if (candidates.empty()) {
    return fail(ErrorKind::invalid_argument,
                "process {} has no libnccl loaded: among its {} files none defines {}", process,
                files.size(), kFunction);
  }
  std::size_t first = 0;
  if (candidates.size() > 1) {
    use.is_certain = false;
    for (const auto& path : program ? loading_order(process, *program, files, program_path)
                                    : std::vector<std::string>{}) {
      const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const auto& each) {
        return each.path == real_path(path);
      });
      if (path.empty() || found == candidates.end()) continue;
      first = static_cast<std::size_t>(found - candidates.begin());
      use.is_certain = true;
      break;
    }
  }
  use.path = candidates[first].path;
  use.is_ours = candidates[first].is_ours;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i != first) use.others.push_back(candidates[i].path);
  }
  return use;
}

std::string text(pid_t process, const NcclInUse& use) {
  const char* const whose = use.is_ours ? "ccoll's" : "not ccoll's";
  std::string text =
      use.is_static
          ? fmt::format(
                "process {} calls NCCL's functions in {} itself, which is {}: nothing else "
                "can take their place\n",
                process, use.path, use.is_ours ? "of ccoll" : "not of ccoll")
      : use.is_certain
          ? fmt::format("process {} calls {}, which is {}\n", process, use.path, whose)
          : fmt::format(
                "process {} has several, in an order that could not be seen; one of them "
                "is {}, which is {}\n",
                process, use.path, whose);
  for (const auto& other : use.others) {
    text += fmt::format("also loaded{}: {}\n", use.is_certain ? ", but not called" : "", other);
  }
  return text;
}

}  // namespace ccoll

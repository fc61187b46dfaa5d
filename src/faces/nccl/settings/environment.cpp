// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/settings/environment.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <sstream>

#include "ccoll/version.hpp"
#include "core/deadline.hpp"
#include "core/text.hpp"
#include "faces/nccl/results.hpp"
#include "system/file_descriptor.hpp"
#include "system/log.hpp"
#include "system/read_file.hpp"
#include "system/runtime.hpp"
#include "system/variables.hpp"

namespace ccoll::nccl {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr std::size_t kMostConfBytes = 1 << 20;

/// Whether it is /dev/null, or a link to it: whoever puts that there wants no file.
bool is_null_device(const std::string& path) {
  struct stat facts {};
  struct stat null {};
  return ::stat(path.c_str(), &facts) == 0 && ::stat("/dev/null", &null) == 0 &&
         S_ISCHR(facts.st_mode) && facts.st_rdev == null.st_rdev;
}

/// Adds a file's variables, where `all` has none of that name. If the file is there but cannot be
/// read, it adds the reason to `unread`.
void add_file(const std::string& file, Variables& all, std::vector<std::string>& unread) {
  if (const auto text = conf_text(file))
    all.merge(parsed_lines(*text));
  else if (::access(file.c_str(), F_OK) == 0)
    unread.push_back(text.error().message);
}

/// Variables of the environment, then of NCCL's files: the first value counts. `translated` warns
/// of a file that NCCL_CONF_FILE names and that cannot be read.
Variables variables_of_process(std::vector<std::string>& unread) {
  auto all = variables_that_begin_with("NCCL_");
  if (const auto named = all.find("NCCL_CONF_FILE"); named != all.end()) {
    if (const auto text = conf_text(named->second)) all.merge(parsed_lines(*text));
  } else if (const auto home = read_variable("HOME")) {
    add_file(*home + "/.nccl.conf", all, unread);
  }
  add_file("/etc/nccl.conf", all, unread);
  return all;
}

/// Reads ccoll's own variables. An impossible value gets a remark like any other variable.
void read_own(Settings& read) {
  const auto refused = [&](const Failure& failure) {
    read.seen.push_back(
        {.name = "", .value = "", .fate = Fate::refused, .remark = failure.message});
  };
  const auto take_number = [&](const char* name, auto&& take) {
    if (const auto value = read_number(name); !value)
      refused(value.error());
    else if (*value)
      take(**value);
  };
  const auto take_time = [&](const char* name, std::chrono::milliseconds& into) {
    if (const auto value = read_time(name); !value)
      refused(value.error());
    else if (*value)
      into = **value;
  };
  take_number("CCOLL_NCCL_HOST", [&](long value) { read.host = value == 1; });
  take_number("CCOLL_NCCL_VERSION", [&](long value) { read.version = static_cast<int>(value); });
  take_time("CCOLL_TIMEOUT", read.timeout);
  take_time("CCOLL_NCCL_TIMEOUT", read.timeout);
  take_time("CCOLL_START_TIMEOUT", read.start_timeout);
  take_time("CCOLL_NCCL_START_TIMEOUT", read.start_timeout);
  take_time("CCOLL_WARN_AFTER", read.warn_after);
  take_time("CCOLL_NCCL_WARN_AFTER", read.warn_after);
  if (read.warn_after == kNoLimit) read.warn_after = std::chrono::milliseconds(0);
}

/// The path of this library: programs find libnccl.so.2 in many ways.
std::string own_path() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_path), &info) == 0 || info.dli_fname == nullptr)
    return "?";
  return info.dli_fname;
}

/// Logs one line with all variables seen, and a warning for each that deserves one.
void tell(const Settings& read) {
  log().info("ccoll {} answers as NCCL {}: {}", version(), read.version, own_path());
  std::vector<std::string> all;
  for (const auto& each : read.seen) {
    if (each.fate == Fate::silent || each.name.empty()) continue;
    all.push_back(fmt::format("{}={} ({}{}{})", each.name, each.value, to_string(each.fate),
                              each.remark.empty() ? "" : ": ", each.remark));
    if (each.is_warning) log().warn("{}={}: {}", each.name, each.value, each.remark);
  }
  for (const auto& why : read.unread) log().warn("{}: its variables are not read", why);
  if (!all.empty()) log().info("NCCL's variables: {}", joined(all));
}

}  // namespace

Result<std::string> conf_text(const std::string& path) {
  if (is_null_device(path)) return std::string();
  const StandardStreamsTaken taken;
  return read_regular_file("the file", path, kMostConfBytes);
}

Settings settings_of_process() {
  std::vector<std::string> unread;
  auto read = translated(variables_of_process(unread));
  read.unread = std::move(unread);
  set_fallbacks(read.fallbacks, read.sources);
  read_own(read);
  return read;
}

Variables parsed_lines(const std::string& text) {
  Variables all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    const auto begin = line.find_first_not_of(" \t");
    const auto sign = line.find('=');
    if (begin == line.npos || sign == line.npos || sign < begin) continue;
    const auto trimmed = [](std::string part) {
      part.erase(0, std::min(part.find_first_not_of(" \t\r"), part.size()));
      part.erase(part.find_last_not_of(" \t\r") + 1);
      return part;
    };
    const auto name = trimmed(line.substr(begin, sign - begin));
    const auto value = trimmed(line.substr(sign + 1));
    if (!name.empty() && !value.empty()) all.emplace(name, value);
  }
  return all;
}

const Settings& settings() noexcept {
  // Never destroyed: threads may ask while the process ends.
  static const Settings* const read = [] {
    try {
      return new Settings(settings_of_process());
    } catch (...) {
      return new Settings;  // without memory nothing else will do either
    }
  }();
  return *read;
}

namespace {

struct Told {
  std::once_flag once;
};

}  // namespace

void check_environment() {
  const auto& read = settings();
  std::call_once(Runtime::one<Told>().once, [&] { tell(read); });
  for (const auto& each : read.seen)
    if (each.fate == Fate::refused)
      refuse(ncclInvalidArgument, "{}{}{}{}", each.name, each.name.empty() ? "" : "=",
             each.value.empty() ? "" : each.value + ": ", each.remark);
}

}  // namespace ccoll::nccl

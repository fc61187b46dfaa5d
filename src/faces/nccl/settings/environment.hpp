// SPDX-License-Identifier: Apache-2.0
#pragma once

/// NCCL's variables and ccoll's own for this library: read once, at the first call.

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/options.hpp"
#include "core/result.hpp"
#include "faces/nccl/abi.hpp"

namespace ccoll::nccl {

/// The fate of a variable of NCCL's.
enum class Fate {
  used,        ///< it sets something here
  no_meaning,  ///< it has nothing to set here, and results do not depend on it
  refused,     ///< no communicator is made while it has that value
  silent,      ///< it belongs to another program
  unknown,
};

/// "used", "no meaning here".
std::string_view to_string(Fate fate);

/// A variable that is set, and what becomes of it.
struct Seen {
  std::string name;
  std::string value;
  Fate fate;
  std::string remark;  ///< "CCOLL_LOG=info", or why it has no meaning here
  bool is_warning = false;
};

struct Settings {
  bool host = false;  ///< buffers are host memory
  int version = kReportedVersion;
  std::chrono::milliseconds timeout = kNoLimit;
  std::chrono::milliseconds start_timeout = std::chrono::minutes(30);
  std::chrono::milliseconds warn_after = std::chrono::seconds(60);  ///< 0: never
  std::optional<int> blocking;
  std::string comm_id;  ///< the address for all ids; empty: none
  bool logs_version = false;
  bool registers = true;
  /// Values of ccoll's own variables that the environment does not set.
  std::map<std::string, std::string> fallbacks;
  /// The variable of NCCL's behind each of them, for failures.
  std::map<std::string, std::string> sources;
  std::vector<Seen> seen;
  std::vector<std::string> unread;  ///< the reason why a file of variables was not read
};

/// Reads `variables`, all of NCCL's that are set. Fields for ccoll's own variables keep their
/// defaults.
Settings translated(const std::map<std::string, std::string>& variables);

/// The text of a file of variables: a regular one of at most 1 MiB, or /dev/null for none.
Result<std::string> conf_text(const std::string& path);

/// The `NAME=value` lines of a text; `#` begins a comment.
std::map<std::string, std::string> parsed_lines(const std::string& text);

/// Reads the variables of this process, and of NCCL's files.
Settings settings_of_process();
/// The settings of this process. The first call reads them.
const Settings& settings() noexcept;
/// For making a communicator or an id: throws Refusal if a variable asks for the impossible. Warns
/// and logs, once, what became of each variable.
void check_environment();

}  // namespace ccoll::nccl

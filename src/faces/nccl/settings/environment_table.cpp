// SPDX-License-Identifier: Apache-2.0
// The one table of NCCL's variables, and the fate of each.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "core/text.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "faces/nccl/values.hpp"
#include "system/variables.hpp"

namespace ccoll::nccl {
namespace {

/// The meaning of a variable's value.
struct Outcome {
  Fate fate = Fate::used;
  std::string remark = {};
  bool is_warning = false;
};

Outcome no_meaning(std::string_view why = {}) { return {Fate::no_meaning, std::string(why)}; }
Outcome refused(std::string_view why) { return {Fate::refused, std::string(why)}; }
/// For a value that is not valid. NCCL goes on without it, so programs rely on that.
Outcome ignored(std::string_view expected) {
  return {Fate::no_meaning, fmt::format("expected {}; the value is ignored", expected), true};
}

/// Sets one of ccoll's variables.
Outcome sets(Settings& read, const char* name, std::string value) {
  Outcome outcome{Fate::used, fmt::format("{}={}", name, value)};
  read.fallbacks.emplace(name, std::move(value));
  return outcome;
}

/// A whole number as NCCL reads it: "0x10" and "020" are 16.
std::optional<long> whole(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text.c_str(), &end, 0);
  if (errno != 0 || end == text.c_str() || *end != '\0') return std::nullopt;
  return value;
}

using Apply = Outcome (*)(const std::string& value, Settings& read);

/// For a value that goes unchanged into one of ccoll's variables.
template <const auto& kName>
Outcome copied(const std::string& value, Settings& read) {
  return sets(read, kName, value);
}

/// For a number that goes into one of ccoll's variables, where that takes it. NCCL's -1 stands for
/// its default.
template <const auto& kName>
Outcome number(const std::string& value, Settings& read) {
  const auto values = values_of(kName);
  const auto given = whole(value);
  if (given == -1) return no_meaning("the default");
  if (!given || *given < values.least || *given > values.most)
    return ignored(fmt::format("a whole number from {} to {}", values.least, values.most));
  return sets(read, kName, std::to_string(*given));
}

constexpr char kIfName[] = "CCOLL_SOCKET_IFNAME";
constexpr char kHostId[] = "CCOLL_HOST_ID";
constexpr char kLogFile[] = "CCOLL_LOG_FILE";
constexpr char kBlocks[] = "CCOLL_DEVICE_BLOCKS";
constexpr char kIbHca[] = "CCOLL_IB_HCA";
constexpr char kIbGidIndex[] = "CCOLL_IB_GID_INDEX";
constexpr char kIbTc[] = "CCOLL_IB_TC";
constexpr char kIbSl[] = "CCOLL_IB_SL";
constexpr char kIbTimeout[] = "CCOLL_IB_TIMEOUT";
constexpr char kIbRetryCnt[] = "CCOLL_IB_RETRY_CNT";

Outcome debug(const std::string& value, Settings& read) {
  const auto level = in_lower_case(value);
  if (level == "none") return no_meaning();
  read.logs_version = true;
  // NCCL's ABORT comes after INFO and contains it.
  if (level == "info" || level == "abort") return sets(read, "CCOLL_LOG", "info");
  if (level == "trace") return sets(read, "CCOLL_LOG", level);
  if (level == "version" || level == "warn") return {Fate::used, "logs the version"};
  read.logs_version = false;
  return ignored("VERSION, WARN, INFO, ABORT or TRACE");
}

Outcome comm_id(const std::string& value, Settings& read) {
  read.comm_id = value;
  return {Fate::used, "the address of all ids"};
}

Outcome comm_blocking(const std::string& value, Settings& read) {
  const auto given = whole(value);
  if (given != 0 && given != 1) return ignored("0 or 1");
  read.blocking = static_cast<int>(*given);
  return {Fate::used, "overrides ncclConfig_t::blocking"};
}

Outcome net(const std::string& value, Settings& read) {
  const auto word = in_lower_case(value);
  if (word == "socket") return sets(read, "CCOLL_TRANSPORT", "^verbs");
  if (word == "ib") return no_meaning("RDMA is used where both ends have it");
  return refused("expected Socket or IB; ccoll loads no network plugins");
}

Outcome ib_disable(const std::string& value, Settings& read) {
  const auto given = whole(value);
  if (!given) return ignored("0 or 1");
  return *given == 0 ? no_meaning() : sets(read, "CCOLL_TRANSPORT", "^verbs");
}

Outcome socket_family(const std::string& value, Settings& read) {
  if (value == "AF_INET") return sets(read, "CCOLL_SOCKET_FAMILY", "ipv4");
  if (value == "AF_INET6") return sets(read, "CCOLL_SOCKET_FAMILY", "ipv6");
  return ignored("AF_INET or AF_INET6");
}

Outcome p2p_disable(const std::string& value, Settings& read) {
  const auto given = whole(value);
  if (given != 0 && given != 1) return ignored("0 or 1");
  return *given == 0 ? no_meaning() : sets(read, "CCOLL_DEVICE_WAY", "host");
}

/// For a distance between devices, by name or as one of the older numbers. LOC and 0 mean never:
/// they set `name` to `never`.
Outcome distance(const std::string& value, Settings& read, const char* name, const char* never) {
  constexpr std::string_view kNames[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                         "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
  const auto given = whole(value);
  if (value == "LOC" || given == 0) return sets(read, name, never);
  if (std::ranges::find(kNames, value) != std::end(kNames) || (given && *given > 0))
    return no_meaning();
  return ignored("LOC, NVL, PIX, PXB, PHB or SYS");
}

Outcome p2p_level(const std::string& value, Settings& read) {
  return distance(value, read, "CCOLL_DEVICE_WAY", "host");
}

Outcome gdr_level(const std::string& value, Settings& read) {
  return distance(value, read, "CCOLL_GPU_DIRECT", "0");
}

/// Ports of RDMA devices, as in "^mlx5_0:1,mlx5_1". NCCL passes over empty names.
Outcome hca(const std::string& value, Settings& read) {
  std::string kept = value.substr(0, value.find_first_not_of("^="));
  std::istringstream items(value.substr(kept.size()));
  std::vector<std::string> names;
  for (std::string item; std::getline(items, item, ',');) {
    if (item.empty()) continue;
    const auto colon = item.find(':');
    const auto port = colon == item.npos ? 1 : whole(item.substr(colon + 1)).value_or(0);
    if (colon == 0 || port < 1 || port > 255)
      return ignored("names of devices, with ports from 1 to 255, as in mlx5_0:1,mlx5_1");
    names.push_back(item.substr(0, colon));
    if (colon != item.npos) names.back() += fmt::format(":{}", port);
  }
  return sets(read, kIbHca, kept + joined(names, ","));
}

/// The first name in a value that NCCL does not have, with the names of its kind.
struct Misnomer {
  std::string_view kind;
  std::string name;
  std::string known;
};

std::string trimmed(std::string name) {
  name.erase(0, std::min(name.find_first_not_of(" ^"), name.size()));
  name.erase(name.find_last_not_of(' ') + 1);
  return name;
}

/// A value is like "Ring,Tree", "^Tree" or "allreduce:tree;broadcast:ring".
std::optional<Misnomer> misnomer(const std::string& value) {
  std::istringstream lists(value);
  for (std::string list; std::getline(lists, list, ';');) {
    const auto colon = list.find(':');
    if (colon != list.npos) {
      const auto function = trimmed(list.substr(0, colon));
      if (!is_tuned_function(function)) return {{"function", function, tuned_function_names()}};
    }
    std::istringstream parts(list.substr(colon == list.npos ? 0 : colon + 1));
    for (std::string part; std::getline(parts, part, ',');) {
      const auto name = trimmed(part);
      // NCCL had a CollNet before there were two.
      const bool is_known = is_algorithm(name) || in_lower_case(name) == "collnet";
      if (!name.empty() && !is_known) return {{"algorithm", name, algorithm_names()}};
    }
  }
  return std::nullopt;
}

Outcome algo(const std::string& value, Settings& read) {
  const auto word = in_lower_case(value);
  if (word == "ring") return sets(read, "CCOLL_ALGO", "ring");
  if (word == "tree") return sets(read, "CCOLL_ALGO", "double_tree");
  if (const auto wrong = misnomer(value))
    return {Fate::no_meaning,
            fmt::format("NCCL has no {} '{}'; it has {}", wrong->kind, wrong->name, wrong->known),
            true};
  return no_meaning("the cost model chooses");
}

Outcome most_blocks(const std::string& value, Settings& read) {
  const auto given = whole(value);
  if (!given || *given < 1) return ignored("a number of blocks, 1 or more");
  return sets(read, kBlocks, std::to_string(std::min(*given, values_of(kBlocks).most)));
}

/// A number with a bit for each policy, or their names with | between them.
Outcome cta_policy(const std::string& value, Settings& read) {
  constexpr long kEfficiency = 1;
  constexpr long kZero = 2;
  auto policy = whole(value);
  if (!policy) {
    policy = 0;
    std::istringstream parts(in_lower_case(value));
    for (std::string part; policy && std::getline(parts, part, '|');) {
      if (part == "zero")
        *policy |= kZero;
      else if (part == "efficiency")
        *policy |= kEfficiency;
      else if (part != "default")
        policy.reset();
    }
  }
  if (!policy || *policy < 0 || *policy > (kEfficiency | kZero))
    return ignored("DEFAULT, EFFICIENCY, ZERO, or a number from 0 to 3");
  return (*policy & kZero) != 0 ? sets(read, "CCOLL_DEVICE_COPIES", "always") : no_meaning();
}

Outcome registers(const std::string& value, Settings& read) {
  const auto given = whole(value);
  if (!given) return ignored("0 or 1");
  if (*given != 0) return no_meaning();
  read.registers = false;
  return {Fate::used, "registering does nothing"};
}

Outcome windows(const std::string& /*value*/, Settings& /*read*/) {
  return no_meaning("there are no windows");
}

Outcome plugin(const std::string& value, Settings& /*read*/) {
  if (in_lower_case(value) == "none") return no_meaning();
  return {Fate::no_meaning, "ccoll loads no plugins of NCCL's", true};
}

Outcome small_shared_memory(const std::string& /*value*/, Settings& /*read*/) {
  return no_meaning("ccoll needs no room in /dev/shm");
}

Outcome start_limit(const std::string& /*value*/, Settings& /*read*/) {
  return no_meaning("CCOLL_NCCL_START_TIMEOUT is the limit");
}

Outcome always(const std::string& /*value*/, Settings& /*read*/) {
  return no_meaning("it is always so, or has no effect on results");
}

Outcome nothing(const std::string& /*value*/, Settings& /*read*/) { return no_meaning(); }
Outcome others(const std::string& /*value*/, Settings& /*read*/) { return {Fate::silent}; }

struct Entry {
  std::string_view name;  ///< a name that ends in * stands for all with that beginning
  Apply apply;
};

// The first match counts.
constexpr Entry kTable[] = {
    {"NCCL_DEBUG", debug},
    {"NCCL_DEBUG_FILE", copied<kLogFile>},
    {"NCCL_DEBUG_*", nothing},
    {"NCCL_WARN_*", nothing},
    {"NCCL_CONF_FILE",
     [](const std::string& value, Settings&) -> Outcome {
       const auto text = conf_text(value);
       if (text) return {Fate::used, "a file of variables"};
       return {Fate::no_meaning, text.error().message + ": its variables are not read", true};
     }},
    {"NCCL_SOCKET_IFNAME", copied<kIfName>},
    {"NCCL_SOCKET_FAMILY", socket_family},
    {"NCCL_SOCKET_RETRY_*", start_limit},
    {"NCCL_SOCKET_*", nothing},
    {"NCCL_NSOCKS_PERTHREAD", nothing},
    {"NCCL_OOB_NET_*", nothing},
    {"NCCL_COMM_ID", comm_id},
    {"NCCL_COMM_BLOCKING", comm_blocking},
    {"NCCL_HOSTID", copied<kHostId>},
    {"NCCL_NET", net},
    {"NCCL_IB_DISABLE", ib_disable},
    {"NCCL_IB_HCA", hca},
    {"NCCL_IB_GID_INDEX", number<kIbGidIndex>},
    {"NCCL_IB_TC", number<kIbTc>},
    {"NCCL_IB_SL", number<kIbSl>},
    {"NCCL_IB_TIMEOUT", number<kIbTimeout>},
    {"NCCL_IB_RETRY_CNT", number<kIbRetryCnt>},
    {"NCCL_IB_*", nothing},
    {"NCCL_SHM_DISABLE", small_shared_memory},
    {"NCCL_SHM_*", nothing},
    {"NCCL_P2P_DISABLE", p2p_disable},
    {"NCCL_P2P_LEVEL", p2p_level},
    {"NCCL_P2P_*", nothing},
    {"NCCL_NET_GDR_LEVEL", gdr_level},
    {"NCCL_NET_PLUGIN", plugin},
    {"NCCL_NET_*", nothing},
    {"NCCL_TUNER_PLUGIN", plugin},
    {"NCCL_PROFILER_PLUGIN", plugin},
    {"NCCL_ENV_PLUGIN", plugin},
    {"NCCL_GIN_PLUGIN", plugin},
    {"NCCL_RMA_PLUGIN", plugin},
    {"NCCL_GIN_*", nothing},
    {"NCCL_RMA_*", nothing},
    {"NCCL_CROSS_NIC", nothing},
    {"NCCL_GDRCOPY_*", nothing},
    {"NCCL_GDR_*", nothing},
    {"NCCL_ALGO", algo},
    {"NCCL_PROTO", nothing},
    {"NCCL_BUFFSIZE", nothing},
    {"NCCL_NTHREADS", nothing},
    {"NCCL_LL_*", nothing},
    {"NCCL_LL128_*", nothing},
    {"NCCL_NCHANNELS_PER_*", nothing},
    {"NCCL_MAX_CTAS", most_blocks},
    {"NCCL_MAX_NCHANNELS", most_blocks},
    {"NCCL_MIN_CTAS", nothing},
    {"NCCL_MIN_NCHANNELS", nothing},
    {"NCCL_MAX_P2P_*", nothing},
    {"NCCL_MIN_P2P_*", nothing},
    {"NCCL_CTA_POLICY", cta_policy},
    {"NCCL_CGA_CLUSTER_SIZE", nothing},
    {"NCCL_LOCAL_REGISTER", registers},
    {"NCCL_GRAPH_REGISTER", registers},
    {"NCCL_WIN_ENABLE", windows},
    {"NCCL_WIN_*", nothing},
    {"NCCL_CHECK_POINTERS", always},
    {"NCCL_CHECK_MODE", always},
    {"NCCL_CHECKS_DISABLE", always},
    {"NCCL_LAUNCH_*", always},
    {"NCCL_MULTI_RANK_GPU_ENABLE", always},
    {"NCCL_COMM_SPLIT_SHARE_RESOURCES", always},
    {"NCCL_COMM_SHRINK_SHARE_RESOURCES", always},
    {"NCCL_GRAPH_MIXING_SUPPORT", always},
    {"NCCL_GRAPH_STREAM_ORDERING", always},
    {"NCCL_GRAPH_*", nothing},
    {"NCCL_NVLS_*", nothing},
    {"NCCL_NVLSTREE_*", nothing},
    {"NCCL_CUMEM_*", nothing},
    {"NCCL_MNNVL_*", nothing},
    {"NCCL_COLLNET_*", nothing},
    {"NCCL_PAT_*", nothing},
    {"NCCL_SYM_*", nothing},
    {"NCCL_TOPO_*", nothing},
    {"NCCL_IGNORE_CPU_AFFINITY", nothing},
    {"NCCL_SET_THREAD_NAME", nothing},
    {"NCCL_RAS_*", nothing},
    {"NCCL_RUNTIME_CONNECT", nothing},
    {"NCCL_WORK_*", nothing},
    {"NCCL_PXN_*", nothing},
    {"NCCL_UID_STAGGER_*", nothing},
    {"NCCL_NVB_*", nothing},
    {"NCCL_PROGRESS_*", nothing},
    {"NCCL_PROXY_*", nothing},
    {"NCCL_PARAM_DUMP_ALL", nothing},
    {"NCCL_NO_CACHE", nothing},
    {"NCCL_DMABUF_ENABLE", nothing},
    {"NCCL_SINGLE_RING_THRESHOLD", nothing},
    {"NCCL_THREAD_THRESHOLDS", nothing},
    {"NCCL_TESTS_*", others},
    {"NCCL_ASYNC_ERROR_HANDLING", others},
    {"NCCL_BLOCKING_WAIT", others},
    {"NCCL_DESYNC_DEBUG", others},
    {"NCCL_ENABLE_TIMING", others},
    {"NCCL_USE_*", others},
    {"NCCL_HOME", others},
    {"NCCL_ROOT*", others},
    {"NCCL_INCLUDE*", others},
    {"NCCL_LIB*", others},
    {"NCCL_VERSION", others},
    {"NCCL_TRACE_*", others},
};

bool fits(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

/// The remark on an unknown name.
std::string meant_by(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& entry : kTable)
    if (!entry.name.ends_with('*')) names.push_back(entry.name);
  if (name.starts_with("CCOLL_"))
    return "a file of NCCL's sets none of ccoll's variables: set it in the environment";
  const auto meant = suggestion(name, names);
  return meant.empty() ? "neither NCCL nor ccoll reads it, as far as ccoll knows"
                       : fmt::format("did you mean {}?", meant);
}

}  // namespace

std::string_view to_string(Fate fate) {
  switch (fate) {
    case Fate::used:
      return "used";
    case Fate::no_meaning:
      return "no meaning here";
    case Fate::refused:
      return "refused";
    case Fate::silent:
      return "another program's";
    case Fate::unknown:
      break;
  }
  return "unknown";
}

Settings translated(const std::map<std::string, std::string>& variables) {
  Settings read;
  for (const auto& [name, value] : variables) {
    const auto entry = std::ranges::find_if(
        kTable, [&key = name](const Entry& candidate) { return fits(candidate.name, key); });
    const auto outcome = entry == std::end(kTable) ? Outcome{Fate::unknown, meant_by(name), true}
                                                   : entry->apply(value, read);
    for (const auto& [own, own_value] : read.fallbacks)
      read.sources.emplace(own, own_value == value ? name : fmt::format("{}, for {}", name, own));
    read.seen.push_back({name, value, outcome.fate, outcome.remark, outcome.is_warning});
  }
  return read;
}

}  // namespace ccoll::nccl

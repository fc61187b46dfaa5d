// SPDX-License-Identifier: Apache-2.0
// The one table of NCCL's variables, and the fate of each.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <sstream>

#include "core/text.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "faces/nccl/values.hpp"

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

/// Sets one of ccoll's variables.
Outcome sets(Settings& read, const char* name, std::string value) {
  Outcome outcome{Fate::used, fmt::format("{}={}", name, value)};
  read.fallbacks.emplace(name, std::move(value));
  return outcome;
}

std::optional<long> whole(const std::string& text) {
  long value = 0;
  const auto* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

using Apply = Outcome (*)(const std::string& value, Settings& read);

/// For a value that goes unchanged into one of ccoll's variables.
template <const auto& kName>
Outcome copied(const std::string& value, Settings& read) {
  return sets(read, kName, value);
}

constexpr char kIfName[] = "CCOLL_SOCKET_IFNAME";
constexpr char kHostId[] = "CCOLL_HOST_ID";
constexpr char kLogFile[] = "CCOLL_LOG_FILE";
constexpr char kIbHca[] = "CCOLL_IB_HCA";
constexpr char kIbGidIndex[] = "CCOLL_IB_GID_INDEX";
constexpr char kIbTc[] = "CCOLL_IB_TC";
constexpr char kIbSl[] = "CCOLL_IB_SL";
constexpr char kIbTimeout[] = "CCOLL_IB_TIMEOUT";
constexpr char kIbRetryCnt[] = "CCOLL_IB_RETRY_CNT";

Outcome debug(const std::string& value, Settings& read) {
  const auto level = in_lower_case(value);
  read.logs_version = true;
  if (level == "info" || level == "trace") return sets(read, "CCOLL_LOG", level);
  if (level == "version" || level == "warn") return {Fate::used, "logs the version"};
  return no_meaning("expected VERSION, WARN, INFO or TRACE");
}

Outcome comm_id(const std::string& value, Settings& read) {
  read.comm_id = value;
  return {Fate::used, "the address of all ids"};
}

Outcome comm_blocking(const std::string& value, Settings& read) {
  if (value != "0" && value != "1") return refused("expected 0 or 1");
  read.blocking = value == "1" ? 1 : 0;
  return {Fate::used, "overrides ncclConfig_t::blocking"};
}

Outcome net(const std::string& value, Settings& read) {
  const auto word = in_lower_case(value);
  if (word == "socket") return sets(read, "CCOLL_TRANSPORT", "^verbs");
  if (word == "ib") return no_meaning("RDMA is used where both ends have it");
  return refused("expected Socket or IB; ccoll loads no network plugins");
}

Outcome ib_disable(const std::string& value, Settings& read) {
  return value == "0" ? no_meaning() : sets(read, "CCOLL_TRANSPORT", "^verbs");
}

Outcome socket_family(const std::string& value, Settings& read) {
  if (value == "AF_INET") return sets(read, "CCOLL_SOCKET_FAMILY", "ipv4");
  if (value == "AF_INET6") return sets(read, "CCOLL_SOCKET_FAMILY", "ipv6");
  return refused("expected AF_INET or AF_INET6");
}

Outcome p2p_disable(const std::string& value, Settings& read) {
  return value == "0" ? no_meaning() : sets(read, "CCOLL_DEVICE_WAY", "host");
}

Outcome p2p_level(const std::string& value, Settings& read) {
  return value == "LOC" || value == "0" ? sets(read, "CCOLL_DEVICE_WAY", "host") : no_meaning();
}

Outcome gdr_level(const std::string& value, Settings& read) {
  return value == "LOC" || value == "0" ? sets(read, "CCOLL_GPU_DIRECT", "0") : no_meaning();
}

/// The first name in a value that is none of NCCL's algorithms; empty if there is none. A value is
/// like "Ring,Tree", "^Tree" or "allreduce:tree;broadcast:ring".
std::string unknown_algorithm(std::string value) {
  std::ranges::replace(value, ';', ',');
  std::istringstream parts(value);
  for (std::string name; std::getline(parts, name, ',');) {
    name.erase(0, name.find(':') + 1);  // without one, nothing
    name.erase(0, name.find_first_not_of(" ^"));
    name.erase(name.find_last_not_of(' ') + 1);
    // NCCL had a CollNet before there were two.
    const bool is_known = is_algorithm(name) || in_lower_case(name) == "collnet";
    if (!name.empty() && !is_known) return name;
  }
  return {};
}

Outcome algo(const std::string& value, Settings& read) {
  const auto word = in_lower_case(value);
  if (word == "ring") return sets(read, "CCOLL_ALGO", "ring");
  if (word == "tree") return sets(read, "CCOLL_ALGO", "double_tree");
  if (const auto unknown = unknown_algorithm(value); !unknown.empty())
    return {Fate::no_meaning,
            fmt::format("NCCL has no algorithm '{}'; it has {}", unknown, algorithm_names()), true};
  return no_meaning("the cost model chooses");
}

Outcome most_blocks(const std::string& value, Settings& read) {
  const auto number = whole(value);
  if (!number || *number < 1) return no_meaning("expected a number of blocks");
  return sets(read, "CCOLL_DEVICE_BLOCKS", value);
}

Outcome cta_policy(const std::string& value, Settings& read) {
  const auto word = in_lower_case(value);
  return word == "zero" || word == "2" ? sets(read, "CCOLL_DEVICE_COPIES", "always") : no_meaning();
}

Outcome registers(const std::string& value, Settings& read) {
  if (value != "0") return no_meaning();
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
       return {Fate::refused, text.error().message, true};
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
    {"NCCL_IB_HCA", copied<kIbHca>},
    {"NCCL_IB_GID_INDEX", copied<kIbGidIndex>},
    {"NCCL_IB_TC", copied<kIbTc>},
    {"NCCL_IB_SL", copied<kIbSl>},
    {"NCCL_IB_TIMEOUT", copied<kIbTimeout>},
    {"NCCL_IB_RETRY_CNT", copied<kIbRetryCnt>},
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

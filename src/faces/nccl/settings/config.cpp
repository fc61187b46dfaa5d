// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/settings/config.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "faces/nccl/results.hpp"
#include "faces/nccl/versioned.hpp"

namespace ccoll::nccl {
namespace {

/// The fields at their offsets, up to the newest version that is known.
struct Layout {
  std::size_t size = sizeof(Layout);
  std::uint32_t magic = 0;
  std::uint32_t version = 0;
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
  const char* comm_name = nullptr;
  int collnet_enable = INT_MIN;
  int cta_policy = INT_MIN;
  int shrink_share = INT_MIN;
  int nvls_ctas = INT_MIN;
  int channels_per_net_peer = INT_MIN;
  int nvlink_centric = INT_MIN;
  int graph_usage_mode = INT_MIN;
  int rma_contexts = INT_MIN;
  int max_p2p_peers = INT_MIN;
  int graph_stream_ordering = INT_MIN;
};
static_assert(sizeof(Layout) == 96 && offsetof(Layout, blocking) == 16 &&
              offsetof(Layout, net_name) == 32 && offsetof(Layout, comm_name) == 48 &&
              offsetof(Layout, nvls_ctas) == 68 && offsetof(Layout, graph_stream_ordering) == 92);

/// A field of a later version may lie in an older one's padding, which holds anything.
void forget_what_is_newer(Layout& all) {
  const auto version = all.version;
  if (version < 21700) {
    all.cga_cluster_size = all.min_ctas = all.max_ctas = INT_MIN;
    all.net_name = nullptr;
  }
  if (version < 21800) all.split_share = INT_MIN;
  if (version < 22600) all.traffic_class = INT_MIN;
  if (version < 22700) {
    all.comm_name = nullptr;
    all.collnet_enable = all.cta_policy = all.shrink_share = all.nvls_ctas = INT_MIN;
  }
  if (version < 22800) all.channels_per_net_peer = all.nvlink_centric = INT_MIN;
  if (version < 22900) all.graph_usage_mode = all.rma_contexts = INT_MIN;
  if (version < 23000) all.max_p2p_peers = INT_MIN;
  if (version < 23005) all.graph_stream_ordering = INT_MIN;
}

void check(std::string_view name, int value, int least, int most) {
  if (value == INT_MIN || (value >= least && value <= most)) return;
  if (most == INT_MAX)
    refuse(ncclInvalidArgument, "config: {} is {}: expected {} or more", name, value, least);
  refuse(ncclInvalidArgument, "config: {} is {}: expected {} to {}", name, value, least, most);
}

void check(const Config& config) {
  check("blocking", config.blocking, 0, 1);
  check("cgaClusterSize", config.cga_cluster_size, 0, INT_MAX);
  check("minCTAs", config.min_ctas, 1, INT_MAX);
  check("maxCTAs", config.max_ctas, 1, INT_MAX);
  if (config.min_ctas != INT_MIN && config.max_ctas != INT_MIN && config.min_ctas > config.max_ctas)
    refuse(ncclInvalidArgument,
           "config: minCTAs is {} and maxCTAs is {}: expected minCTAs to be at most maxCTAs",
           config.min_ctas, config.max_ctas);
  check("splitShare", config.split_share, 0, 1);
  check("collnetEnable", config.collnet_enable, 0, 1);
  check("shrinkShare", config.shrink_share, 0, 1);
  check("nvlsCTAs", config.nvls_ctas, 1, INT_MAX);
  check("nChannelsPerNetPeer", config.channels_per_net_peer, 1, 64);
  check("graphUsageMode", config.graph_usage_mode, 0, 2);
  check("numRmaCtx", config.rma_contexts, 0, INT_MAX);
  check("maxP2pPeers", config.max_p2p_peers, 1, INT_MAX);
  if (!config.net_name.empty() && config.net_name != "Socket" && config.net_name != "IB")
    refuse(
        ncclInvalidUsage,
        "config: netName is \"{}\": expected \"Socket\" or \"IB\"; ccoll loads no network plugins",
        config.net_name);
}

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

}  // namespace

Config read_config(const void* config) {
  if (config == nullptr) return {};
  const auto head = read_head(config, {"config", "NCCL_CONFIG_INITIALIZER"});
  Layout all;
  std::memcpy(static_cast<void*>(&all), config, std::min(head.size, sizeof all));
  forget_what_is_newer(all);
  Config read{
      .blocking = all.blocking,
      .cga_cluster_size = all.cga_cluster_size,
      .min_ctas = all.min_ctas,
      .max_ctas = all.max_ctas,
      .net_name = text_of(all.net_name),
      .split_share = all.split_share,
      .traffic_class = all.traffic_class,
      .comm_name = text_of(all.comm_name),
      .collnet_enable = all.collnet_enable,
      .cta_policy = all.cta_policy,
      .shrink_share = all.shrink_share,
      .nvls_ctas = all.nvls_ctas,
      .channels_per_net_peer = all.channels_per_net_peer,
      .nvlink_centric = all.nvlink_centric,
      .graph_usage_mode = all.graph_usage_mode,
      .rma_contexts = all.rma_contexts,
      .max_p2p_peers = all.max_p2p_peers,
      .graph_stream_ordering = all.graph_stream_ordering,
  };
  check(read);
  return read;
}

Config inherited(Config config, const Config& otherwise) {
  const auto take = [&](int Config::*field) {
    if (config.*field == INT_MIN) config.*field = otherwise.*field;
  };
  for (const auto field :
       {&Config::blocking, &Config::cga_cluster_size, &Config::min_ctas, &Config::max_ctas,
        &Config::split_share, &Config::traffic_class, &Config::collnet_enable, &Config::cta_policy,
        &Config::shrink_share, &Config::nvls_ctas, &Config::channels_per_net_peer,
        &Config::nvlink_centric, &Config::graph_usage_mode, &Config::rma_contexts,
        &Config::max_p2p_peers, &Config::graph_stream_ordering})
    take(field);
  if (config.net_name.empty()) config.net_name = otherwise.net_name;
  return config;
}

}  // namespace ccoll::nccl

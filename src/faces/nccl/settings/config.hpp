// SPDX-License-Identifier: Apache-2.0
#pragma once

/// ncclConfig_t as programs of any year have it: only the fields of their header are read.

#include <climits>
#include <string>

namespace ccoll::nccl {

/// A config's fields. Those that are not set are INT_MIN, or empty.
struct Config {
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  std::string net_name = {};
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
  std::string comm_name = {};
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
  friend bool operator==(const Config&, const Config&) = default;
};

/// Reads the bytes of an ncclConfig_t; NULL sets nothing. Strings are copied. It never reads beyond
/// the size in the config itself. Throws Refusal.
Config read_config(const void* config);

/// `config`, and `otherwise` for fields that are not set: how a communicator inherits. A name is
/// not inherited.
Config inherited(Config config, const Config& otherwise);

}  // namespace ccoll::nccl

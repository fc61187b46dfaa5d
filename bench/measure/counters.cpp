// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/counters.hpp"

#include <nlohmann/json.hpp>

namespace ccoll::bench {

nlohmann::json counters_json(int rank, const Counters& counters) {
  nlohmann::json json = {
      {"rank", rank}, {"collectives", counters.collectives}, {"peers", nlohmann::json::array()}};
  if (counters.device_memory_bytes > 0) json["device_memory_bytes"] = counters.device_memory_bytes;
  if (counters.device_workspace_bytes > 0)
    json["device_workspace_bytes"] = counters.device_workspace_bytes;
  for (const PeerCounters& peer : counters.peers) {
    json["peers"].push_back({{"rank", peer.rank},
                             {"transport", peer.transport},
                             {"messages_sent", peer.messages_sent},
                             {"bytes_sent", peer.bytes_sent},
                             {"messages_received", peer.messages_received},
                             {"bytes_received", peer.bytes_received},
                             {"waits", peer.waits},
                             {"time_lost_us", static_cast<double>(peer.time_lost.count()) / 1e3},
                             {"retries", peer.retries},
                             {"errors", peer.errors}});
  }
  return json;
}

nlohmann::json gather_counters(Communicator& communicator) {
  const int rank = communicator.rank();
  const auto texts =
      communicator.gather_bytes(counters_json(rank, communicator.counters()).dump(), 0);
  if (rank != 0) return nullptr;
  auto all = nlohmann::json::array();
  for (const auto& text : texts) all.push_back(nlohmann::json::parse(text));
  return all;
}

}  // namespace ccoll::bench

// SPDX-License-Identifier: Apache-2.0
#include "sim/presets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "core/text.hpp"

namespace ccoll::sim {
namespace {

constexpr Preset kInside[] = {
    {"nvlink", "H100 or H200 GPUs over NVLink 4",
     R"(lanes_in_turn = 0        # assumed: a GPU runs each lane on processors of its own
inside_latency_us = 0.2  # NCCL src/graph/tuning.cc: 0.6 us a hop (LL protocol), less two steps
inside_step_us = 0.2     # half of the 0.4 us that each further peer takes there ("arity")
inside_gb_per_s = 450    # NVLink 4, one direction: S. Jeaugey (NVIDIA), nccl-tests issue 212
reduce_gb_per_s = 1366   # two reads and a write at 4.1 TB/s: H200, Azure AI-benchmarking-guide
)",
     R"(slots_per_link = 8       # NCCL's Simple protocol: arXiv 2507.04786
slot_kib = 512           # NCCL's Simple protocol: arXiv 2507.04786
)"},
    {"nvlink2", "V100 GPUs over NVLink 2, every pair of a node alike",
     R"(lanes_in_turn = 0        # assumed: a GPU runs each lane on processors of its own
inside_latency_us = 0.2  # NCCL src/graph/tuning.cc: 0.6 us a hop (LL protocol), less two steps
inside_step_us = 0.2     # half of the 0.4 us that each further peer takes there ("arity")
inside_gb_per_s = 50     # two bricks of 25 GB/s between two GPUs: WikiChip, Summit
port_gb_per_s = 100      # two such groups; the third goes to the CPU: WikiChip, Summit
reduce_gb_per_s = 300    # two reads and a write at 900 GB/s: T. Papatheodore (ORNL), May 2019
)",
     R"(slots_per_link = 8       # NCCL's Simple protocol: arXiv 2507.04786
slot_kib = 512           # NCCL's Simple protocol: arXiv 2507.04786
)"},
    {"shm", "processes with shared memory, a core each",
     R"(lanes_in_turn = 1         # ccoll: one thread per rank
inside_latency_us = 0.15  # ccoll's estimate (src/comm/groups/costs.cpp)
inside_step_us = 0.12     # ccoll's estimate (src/comm/groups/costs.cpp)
inside_gb_per_s = 9       # ccoll's estimate (src/comm/groups/costs.cpp)
moved_by_ranks = 1        # ccoll: ranks copy into slots and reduce out of them
reduce_gb_per_s = 12      # ccoll's estimate (src/comm/groups/costs.cpp)
)",
     R"(slots_per_link = 4        # ccoll's links (src/transport/link.hpp)
slot_kib = 32             # ccoll's estimate (src/comm/groups/costs.cpp)
)"},
};

constexpr Preset kAcross[] = {
    {"eth100", "100 Gb/s Ethernet with TCP",
     R"(across_latency_us = 5  # 10 us between programs (Larsen et al. 2009), less two steps
across_step_us = 2.5   # a system call: ccoll's estimate (src/algorithms/algorithms.hpp)
across_gb_per_s = 2.5  # one connection: ccoll's estimate (src/algorithms/algorithms.hpp)
nic_gb_per_s = 12.5    # the standard's name: 100 Gb/s
)",
     R"(slots_per_link = 4     # ccoll's links (src/transport/link.hpp)
slot_kib = 128         # ccoll's TCP links (src/transport/link.hpp)
)"},
    {"ib100", "InfiniBand EDR",
     R"(across_latency_us = 1.7  # NCCL src/graph/tuning.cc: 2.7 us a ring hop (LL), less two steps
across_step_us = 0.5     # half of the 1 us that posting takes there (getNetOverhead)
across_gb_per_s = 12.5   # the standard's name: EDR, 100 Gb/s
)",
     ""},
    {"ib200", "InfiniBand HDR",
     R"(across_latency_us = 1.7  # NCCL src/graph/tuning.cc: 2.7 us a ring hop (LL), less two steps
across_step_us = 0.5     # half of the 1 us that posting takes there (getNetOverhead)
across_gb_per_s = 25     # the standard's name: HDR, 200 Gb/s
)",
     ""},
    {"ib400", "InfiniBand NDR",
     R"(across_latency_us = 1.7  # NCCL src/graph/tuning.cc: 2.7 us a ring hop (LL), less two steps
across_step_us = 0.5     # half of the 1 us that posting takes there (getNetOverhead)
across_gb_per_s = 50     # the standard's name: NDR, 400 Gb/s
)",
     ""},
};

constexpr NetworkPreset kNetworks[] = {
    {"laptop", "one machine of 8 cores, ranks that share memory",
     R"(cores_per_node = 8         # assumed
)",
     "shm", ""},
    {"nvlink8", "8 GPUs that NVLink joins; more ranks as if the box were larger",
     R"(ranks_per_node = 0         # all in one box
)",
     "nvlink", ""},
    {"eth100", "machines on 100 Gb/s Ethernet, one rank on each",
     R"(ranks_per_node = 1         # assumed
)",
     "shm", "eth100"},
    {"ndr", "8 GPUs and 8 InfiniBand NDR adapters on each node, as in a DGX H100",
     R"(ranks_per_node = 8         # DGX H100 user guide, NVIDIA: 8 GPUs
nics_per_node = 8          # DGX H100 user guide, NVIDIA: a ConnectX-7 for each GPU
)",
     "nvlink", "ib400"},
    {"summit", "Summit as in 2018: 6 V100 GPUs on a node, dual-port InfiniBand EDR",
     R"(ranks_per_node = 6         # T. Papatheodore, ORNL, "Summit architecture overview", 20 May 2019
nics_per_node = 2          # the same: dual-port EDR, taken for two NICs
)",
     "nvlink2", "ib100"},
};

template <typename Table>
const auto* find(const Table& table, std::string_view name) {
  const auto found = std::ranges::find_if(table, [&](const auto& row) { return row.name == name; });
  return found == std::end(table) ? nullptr : &*found;
}

template <typename Table>
std::vector<std::string_view> names_of(const Table& table) {
  std::vector<std::string_view> names;
  for (const auto& row : table) names.push_back(row.name);
  return names;
}

/// A count with a name: "8xib200" is eight of "ib200".
struct Counted {
  Rank count = 1;
  std::string_view name;
};

std::optional<Rank> parse_count(std::string_view text) {
  Rank count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count == 0) return std::nullopt;
  return count;
}

Counted parse_counted(std::string_view text) {
  const auto times = text.find('x');
  const auto count =
      times == std::string_view::npos ? std::nullopt : parse_count(text.substr(0, times));
  return count ? Counted{*count, text.substr(times + 1)} : Counted{1, text};
}

/// All slots have one size: links between nodes decide it, as when the library chooses.
std::string links_text(const Preset& inside, const Preset* across) {
  std::string text(inside.text);
  if (across != nullptr) text += across->text;
  return text += across != nullptr && !across->slots.empty() ? across->slots : inside.slots;
}

template <typename Table>
Result<const Preset*> link_named(const Table& table, std::string_view what, std::string_view name) {
  const Preset* found = find(table, name);
  if (found != nullptr) return found;
  return fail(ErrorKind::invalid_argument, "{}", unknown_word(what, name, names_of(table)));
}

tl::unexpected<Failure> unknown_network(std::string_view name) {
  return fail(ErrorKind::invalid_argument,
              "{}; or put one together: 'nodes-of-8:INSIDE+ACROSS', 'nodes-of-8:INSIDE+4xACROSS' "
              "(four NICs), 'one-node:INSIDE'; or give a file",
              unknown_word("network", name, names_of(kNetworks)));
}

/// Reads "nodes-of-8:nvlink+8xib200", "one-node:shm".
Result<std::string> text_put_together(std::string_view name) {
  constexpr std::string_view kNodes = "nodes-of-";
  const auto colon = name.find(':');
  const std::string_view node = name.substr(0, colon);
  const std::string_view links = name.substr(colon + 1);
  const auto plus = links.find('+');
  const auto inside = link_named(kInside, "link inside a node", links.substr(0, plus));
  if (!inside) return tl::unexpected(inside.error());
  if (node == "one-node") {
    if (plus == std::string_view::npos) return links_text(**inside, nullptr);
    return fail(ErrorKind::invalid_argument, "'{}': one node has no links between nodes", name);
  }
  const auto ranks =
      node.starts_with(kNodes) ? parse_count(node.substr(kNodes.size())) : std::nullopt;
  if (!ranks) return unknown_network(name);
  if (plus == std::string_view::npos)
    return fail(ErrorKind::invalid_argument, "'{}': add what joins nodes, as in '{}+ib200'", name,
                name);
  const Counted nics = parse_counted(links.substr(plus + 1));
  const auto across = link_named(kAcross, "link between nodes", nics.name);
  if (!across) return tl::unexpected(across.error());
  return fmt::format("ranks_per_node = {} # asked for\nnics_per_node = {} # asked for\n{}", *ranks,
                     nics.count, links_text(**inside, *across));
}

}  // namespace

std::span<const NetworkPreset> network_presets() { return kNetworks; }
std::span<const Preset> inside_presets() { return kInside; }
std::span<const Preset> across_presets() { return kAcross; }

Result<std::string> network_text(std::string_view name) {
  if (name.find(':') != std::string_view::npos) return text_put_together(name);
  const NetworkPreset* preset = find(kNetworks, name);
  if (preset == nullptr) return unknown_network(name);
  const Preset* across = preset->across.empty() ? nullptr : find(kAcross, preset->across);
  return std::string(preset->node) + links_text(*find(kInside, preset->inside), across);
}

}  // namespace ccoll::sim

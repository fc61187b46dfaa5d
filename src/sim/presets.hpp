// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Networks by name: whole ones, and links to combine. Each is a text in the form that
/// parse_network reads, with the source of every number; "assumed" if there is none.

#include <span>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "sim/network.hpp"

namespace ccoll::sim {

/// One kind of link.
struct Preset {
  std::string_view name;
  std::string_view what;
  std::string_view text;
  std::string_view slots;  ///< the lines of the text about slots; empty: as inside a node
};

/// Whole networks, each a name for node and links: "ranks, NICs and cores" + inside + across.
struct NetworkPreset {
  std::string_view name;
  std::string_view what;
  std::string_view node;
  std::string_view inside;  ///< name of a link
  std::string_view across;  ///< name of a link; empty if there is one node
};

std::span<const NetworkPreset> network_presets();
/// Links inside a node, and between nodes.
std::span<const Preset> inside_presets();
std::span<const Preset> across_presets();

inline constexpr std::string_view kDefaultNetwork = "nodes-of-8:nvlink+ib200";

/// The text of a preset, or of "nodes-of-8:nvlink+ib200" (one NIC of that kind on each node),
/// "nodes-of-8:nvlink+8xib200" (eight) and "one-node:nvlink". Fails with invalid_argument, and
/// lists the names.
Result<std::string> network_text(std::string_view name);

}  // namespace ccoll::sim

// SPDX-License-Identifier: Apache-2.0
#include "transport/transport.hpp"

#include <algorithm>
#include <array>

#include "transport/inproc/factory.hpp"
#include "transport/shm/factory.hpp"
#include "transport/tcp/factory.hpp"
#include "transport/verbs/factory.hpp"

namespace ccoll {

std::span<const TransportKind> transports() {
  static const std::array kTable = {
      TransportKind{"inproc", inproc::reaches, inproc::make,
                    "ranks that are threads of one process"},
      TransportKind{"shm", shm::reaches, shm::make, "processes of one host: memory that both map"},
      TransportKind{"verbs", verbs::reaches, verbs::make, "RDMA devices: InfiniBand or RoCE v2"},
      TransportKind{"tcp", tcp::reaches, tcp::make, "sockets, any two ranks"},
  };
  return kTable;
}

const TransportKind* find_transport(std::string_view name) {
  const auto table = transports();
  const auto found = std::ranges::find(table, name, &TransportKind::name);
  return found == table.end() ? nullptr : &*found;
}

Result<std::uint8_t> usable_fabrics() { return verbs::usable_fabrics(); }

std::uint8_t usable_rails() { return verbs::usable_rails(); }

std::vector<std::string> describe_fabrics() { return verbs::describe_fabrics(); }

}  // namespace ccoll

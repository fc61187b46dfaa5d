// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An RDMA device in this process's memory: `fake0`, whose port 1 (or all ports, if there are
/// several) has the address 127.0.0.1. Tests linked with `rdma` (tests/rdma/meson.build) get it
/// instead of libibverbs, by the linker's --wrap. So links over RDMA are tested without a device,
/// and under sanitizers. CCOLL_TEST_RDMA=real keeps the real library behind the faults of
/// faults.hpp. It implements what ccoll uses, reliable connections and RDMA writes, as strictly as
/// a device may. Queues hold only what was requested, each state needs all its attributes, and a
/// failed completion has only the specified fields. Memory registered by descriptor, like a GPU's
/// dma-buf, is accessed through that alone, so no CPU need reach its address. Misuse that a device
/// would not forgive ends the test with a message.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ccoll::testing::rdma {

/// The device's objects that exist at this moment.
struct Objects {
  std::size_t pairs = 0, queues = 0, channels = 0, registrations = 0;
  friend bool operator==(const Objects&, const Objects&) = default;
};
Objects objects();
/// How many of the registrations are by descriptor.
std::size_t exported_memories();

/// How often a message arrived without a posted receive.
std::uint64_t times_not_ready();

/// How many writes the port has sent.
std::uint64_t times_sent(std::size_t port);

/// Raises an asynchronous event of the device or a port.
void tell(ibv_event_type event, int port = 1);
/// Raises an event of a queue pair, the `number`-th oldest that exists, from 0, or of its
/// completion queue.
void tell_of_pair(ibv_event_type event, std::size_t number);
void tell_of_queue(ibv_event_type event, std::size_t number);
/// Events that are not yet acknowledged.
std::size_t untold();

/// Whether the library lists the device.
void set_present(bool is_present);
/// Whether opening the device blocks.
void hold_opening(bool hold);
/// Whether anybody has tried to open it since.
bool is_opening();
/// Sets the state that its ports report.
void set_port(ibv_port_state now);
/// Sets the number of ports for later openings, up to kMostPorts.
void set_ports(std::uint8_t count);
inline constexpr std::size_t kMostPorts = 4;
/// The names of its functions.
std::vector<std::string_view> names();

/// Packets wait while the cable is unplugged. `true, true`: they have timed out before it is
/// plugged in again.
void plug(bool in, bool too_late = false);

/// The `number`-th queue pair's data arrives, but the peer's acknowledgements are delayed until
/// confirm_all().
void confirm_late(std::size_t number);
void confirm_all();

/// libibverbs' function of that name; null if the device has none.
void* entry(std::string_view name);

}  // namespace ccoll::testing::rdma

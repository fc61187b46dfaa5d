// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An RDMA device that is but memory of this process: `fake0`, whose port 1 (all of its ports, if
/// it is to have several) has the address 127.0.0.1. Linking a test with `rdma`
/// (tests/rdma/meson.build) gives it to ccoll in libibverbs' place, by the linker's --wrap, so that
/// links over RDMA are tested where there is no device, under sanitizers too; CCOLL_TEST_RDMA=real
/// leaves the real library there, behind the faults of faults.hpp. It knows what ccoll uses,
/// reliable connections and RDMA writes, and is as strict as a device may be: queues hold what was
/// asked for and no more, states need all their attributes, an error leaves of a completion what
/// the specification says. What is registered by a descriptor, as a GPU's memory is by its dma-buf,
/// it reads and writes through that alone, so that its address may be one that no CPU can use.
/// Misuse that a device would not forgive ends the test with a message.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ccoll::testing::rdma {

/// What there is of the device's at this moment.
struct Objects {
  std::size_t pairs = 0, queues = 0, channels = 0, registrations = 0;
  friend bool operator==(const Objects&, const Objects&) = default;
};
Objects objects();
/// Registrations by descriptor among them.
std::size_t exported_memories();

/// How often a message came for which no receive was posted.
std::uint64_t times_not_ready();

/// How many writes that port has sent.
std::uint64_t times_sent(std::size_t port);

/// An asynchronous event of the device or a port.
void tell(ibv_event_type event, int port = 1);
/// Of the queue pair that was the `number`-th to be made of those there are, from 0; or of the
/// queue that its completions come to.
void tell_of_pair(ibv_event_type event, std::size_t number);
void tell_of_queue(ibv_event_type event, std::size_t number);
/// Events that nobody has acknowledged yet.
std::size_t untold();

/// Whether the library lists it from now on.
void set_present(bool is_present);
/// Whoever opens it waits while that is so.
void hold_opening(bool hold);
/// Whether anybody has begun to since.
bool is_opening();
/// What its ports say of themselves from now on.
void set_port(ibv_port_state now);
/// How many ports it has, for whoever opens it from now on: up to kMostPorts.
void set_ports(std::uint8_t count);
inline constexpr std::size_t kMostPorts = 4;
/// Its functions.
std::vector<std::string_view> names();

/// While it is out, packets wait; once it is in they go; `true, true`: they have been repeated in
/// vain meanwhile.
void plug(bool in, bool too_late = false);

/// From now on what the `number`-th queue pair sends arrives, and the peer's confirmations are
/// late: until nobody's are.
void confirm_late(std::size_t number);
void confirm_all();

/// libibverbs' function of that name; null where the device has none.
void* entry(std::string_view name);

}  // namespace ccoll::testing::rdma

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How communicators come up: from an id, from an address that all know, or inside this process.

#include <memory>
#include <string>
#include <variant>

#include "ccoll/store.hpp"
#include "ccoll/unique_id.hpp"
#include "faces/nccl/comm.hpp"

namespace ccoll::nccl {

/// The "host:port" that NCCL_COMM_ID names: rank 0 serves a store there.
struct KnownAddress {
  std::string address;
};

/// Where the ranks of one communicator find each other.
using Meeting = std::variant<UniqueId, KnownAddress, std::shared_ptr<Store>>;

/// Reads the bytes of an id.
Meeting meeting_of(const ncclUniqueId& id);
/// A new one, or the address that NCCL_COMM_ID names.
ncclUniqueId new_id();

/// Returns when all ranks have come, or throws; soon where `guard`, or the communicator itself, was
/// ended meanwhile.
void start(const std::shared_ptr<Comm>& comm, const Meeting& at,
           const std::shared_ptr<Comm>& guard);

/// The device of what the calling thread makes now.
int device_of_thread();

}  // namespace ccoll::nccl

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How communicators start: from an id, from an address that all know, or inside this process.

#include <memory>
#include <string>
#include <variant>

#include "ccoll/store.hpp"
#include "ccoll/unique_id.hpp"
#include "faces/nccl/comm.hpp"

namespace ccoll::nccl {

/// The "host:port" in NCCL_COMM_ID: rank 0 serves a store there.
struct KnownAddress {
  std::string address;
};

/// The place where the ranks of one communicator find each other.
using Meeting = std::variant<UniqueId, KnownAddress, std::shared_ptr<Store>>;

/// Reads the bytes of an id.
Meeting meeting_of(const ncclUniqueId& id);
/// A new id, or the address in NCCL_COMM_ID.
ncclUniqueId new_id();

/// Returns when all ranks have come, or throws; soon if `guard`, or the communicator itself, was
/// ended meanwhile.
void start(const std::shared_ptr<Comm>& comm, const Meeting& at,
           const std::shared_ptr<Comm>& guard);

/// The device for what the calling thread makes now.
int device_of_thread();

}  // namespace ccoll::nccl

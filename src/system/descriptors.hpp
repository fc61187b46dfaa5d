// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Sends and receives bytes and file descriptors over a connected Unix socket.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::shm {

/// Sends all at once; the socket must have room. Fails with `exhausted` if a retry may help: an
/// unprivileged user has a limit on descriptors in flight.
Status send_with_descriptors(int socket, std::string_view bytes, std::span<const int> descriptors);

struct WithDescriptors {
  std::string bytes;
  std::vector<FileDescriptor> descriptors;
};
/// Receives up to `bytes` bytes and their descriptors. Fails with `peer_lost` if the peer has
/// closed, or with `exhausted` if nothing has come yet.
Result<WithDescriptors> receive_with_descriptors(int socket, std::size_t bytes);

}  // namespace ccoll::shm

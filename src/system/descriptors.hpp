// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Bytes and file descriptors over a connected Unix socket.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::shm {

/// At once: few enough for the socket to take. Fails with `exhausted` where it may help to come
/// again: an unprivileged user has only so many descriptors on their way at a time.
Status send_with_descriptors(int socket, std::string_view bytes, std::span<const int> descriptors);

struct WithDescriptors {
  std::string bytes;
  std::vector<FileDescriptor> descriptors;
};
/// What has come, up to so many of each; the failure if the peer has closed, or `exhausted` where
/// nothing has come yet.
Result<WithDescriptors> receive_with_descriptors(int socket, std::size_t bytes);

}  // namespace ccoll::shm

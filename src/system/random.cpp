// SPDX-License-Identifier: Apache-2.0
#include "system/random.hpp"

#include <unistd.h>

#include <cerrno>

#include "core/os_error.hpp"

namespace ccoll {

Status fill_random(std::span<std::byte> bytes) {
  if (getentropy(bytes.data(), bytes.size()) == 0) return {};
  return fail(ErrorKind::internal, "the system gives no random bytes: {}", os_error(errno));
}

}  // namespace ccoll

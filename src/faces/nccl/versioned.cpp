// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/versioned.hpp"

#include <cstring>

#include "faces/nccl/results.hpp"

namespace ccoll::nccl {

VersionedHead read_head(const void* from, const VersionedKind& kind) {
  VersionedHead head{};
  std::memcpy(&head, from, sizeof head.size);
  if (head.size < kind.least)
    refuse(kind.refusal, "{}: its size is {} bytes, expected at least {}: begin with {}", kind.name,
           head.size, kind.least, kind.initializer);
  std::memcpy(&head, from, sizeof head);
  if (head.magic != kind.magic)
    refuse(kind.refusal, "{}: its magic number is {:#x}, expected {:#x}: begin with {}", kind.name,
           head.magic, kind.magic, kind.initializer);
  return head;
}

}  // namespace ccoll::nccl

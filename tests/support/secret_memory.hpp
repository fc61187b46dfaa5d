// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that this process can access but the kernel cannot copy, like mappings of devices.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <span>

#include "system/file_descriptor.hpp"

namespace ccoll::testing {

class SecretMemory {
 public:
  explicit SecretMemory(std::size_t bytes) {
#ifdef SYS_memfd_secret
    const FileDescriptor file(static_cast<int>(syscall(SYS_memfd_secret, O_CLOEXEC)));
    if (file.number() < 0 || ftruncate(file.number(), static_cast<off_t>(bytes)) != 0) return;
    void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
    if (place != MAP_FAILED) bytes_ = {static_cast<std::byte*>(place), bytes};
#endif
  }
  ~SecretMemory() {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  }
  SecretMemory(const SecretMemory&) = delete;
  SecretMemory& operator=(const SecretMemory&) = delete;

  /// Empty if the kernel provides none.
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace ccoll::testing

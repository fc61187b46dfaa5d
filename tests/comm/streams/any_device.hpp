// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Device memory of the kinds that users have.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "ccoll/memory.hpp"
#include "devices.hpp"
#include "support/memory_kind.hpp"

namespace ccoll::testing {

/// The same number always gives the same kind.
inline MemoryKind kind_of(unsigned number) {
  return kMemoryKinds[number % std::size(kMemoryKinds)];
}

/// Device memory, somewhere within an allocation. Registered memory is never freed, so that nobody
/// has to wait until others have released it.
class AnyDevice {
 public:
  AnyDevice(const Values& values, MemoryKind kind, std::size_t skipped) : count_(values.size()) {
    if (kind == MemoryKind::allocated) {
      lent_ = allocate((skipped + count_ + 1) * sizeof(values[0]), Where::device);
      data_ = lent_.as<std::int32_t>().data() + skipped;
    } else {
      own_.emplace(Values(skipped + count_ + 1));
      data_ = own_->data() + skipped;
    }
    if (kind == MemoryKind::registered) lent_ = register_memory(data_, bytes() + sizeof(values[0]));
    check_cuda(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "copying there");
  }
  std::int32_t* data() const { return data_; }
  Values values() const {
    Values values(count_);
    check_cuda(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), "copying back");
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(std::int32_t); }

  const std::size_t count_;
  std::optional<Device> own_;
  Memory lent_;
  std::int32_t* data_ = nullptr;
};

}  // namespace ccoll::testing

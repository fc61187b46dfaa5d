// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of the device as users have it.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ccoll/memory.hpp"
#include "devices.hpp"

namespace ccoll::testing {

/// Memory of the device, of cudaMalloc or of ccoll::allocate, somewhere in it.
class AnyDevice {
 public:
  AnyDevice(const Values& values, bool is_registered, std::size_t skipped) : count_(values.size()) {
    if (!is_registered) {
      ordinary_.emplace(values);
      return;
    }
    registered_ = allocate((skipped + count_ + 1) * sizeof(values[0]), Where::device);
    data_ = registered_.as<std::int32_t>().data() + skipped;
    check_cuda(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "copying there");
  }
  std::int32_t* data() const { return ordinary_ ? ordinary_->data() : data_; }
  Values values() const {
    if (ordinary_) return ordinary_->values();
    Values values(count_);
    check_cuda(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), "copying back");
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(std::int32_t); }

  const std::size_t count_;
  std::optional<Device> ordinary_;
  Memory registered_;
  std::int32_t* data_ = nullptr;
};

}  // namespace ccoll::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The content of messages of bytes in tests, and its place.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "ccoll/types.hpp"
#include "support/gpu/device_buffer.hpp"

namespace ccoll::testing {

using MessageBytes = std::vector<std::uint8_t>;
constexpr DataType kByte = DataType::uint8;

/// The content of the message with that number.
inline MessageBytes message_bytes(std::size_t bytes, std::uint32_t number) {
  MessageBytes all(bytes);
  std::minstd_rand random(number + 1);
  std::ranges::generate(all, [&] { return static_cast<std::uint8_t>(random() >> 8); });
  return all;
}

/// A buffer in the device's memory, or in the host's.
class MessagePlace {
 public:
  MessagePlace(bool is_there, const MessageBytes& bytes) {
    if (is_there)
      there_ = std::make_unique<DeviceBuffer<std::uint8_t>>(bytes);
    else
      here_ = bytes;
  }
  std::uint8_t* data() { return there_ ? there_->data() : here_.data(); }
  MessageBytes bytes() const { return there_ ? there_->values() : here_; }

 private:
  std::unique_ptr<DeviceBuffer<std::uint8_t>> there_;
  MessageBytes here_;
};

}  // namespace ccoll::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads and writes the fields of a message: little-endian integers and length-prefixed strings. A
/// Reader never reads beyond its bytes: after the first missing field it is `bad()`.

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ccoll::net {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

class Writer {
 public:
  template <std::unsigned_integral T>
  Writer& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T number() {
    T value{};
    if (bad_ || rest_.size() < sizeof value) return bad_ = true, T{};
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  /// A view into the bytes given at construction.
  std::string_view text() {
    const auto length = number<std::uint32_t>();
    if (bad_ || rest_.size() < length) return bad_ = true, std::string_view{};
    const auto value = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return value;
  }
  bool bad() const { return bad_; }
  /// True if all was read and nothing was missing.
  bool complete() const { return !bad_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool bad_ = false;
};

}  // namespace ccoll::net

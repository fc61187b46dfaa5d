// SPDX-License-Identifier: Apache-2.0
// Rows that a stream brings together and apart, in memory of the host and of a device that the host
// plays.
#include "gpu/staging/packing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/staging/row_copies.hpp"
#include "held_by_host.hpp"
#include "support/gpu/device_buffer.hpp"

using namespace ccoll;
using namespace ccoll::device;
using ccoll::testing::DeviceBuffer;
using ccoll::testing::OwnedStream;

namespace {

using Bytes = std::vector<std::byte>;

Bytes some_bytes(std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count);
  for (auto& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

/// Memory of the device or of the host, which the CPU can touch either way.
class EitherMemory {
 public:
  EitherMemory(const Bytes& bytes, bool is_on_device) : host_(bytes) {
    if (is_on_device) device_.emplace(bytes);
  }
  std::byte* data() { return device_ ? device_->data() : host_.data(); }
  Bytes bytes() { return {data(), data() + host_.size()}; }

 private:
  Bytes host_;
  std::optional<DeviceBuffer<std::byte>> device_;
};

/// Rows with gaps, and room for them together.
struct SomeRows {
  PackedRows rows;
  Bytes apart, together;  ///< as they are at first
  EitherMemory apart_memory, together_memory;

  explicit SomeRows(std::mt19937_64& random) : SomeRows(shape(random), random) {}

  Bytes apart_expected() const { return moved(false); }
  Bytes together_expected() const { return moved(true); }

 private:
  static PackedRows shape(std::mt19937_64& random) {
    PackedRows made;
    made.row_bytes = 1 + random() % 40;
    made.stride_bytes = made.row_bytes + random() % 3 * 8;
    made.count = 1 + random() % 30;
    made.is_on_device = random() % 2 == 0;
    made.is_read = random() % 3 > 0;
    made.is_written = random() % 3 > 0;
    return made;
  }
  SomeRows(const PackedRows& made, std::mt19937_64& random)
      : rows(made),
        apart(some_bytes(made.count * made.stride_bytes, random)),
        together(some_bytes(made.count * made.row_bytes, random)),
        apart_memory(apart, made.is_on_device),
        together_memory(together, made.is_on_device) {
    rows.rows = apart_memory.data();
    rows.together = together_memory.data();
  }
  Bytes moved(bool to_together) const {
    auto result = to_together ? together : apart;
    for (std::uint64_t row = 0; row < rows.count; row++) {
      const auto far = row * rows.stride_bytes, near = row * rows.row_bytes;
      to_together ? std::memcpy(&result[near], &apart[far], rows.row_bytes)
                  : std::memcpy(&result[far], &together[near], rows.row_bytes);
    }
    return result;
  }
};

Packing packing_of(const std::vector<std::unique_ptr<SomeRows>>& all) {
  Packing packing;
  for (const auto& each : all) packing.rows.push_back(each->rows);
  return packing;
}

std::vector<std::unique_ptr<SomeRows>> several_rows(std::mt19937_64& random) {
  std::vector<std::unique_ptr<SomeRows>> all(random() % 4);
  for (auto& each : all) each = std::make_unique<SomeRows>(random);
  return all;
}

}  // namespace

TEST_CASE("packing: the rows that a call reads come together, and no others", "[gpu][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const OwnedStream stream;
  for (int i = 0; i < 200; i++) {
    CAPTURE(seed, i);
    const auto all = several_rows(random);
    const auto packing = packing_of(all);
    REQUIRE(put_together(packing, stream));
    stream.wait();
    for (const auto& each : all) {
      CHECK(each->apart_memory.bytes() == each->apart);
      CHECK(each->together_memory.bytes() ==
            (each->rows.is_read ? each->together_expected() : each->together));
    }
  }
}

TEST_CASE("packing: the rows that a call has written come apart, and the gaps stay",
          "[gpu][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const OwnedStream stream;
  for (int i = 0; i < 200; i++) {
    const auto all = several_rows(random);
    const auto packing = packing_of(all);
    const bool in_two = random() % 2 == 0;
    CAPTURE(seed, i, in_two);
    const auto check = [&](bool host_is_done) {
      for (const auto& each : all) {
        const bool is_done = each->rows.is_written && (each->rows.is_on_device || host_is_done);
        CHECK(each->apart_memory.bytes() == (is_done ? each->apart_expected() : each->apart));
        CHECK(each->together_memory.bytes() == each->together);
      }
    };
    if (in_two) {
      REQUIRE(put_apart_on_device(packing, stream));
      stream.wait();
      check(false);
      apart_on_host(packing);
    } else {
      REQUIRE(put_apart(packing, stream));
      stream.wait();
    }
    check(true);
  }
}

TEST_CASE("packing: rows move when the stream comes to them", "[gpu]") {
  std::mt19937_64 random(1);
  const OwnedStream stream;
  std::vector<std::unique_ptr<SomeRows>> all;
  while (all.size() < 2 || all[0]->rows.is_on_device == all[1]->rows.is_on_device ||
         !all[0]->rows.is_read || !all[1]->rows.is_read) {
    all.clear();
    for (int i = 0; i < 2; i++) all.push_back(std::make_unique<SomeRows>(random));
  }
  const auto packing = packing_of(all);
  testing::HeldByHost held(stream);
  REQUIRE(put_together(packing, stream));
  for (const auto& each : all) CHECK(each->together_memory.bytes() == each->together);
  held.go_on();
  for (const auto& each : all) CHECK(each->together_memory.bytes() == each->together_expected());
}

TEST_CASE("row copies: ranges of one length and distance are one copy, either way",
          "[gpu][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const OwnedStream stream;
  for (int i = 0; i < 100; i++) {
    CAPTURE(seed, i);
    const auto bytes = 1 + random() % 50, pitch = bytes + random() % 20, count = 1 + random() % 20;
    const auto far = some_bytes(pitch * count, random), near = some_bytes(bytes * count, random);
    EitherMemory there(far, true);
    const auto here = allocate_mapped(near.size()).value();
    std::ranges::copy(near, here.get());
    std::vector<Rows> all;
    for (std::uint64_t row = 0; row < count; row++)
      add_rows(all, {there.data() + row * pitch, bytes}, here.get() + row * bytes);
    REQUIRE(all.size() == 1);
    CHECK(all[0].count == count);
    const auto where = random() % 2 == 0 ? RowsGo::here : RowsGo::there;
    REQUIRE(copy(all[0], where, stream));
    stream.wait();
    auto far_expected = far, near_expected = near;
    for (std::uint64_t row = 0; row < count; row++)
      where == RowsGo::here ? std::memcpy(&near_expected[row * bytes], &far[row * pitch], bytes)
                            : std::memcpy(&far_expected[row * pitch], &near[row * bytes], bytes);
    CHECK(there.bytes() == far_expected);
    CHECK(Bytes(here.get(), here.get() + near.size()) == near_expected);
  }
}

TEST_CASE("row copies: no copy goes on from one allocation into another", "[gpu]") {
  const auto allocated = [] {
    void* memory = nullptr;
    testing::check_cuda(cudaMalloc(&memory, 4096), "cudaMalloc");
    return static_cast<std::byte*>(memory);
  };
  auto *first = allocated(), *second = allocated();
  if (second < first) std::swap(first, second);
  std::vector<std::byte> here(64);
  std::vector<Rows> all;
  add_rows(all, {first, 32}, here.data());
  add_rows(all, {second, 32}, here.data() + 32);
  CHECK(all.size() == 2);
  cudaFree(first);
  cudaFree(second);
}

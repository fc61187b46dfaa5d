// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/settings/config.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "faces/nccl/results.hpp"

namespace ccoll::nccl {
namespace {

/// A header's config: its length, and the offset of its last field.
struct Header {
  std::uint32_t version;
  std::size_t size;
};
constexpr Header kHeaders[] = {{21400, 24}, {21700, 40}, {21800, 48}, {22505, 48}, {22602, 48},
                               {22707, 72}, {22809, 80}, {22907, 88}, {23004, 96}, {23007, 96}};

/// The bytes of a config as a program with that header has them: on the heap, no longer than the
/// struct, and with garbage outside of fields.
class Bytes {
 public:
  explicit Bytes(Header header) : bytes_(header.size, std::byte{0x5a}) {
    put(0, header.size);
    put(8, std::uint32_t{0xcafebeef});
    put(12, header.version);
    const auto fields = {16, 20, 24, 28, 40, 44, 56, 60, 64, 68, 72, 76, 80, 84, 88, 92};
    for (const int at : fields)
      if (is_there(header, at)) put(static_cast<std::size_t>(at), INT_MIN);
    for (const int at : {32, 48})
      if (is_there(header, at)) put(static_cast<std::size_t>(at), nullptr);
  }

  template <typename T>
  Bytes& put(std::size_t at, T value) {
    REQUIRE(at + sizeof value <= bytes_.size());
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  const void* data() const { return bytes_.data(); }

 private:
  /// The first version that has a field.
  static bool is_there(Header header, int at) {
    const auto since = at < 20   ? 21400U
                       : at < 40 ? 21700U
                       : at < 44 ? 21800U
                       : at < 48 ? 22600U
                       : at < 72 ? 22700U
                       : at < 80 ? 22800U
                       : at < 88 ? 22900U
                       : at < 92 ? 23000U
                                 : 23005U;
    const auto width = at == 32 || at == 48 ? sizeof(void*) : sizeof(int);
    return header.version >= since && static_cast<std::size_t>(at) + width <= header.size;
  }

  std::vector<std::byte> bytes_;
};

ncclResult_t code_of(const void* config) {
  try {
    read_config(config);
    return ncclSuccess;
  } catch (const Refusal& refusal) {
    CHECK_FALSE(refusal.text.empty());
    return refusal.code;
  }
}

constexpr Header kNewest{23007, 96};

}  // namespace

TEST_CASE("nccl config: none, and one of each header that sets nothing, says nothing",
          "[faces][unit]") {
  CHECK(read_config(nullptr) == Config());
  for (const auto header : kHeaders) {
    CAPTURE(header.version);
    CHECK(read_config(Bytes(header).data()) == Config());
  }
}

TEST_CASE("nccl config: every field of every header is read, and padding is not", "[faces][unit]") {
  for (const auto header : kHeaders) {
    CAPTURE(header.version);
    Config expected;
    Bytes bytes(header);
    bytes.put(16, 0);
    expected.blocking = 0;
    if (header.version >= 21700) {
      bytes.put(28, 7).put(32, "IB");
      expected.max_ctas = 7;
      expected.net_name = "IB";
    }
    if (header.version >= 21800) expected.split_share = (bytes.put(40, 1), 1);
    if (header.version >= 22600) expected.traffic_class = (bytes.put(44, 3), 3);
    if (header.version >= 22700) {
      bytes.put(48, "dp").put(68, 5);
      expected.comm_name = "dp";
      expected.nvls_ctas = 5;
    }
    if (header.version >= 22800) expected.nvlink_centric = (bytes.put(76, 1), 1);
    if (header.version >= 22900) expected.rma_contexts = (bytes.put(84, 2), 2);
    if (header.version >= 23000) expected.max_p2p_peers = (bytes.put(88, 9), 9);
    if (header.version >= 23005) expected.graph_stream_ordering = (bytes.put(92, 0), 0);
    CHECK(read_config(bytes.data()) == expected);
  }
}

TEST_CASE("nccl config: a version that fits no size is no reason to refuse", "[faces][unit]") {
  // Python clients use a struct of their own year, with the library's version.
  CHECK(read_config(Bytes({22809, 48}).data()) == Config());
  CHECK(read_config(Bytes({40000, 96}).data()) == Config());
}

TEST_CASE("nccl config: what cannot be is refused by its name", "[faces][unit]") {
  const auto with = [](std::size_t at, auto value) {
    return code_of(Bytes(kNewest).put(at, value).data());
  };
  CHECK(with(0, std::size_t{15}) == ncclInvalidArgument);
  CHECK(with(8, std::uint32_t{0}) == ncclInvalidArgument);
  CHECK(with(16, 2) == ncclInvalidArgument);
  CHECK(with(16, -1) == ncclInvalidArgument);
  CHECK(with(20, -1) == ncclInvalidArgument);
  CHECK(with(24, 0) == ncclInvalidArgument);
  CHECK(with(28, 0) == ncclInvalidArgument);
  CHECK(with(40, 2) == ncclInvalidArgument);
  CHECK(with(56, 2) == ncclInvalidArgument);
  CHECK(with(64, 2) == ncclInvalidArgument);
  CHECK(with(68, 0) == ncclInvalidArgument);
  CHECK(with(72, 65) == ncclInvalidArgument);
  CHECK(with(80, 3) == ncclInvalidArgument);
  CHECK(with(84, -1) == ncclInvalidArgument);
  CHECK(with(88, 0) == ncclInvalidArgument);
  CHECK(with(32, "aws-ofi") == ncclInvalidUsage);
  CHECK(with(28, 4) == ncclSuccess);
  CHECK(code_of(Bytes(kNewest).put(24, 8).put(28, 4).data()) == ncclInvalidArgument);
}

TEST_CASE("nccl config: a part has its parent's, but for the name", "[faces][unit]") {
  const Config parent{.blocking = 0, .max_ctas = 4, .net_name = "IB", .comm_name = "whole"};
  const auto inherits = inherited({.max_ctas = 2, .comm_name = ""}, parent);
  CHECK(inherits == Config{.blocking = 0, .max_ctas = 2, .net_name = "IB"});
  CHECK(inherited({.comm_name = "part"}, {}).comm_name == "part");
}

}  // namespace ccoll::nccl

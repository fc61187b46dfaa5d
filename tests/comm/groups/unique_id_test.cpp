// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/unique_id.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <set>

namespace ccoll::test {

TEST_CASE("unique id: ids of one process share a store, and each has a number of its own",
          "[comm][unit]") {
  std::set<std::uint64_t> numbers;
  std::set<std::string> stores;
  for (int i = 0; i < 100; i++) {
    const auto contents = read_id(UniqueId::create());
    REQUIRE(contents);
    numbers.insert(contents->number);
    stores.insert(contents->address + " " + contents->token);
  }
  CHECK(numbers.size() == 100);
  CHECK(stores.size() == 1);
}

TEST_CASE("unique id: with any one bit changed it is refused", "[comm][unit][hostile]") {
  auto id = UniqueId::create();
  for (auto& byte : id.bytes) {
    for (unsigned bit = 0; bit < 8; bit++) {
      const auto kept = byte;
      byte = static_cast<std::remove_reference_t<decltype(byte)>>(static_cast<unsigned char>(byte) ^
                                                                  (1U << bit));
      const auto contents = read_id(id);
      CAPTURE(&byte - id.bytes.data(), bit);
      REQUIRE_FALSE(contents);
      CHECK(contents.error().kind == ErrorKind::invalid_argument);
      byte = kept;
    }
  }
  CHECK(read_id(id));
}

}  // namespace ccoll::test

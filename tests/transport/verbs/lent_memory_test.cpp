// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/lent_memory.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <memory>

using namespace ccoll::verbs;

namespace {

/// Stands for a registration, which is only kept.
std::shared_ptr<const Registration> registration() {
  const auto owner = std::make_shared<int>();
  return {owner, reinterpret_cast<const Registration*>(owner.get())};
}

}  // namespace

TEST_CASE("verbs: announced memory is lent slice by slice, in order and once", "[transport]") {
  std::array<std::byte, 100> data{};
  const auto first = registration(), second = registration();
  LentMemory lent;
  CHECK(lent.take(data.data(), 10) == nullptr);
  lent.announce(first, data.data(), 60);
  lent.announce(second, data.data() + 60, 40);
  CHECK(lent.take(data.data() + 60, 40) == nullptr);
  CHECK(lent.take(data.data(), 61) == nullptr);
  CHECK(lent.take(data.data(), 50) == first);
  CHECK(lent.take(data.data(), 10) == nullptr);
  CHECK(lent.take(data.data() + 50, 10) == first);
  CHECK(lent.take(data.data() + 60, 40) == second);
  CHECK(lent.take(data.data() + 60, 40) == nullptr);
}

TEST_CASE("verbs: a registration is kept until the device has read all that is lent of it",
          "[transport]") {
  std::array<std::byte, 100> data{};
  auto memory = registration();
  const std::weak_ptr<const Registration> watched = memory;
  LentMemory lent;
  lent.announce(std::move(memory), data.data(), 100);
  CHECK(lent.is_drained(0));
  CHECK(lent.take(data.data(), 50));
  lent.lend_until(3);
  CHECK_FALSE(lent.is_drained(2));
  CHECK(lent.is_drained(3));
  CHECK_FALSE(watched.expired());
  CHECK(lent.take(data.data() + 50, 50));
  lent.lend_until(5);
  CHECK_FALSE(lent.is_drained(4));
  CHECK_FALSE(watched.expired());
  CHECK(lent.is_drained(5));
  CHECK(watched.expired());

  lent.announce(registration(), data.data(), 100);
  lent.lend_until(9);
  lent.clear();
  CHECK(lent.is_drained(5));
  CHECK(lent.take(data.data(), 100) == nullptr);
}

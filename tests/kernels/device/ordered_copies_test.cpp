// SPDX-License-Identifier: Apache-2.0
// Copies ordered for a launch are made by several blocks of several threads of that launch, and by
// no other launch.
#include "kernels/device/ordered_copies.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "kernels/device/host_block.hpp"

using namespace ccoll::device;

namespace {

using Bytes = std::vector<std::byte>;

/// All blocks of a launch as one, seen by a thread of one of them.
class Everyone {
 public:
  Everyone(const HostBlock& block, std::uint32_t number, std::uint32_t blocks)
      : block_(block), number_(number), blocks_(blocks) {}
  std::uint32_t thread() const { return number_ * block_.threads() + block_.thread(); }
  std::uint32_t threads() const { return blocks_ * block_.threads(); }
  void barrier() const {}

 private:
  const HostBlock& block_;
  std::uint32_t number_, blocks_;
};

void launch(const CopyOrder& order, std::uint32_t number, std::uint32_t blocks,
            std::uint32_t threads) {
  std::vector<std::jthread> running;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    running.emplace_back([&, i] {
      TakenOrder taken;
      run_block(threads, [&](const HostBlock& block) {
        take_order(block, &order, number, taken);
        make_copies(Everyone(block, i, blocks), taken);
      });
    });
  }
}

}  // namespace

TEST_CASE("ordered copies: those of one's own number are made, whole", "[kernels][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 12; ++i) {
    CopyOrder order;
    order.number = 1 + random() % 3;
    order.count = random() % (CopyOrder::kMost + 1);
    Bytes from(40'000), to(40'000), expected;
    for (auto& byte : from) byte = std::byte(random() >> 5);
    expected = to;
    std::size_t at = 0;
    for (std::uint32_t copy = 0; copy < order.count; ++copy) {
      const std::size_t bytes = random() % 1000, source = random() % (from.size() - bytes);
      at += random() % 20;
      order.copies[copy] = {from.data() + source, to.data() + at, bytes};
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source), bytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(at));
      at += bytes;
    }
    const Bytes before = to;
    launch(order, order.number + 1, 2, 3);
    CHECK(to == before);
    launch(order, order.number, 1 + random() % 3, 1 + random() % 4);
    CHECK(to == expected);
  }
}

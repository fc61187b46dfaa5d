// SPDX-License-Identifier: Apache-2.0
// Calls with buffers that other ranks cannot read in place, although they can read ordinary ones.
#include "support/secret_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "comm/on_transports.hpp"

using namespace ccoll;
using testing::expect;

namespace {

using Elements = std::span<std::int32_t>;

/// Element `index` of block `block` that rank `from` sends.
std::int32_t element(int from, std::size_t block, std::size_t index) {
  return from * 10'000'000 + static_cast<std::int32_t>(block * 1'000'000 + index);
}
void fill(Elements block, int from, std::size_t number) {
  for (std::size_t i = 0; i < block.size(); i++) block[i] = element(from, number, i);
}
void expect_block(Elements block, int from, std::size_t number, const char* call) {
  bool is_right = true;
  for (std::size_t i = 0; i < block.size(); i++) is_right &= block[i] == element(from, number, i);
  expect(is_right, std::string(call) + ": wrong data");
}

/// Makes every call once, in memory that is secret on the ranks that `is_secret` selects.
void call_all(Communicator& ranks, std::size_t count, Elements in, Elements out) {
  const auto size = static_cast<std::size_t>(ranks.size());
  const int me = ranks.rank(), next = (me + 1) % ranks.size(),
            last = (me + ranks.size() - 1) % ranks.size();
  const auto block = [&](Elements all, std::size_t number) {
    return all.subspan(number * count, count);
  };
  fill(block(in, 0), me, 0);
  ranks.all_gather(ConstBlock(in.data(), count, DataType::int32),
                   Block(out.data(), ranks.size() * count, DataType::int32));
  for (int from = 0; from < ranks.size(); from++)
    expect_block(block(out, static_cast<std::size_t>(from)), from, 0, "all_gather");
  for (std::size_t i = 0; i < size; i++) fill(block(in, i), me, i);
  ranks.all_to_all(ConstBlock(in.data(), ranks.size() * count, DataType::int32),
                   Block(out.data(), ranks.size() * count, DataType::int32));
  for (int from = 0; from < ranks.size(); from++)
    expect_block(block(out, static_cast<std::size_t>(from)), from, static_cast<std::size_t>(me),
                 "all_to_all");
  ranks.broadcast(ConstBlock(in.data(), count, DataType::int32),
                  Block(out.data(), count, DataType::int32), 0);
  expect_block(block(out, 0), 0, 0, "broadcast");
  ranks.all_reduce(ConstBlock(in.data(), count, DataType::int32),
                   Block(out.data(), count, DataType::int32), ReduceOp::max);
  expect_block(block(out, 0), ranks.size() - 1, 0, "all_reduce");
  ranks.send_recv(ConstBlock(in.data(), count, DataType::int32), next,
                  Block(out.data(), count, DataType::int32), last);
  expect_block(block(out, 0), last, 0, "send_recv");
}

}  // namespace

TEST_CASE("secret memory: what other ranks cannot read arrives all the same", "[comm]") {
  const int size = GENERATE(2, 3);
  const std::size_t count =
      GENERATE(std::size_t{6'000}, 50'000, testing::by_effort(100'000, 300'000, 300'000));
  const bool all_secret = GENERATE(true, false);
  CAPTURE(size, count, all_secret);
  const auto bytes = count * static_cast<std::size_t>(size) * sizeof(std::int32_t);
  if (testing::SecretMemory(4096).bytes().empty()) {
    WARN("SKIPPED: no memfd_secret");
    return;
  }
  testing::on_all_transports(size, [&](Communicator& ranks) {
    const bool is_secret = all_secret || ranks.rank() == 0;
    const testing::SecretMemory in(bytes);
    expect(!in.bytes().empty(), "no secret memory (is ulimit -l too low?)");
    std::vector<std::int32_t> ordinary(bytes / sizeof(std::int32_t)), out(ordinary.size());
    const Elements secret(reinterpret_cast<std::int32_t*>(in.bytes().data()), ordinary.size());
    // The first time the others try to read it in place; by the second they know that they cannot.
    for (int time = 0; time < 2; time++)
      call_all(ranks, count, is_secret ? secret : Elements(ordinary), out);
  });
}

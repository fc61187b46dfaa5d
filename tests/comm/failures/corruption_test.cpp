// SPDX-License-Identifier: Apache-2.0
// Checksums on live links: this program's sendmsg flips a bit of a TCP link's data on request.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "support/ranks.hpp"

namespace {

/// Only links send with this flag.
constexpr int kOfLinks = MSG_DONTWAIT;

/// -1: flip nothing; else the bit's number, modulo the bits of the next call.
std::atomic<long> next_flip{-1};

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  const long bit = (flags & kOfLinks) != 0 ? next_flip.exchange(-1) : -1;
  if (bit < 0) return syscall(SYS_sendmsg, socket, message, flags);
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i < message->msg_iovlen; i++) {
    const auto* part = static_cast<const unsigned char*>(message->msg_iov[i].iov_base);
    bytes.insert(bytes.end(), part, part + message->msg_iov[i].iov_len);
  }
  const auto at = static_cast<std::size_t>(bit) % (8 * bytes.size());
  bytes[at / 8] = static_cast<unsigned char>(bytes[at / 8] ^ 1 << at % 8);
  iovec all{bytes.data(), bytes.size()};
  msghdr changed = *message;
  changed.msg_iov = &all;
  changed.msg_iovlen = 1;
  const auto sent = syscall(SYS_sendmsg, socket, &changed, flags);
  // The bit has not left if the socket had no room for it; flip another one.
  if (sent <= static_cast<long>(at / 8)) next_flip = bit;
  return sent;
}

namespace ccoll {
namespace {

using namespace std::chrono_literals;
using testing::expect;

CommunicatorOptions checked() {
  auto options = testing::options_for("tcp");
  options.checksum = true;
  return options;
}

/// Checks that the error names the link with both ranks, the slice and both checksums.
void expect_names_link(const std::string& error) {
  for (const auto* part :
       {"corrupt: ", "the data received over the TCP link from rank ",
        " of the job (127.0.0.1, pid ", " to rank ", ", lane ",
        ", are not the data that were sent: slice ", "checksum of its ", ", expected "})
    expect(error.find(part) != error.npos, fmt::format("no '{}' in: {}", part, error));
}

}  // namespace

TEST_CASE("checksums: a bit that flips under way ends the calls of all ranks, and names the link",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int draw = 0; draw < 12; draw++) {
    const int size = 2 + static_cast<int>(random() % 3);
    const std::size_t count = 1 + random() % (draw % 2 == 0 ? 8 : 100'000);
    const long bit = static_cast<long>(random() % 1'000'000);
    CAPTURE(seed, draw, size, count, bit);
    const auto errors = testing::run_ranks(size, checked(), [&](Communicator& world) {
      std::vector<std::int32_t> in(count, 1), out(count);
      const auto error = testing::message_of([&] {
        for (int i = 0; i < 1000; i++) {
          if (i == 3 && world.rank() == 0) next_flip = bit;
          world.all_reduce(ConstBlock(in.data(), count, DataType::int32),
                           Block(out.data(), count, DataType::int32));
          expect(std::ranges::all_of(out, [&](auto sum) { return sum == size; }), "a wrong sum");
        }
      });
      expect_names_link(error);
    });
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("checksums: a message that is not what was sent is not received", "[comm][unit]") {
  const bool long_one = GENERATE(false, true);
  const bool from_any = GENERATE(false, true);
  CAPTURE(long_one, from_any);
  const auto errors = testing::run_ranks(2, checked(), [&](Communicator& world) {
    std::vector<std::int32_t> data(long_one ? 1'000'000 : 10);
    const auto count = data.size();
    const auto error = testing::message_of([&] {
      for (int i = 0; i < 1000; i++) {
        if (world.rank() == 0) {
          if (i == 5) next_flip = 1000;
          world.send(ConstBlock(data.data(), count, DataType::int32), 1, i);
          world.recv(Block(data.data(), 1, DataType::int32), 1, i);
        } else {
          world.recv(Block(data.data(), count, DataType::int32), from_any ? kAnyRank : 0, i);
          world.send(ConstBlock(data.data(), 1, DataType::int32), 0, i);
        }
      }
    });
    expect_names_link(error);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("checksums: all ranks check, or none", "[comm][unit]") {
  const auto store = make_inproc_store();
  const auto errors = testing::run_threads(2, [&](int rank) {
    auto options = checked();
    options.checksum = rank == 1;
    Communicator::create(store, rank, 2, options);
  });
  for (const auto& error : errors)
    CHECK(error ==
          "ranks were started with different options: CCOLL_CHECKSUM: rank 0 has 0, rank 1 has 1");
}

}  // namespace ccoll

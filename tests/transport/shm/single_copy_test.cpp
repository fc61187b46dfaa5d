// SPDX-License-Identifier: Apache-2.0
// Reading other processes' memory in place, and links that do so.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <random>
#include <span>
#include <thread>

#include "support/effort.hpp"
#include "support/secret_memory.hpp"
#include "transport/pair.hpp"
#include "transport/shm/lent_slices.hpp"
#include "transport/shm/ring_reader.hpp"
#include "transport/shm/ring_writer.hpp"
#include "transport/shm/single_copy.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using shm::PeerMemory;
using shm::process_mark;

namespace {

const TransportKind& shm_kind() { return *find_transport("shm"); }

constexpr std::size_t kLarge = 64 << 10;

std::uint64_t address_of(const void* place) { return reinterpret_cast<std::uintptr_t>(place); }

/// A child that only waits to be killed, or exits at once.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ != 0) return;
    while (true) pause();
  }
  ~Child() { end(); }
  Child(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void end() {
    if (!alive_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    alive_ = false;
  }

 private:
  const pid_t pid_;
  bool alive_ = true;
};

/// Waits until the sender knows that slices are fetched.
void settle(Pair& pair) {
  REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
  REQUIRE(eventually(pair, [&] {
    pair.receiver->front();
    return pair.sender->copies_once();
  }));
}

}  // namespace

TEST_CASE("single copy: what lies in a process's memory is read from there",
          "[transport][property]") {
  const auto memory = PeerMemory::reach(getpid(), process_mark()).value();
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto there = pattern(1, 100'000);
  std::vector<std::byte> here(there.size());
  for (int round = 0; round < by_effort(100, 1000, 10'000); round++) {
    const auto begin = random() % there.size(), bytes = random() % (there.size() - begin + 1);
    std::ranges::fill(here, std::byte{0});
    REQUIRE(memory.read(address_of(there.data() + begin), here.data(), bytes));
    CHECK(std::ranges::equal(std::span(here).first(bytes), std::span(there).subspan(begin, bytes)));
    CHECK(std::ranges::all_of(std::span(here).subspan(bytes),
                              [](auto b) { return b == std::byte{0}; }));
  }
}

TEST_CASE("single copy: of a process that is another one nothing is read", "[transport]") {
  auto mark = process_mark();
  CHECK(PeerMemory::reach(0, mark).error().kind == ErrorKind::unsupported);
  CHECK(PeerMemory::reach(getpid(), {}).error().kind == ErrorKind::unsupported);
  mark.value++;
  CHECK(PeerMemory::reach(getpid(), mark).error().kind == ErrorKind::peer_lost);
}

// Under sanitizers a forked child may be unable even to wait.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("single copy: a forked child is another process, and one that has ended is none",
          "[transport]") {
  const auto mark = process_mark();
  Child child;
  // Except for the mark it has the same memory at the same place.
  CHECK(PeerMemory::reach(child.pid(), mark).error().kind == ErrorKind::peer_lost);
  child.end();
  CHECK(PeerMemory::reach(child.pid(), mark).error().message.find("No such process") !=
        std::string::npos);
}
#endif

TEST_CASE("single copy: a longer slice of ordinary memory is copied when it is looked at, once",
          "[transport]") {
  Pair pair(shm_kind());
  pair.open();
  settle(pair);
  auto data = pattern(1, kLarge);
  const auto original = data;
  std::vector<std::byte> place(kLarge);
  for (const bool offers : {true, false}) {
    CAPTURE(offers);
    data = original;
    lend(pair, 1, data.data(), kLarge);
    CHECK_FALSE(pair.sender->drained());
    if (offers) pair.receiver->offer(place.data(), place.size());
    const auto* view = await_front(pair);
    CHECK((view->data == place.data()) == offers);
    // A second look gives the same, whatever the sender does to its memory.
    std::ranges::fill(data, std::byte{0});
    CHECK(pair.receiver->front() == view);
    CHECK(equals(*view, original));
    CHECK_FALSE(pair.sender->drained());
    REQUIRE(pair.receiver->begin_read());
    CHECK(pair.receiver->pop());
    CHECK(pair.sender->drained());
  }
  // A place offered for one slice is not used for the next.
  data = original;
  std::ranges::fill(place, std::byte{0});
  pair.receiver->offer(place.data(), place.size());
  lend(pair, 2, data.data(), 100);
  await_front(pair);
  REQUIRE(pair.receiver->begin_read());
  CHECK(pair.receiver->pop());
  lend(pair, 3, data.data(), kLarge);
  CHECK(equals(*await_front(pair), original));
  CHECK(std::ranges::all_of(place, [](auto b) { return b == std::byte{0}; }));
}

TEST_CASE("single copy: slices that lie one behind the other are read at once, as far as offered",
          "[transport]") {
  Pair pair(shm_kind());
  pair.open();
  settle(pair);
  auto data = pattern(1, 5 * kLarge);
  const auto original = data;
  std::vector<std::byte> place(data.size());
  const auto slice = [](auto& memory, std::size_t i) {
    return std::span(memory).subspan(i * kLarge, kLarge);
  };
  // Four slices of one call, in one stretch of memory, and one of the next call.
  for (std::size_t i = 0; i < 5; i++) lend(pair, i < 4 ? 1 : 2, slice(data, i).data(), kLarge);
  std::size_t read = 0, popped = 0;
  const auto take = [&](std::size_t beyond, std::size_t reads) {
    CAPTURE(popped, beyond);
    pair.receiver->offer(slice(place, popped).data(), kLarge);
    pair.receiver->offer_beyond(beyond);
    const auto* view = await_front(pair);
    for (read += reads; reads > 0; reads--)
      std::ranges::fill(slice(data, read - reads), std::byte{0});
    CHECK(view->data == slice(place, popped).data());
    CHECK(std::ranges::equal(std::span(place).first(read * kLarge),
                             std::span(original).first(read * kLarge)));
    CHECK(std::ranges::all_of(std::span(place).subspan(read * kLarge),
                              [](auto b) { return b == std::byte{0}; }));
    REQUIRE(pair.receiver->begin_read());
    CHECK(pair.receiver->pop());
    popped++;
  };
  take(2 * kLarge - 1, 2);
  take(3 * kLarge, 0);
  // Slices are read together only if they belong to one call.
  take(2 * kLarge, 2);
  take(kLarge, 0);
  take(0, 1);
  CHECK(pair.sender->drained());
  // A slice elsewhere, or with a place elsewhere, is read by itself.
  data = original;
  for (const std::size_t i : {0, 1, 3}) lend(pair, 3, slice(data, i).data(), kLarge);
  for (const std::size_t i : {0, 1, 3}) {
    const std::size_t at = i == 0 ? 0 : i + 1;
    pair.receiver->offer(slice(place, at).data(), kLarge);
    pair.receiver->offer_beyond(i == 0 ? 4 * kLarge : 0);
    CHECK(std::ranges::equal(std::span(await_front(pair)->data, kLarge), slice(original, i)));
    REQUIRE(pair.receiver->begin_read());
    CHECK(pair.receiver->pop());
  }
}

TEST_CASE("single copy: of slices at once of which some cannot be read, the first is",
          "[transport]") {
  Pair pair(shm_kind());
  pair.open();
  settle(pair);
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, 2 * kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  const auto original = pattern(1, 2 * kLarge);
  std::ranges::copy(original, memory);
  lend(pair, 1, memory, kLarge);
  lend(pair, 1, memory + kLarge, kLarge);
  REQUIRE(mprotect(memory + kLarge, kLarge, PROT_NONE) == 0);
  std::vector<std::byte> place(2 * kLarge);
  pair.receiver->offer(place.data(), kLarge);
  pair.receiver->offer_beyond(kLarge);
  CHECK(std::ranges::equal(std::span(await_front(pair)->data, kLarge),
                           std::span(original).first(kLarge)));
  REQUIRE(pair.receiver->begin_read());
  CHECK(pair.receiver->pop());
  CHECK(pair.sender->copies_once());
  REQUIRE(mprotect(memory + kLarge, kLarge, PROT_READ) == 0);
  pair.receiver->offer(place.data() + kLarge, kLarge);
  CHECK(std::ranges::equal(std::span(await_front(pair)->data, kLarge),
                           std::span(original).last(kLarge)));
  REQUIRE(pair.receiver->begin_read());
  CHECK(pair.receiver->pop());
  munmap(memory, 2 * kLarge);
}

TEST_CASE("single copy: a slice that the sender is to copy, or a short one, is copied at once",
          "[transport]") {
  Pair pair(shm_kind());
  pair.open();
  settle(pair);
  const auto data = pattern(1, kLarge);
  const auto bytes = GENERATE(std::size_t{100}, kLarge);
  REQUIRE(pair.sender->has_room());
  pair.sender->lend(header(1, bytes), data.data(),
                    bytes == kLarge ? Copier::sender : Copier::receiver);
  CHECK(pair.sender->drained());
  CHECK(
      std::ranges::equal(std::span(await_front(pair)->data, bytes), std::span(data).first(bytes)));
}

TEST_CASE("single copy: where one of the two does not want it, slices go through slots",
          "[transport]") {
  const auto wants = GENERATE(std::array{true, false}, std::array{false, true});
  CAPTURE(wants[0], wants[1]);
  Pair pair(shm_kind(), {.single_copy = wants});
  pair.open();
  const auto data = pattern(1, kLarge);
  for (std::uint64_t i = 0; i < 20; i++) {
    lend(pair, i, data.data(), kLarge);
    CHECK(pair.sender->drained());
    CHECK(equals(*await_front(pair), data));
    REQUIRE(pair.receiver->begin_read());
    CHECK(pair.receiver->pop());
    CHECK_FALSE(pair.sender->copies_once());
  }
}

TEST_CASE("single copy: what was taken back before it was read is refused", "[transport]") {
  const bool looks = GENERATE(true, false);
  CAPTURE(looks);
  Pair pair(shm_kind());
  pair.open();
  settle(pair);
  auto data = pattern(1, kLarge);
  const auto original = data;
  lend(pair, 1, data.data(), kLarge);
  lend(pair, 2, data.data(), kLarge);
  if (looks) await_front(pair);
  pair.sender->revoke();
  std::ranges::fill(data, std::byte{0});
  const auto* view = await_front(pair);
  // The data read before that is intact.
  REQUIRE(pair.receiver->begin_read() == looks);
  if (!looks) return;
  CHECK(equals(*view, original));
  CHECK(pair.receiver->pop());
  await_front(pair);
  CHECK_FALSE(pair.receiver->begin_read());
}

TEST_CASE("single copy: nobody uses what was overwritten while it was read",
          "[transport][stress]") {
  const auto original = pattern(1, shm::kMostFetchedBytes);
  std::vector<std::byte> place(original.size());
  int overwritten = 0;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto patience = now() + 10s;
  for (int round = 0; round < by_effort(20, 100, 1000) || (overwritten == 0 && now() < patience);
       round++) {
    Pair pair(shm_kind());
    pair.open();
    settle(pair);
    auto data = original;
    lend(pair, 1, data.data(), data.size());
    pair.receiver->offer(place.data(), place.size());
    std::atomic<bool> looks{false};
    std::thread owner([&] {
      while (!looks) std::this_thread::yield();
      const auto begin = now() + round % 100 * 200ns;
      while (now() < begin) {
      }
      // revoke() would wait until the reader has ended.
      pair.sender->begin_revoke();
      // The part that is read last.
      std::ranges::fill(std::span(data).last(kLarge), std::byte{0});
    });
    looks = true;
    // eventually() would also drive the sender's end.
    const ReceiveLink::View* view = nullptr;
    while ((view = pair.receiver->front()) == nullptr) REQUIRE(now() < patience + 10s);
    const bool is_whole = equals(*view, original);
    CHECK((is_whole || !pair.receiver->begin_read()));
    overwritten += !is_whole && view->data[0] == original[0] ? 1 : 0;
    owner.join();
    std::ranges::fill(place, ~original[0]);
  }
  if (overwritten == 0) WARN("nothing was ever overwritten in the middle of being read");
}

TEST_CASE("single copy: what cannot be read where it lies is copied by its sender", "[transport]") {
  constexpr std::size_t kLong = shm::kMostFetchedBytes;
  const SecretMemory secret(kLong);
  if (secret.bytes().empty()) {
    WARN("SKIPPED: no memfd_secret");
    return;
  }
  auto* const hidden = secret.bytes().data();
  std::ranges::copy(pattern(1, kLong), hidden);
  const auto open = pattern(2, kLong);
  Pair pair(shm_kind());
  pair.open();
  settle(pair);
  std::vector<std::byte> place(kLong);
  // All are sent before any is looked at, including readable ones.
  const std::array<std::pair<const std::byte*, std::size_t>, 4> slices{
      {{hidden, kLarge}, {open.data(), kLarge}, {hidden, kLong}, {hidden + 100, kLarge}}};
  for (std::uint64_t i = 0; i < slices.size(); i++)
    lend(pair, i, slices[i].first, slices[i].second);
  for (const auto& [data, bytes] : slices) {
    pair.receiver->offer(place.data(), bytes);
    const auto* view = await_front(pair);
    CHECK(std::ranges::equal(std::span(view->data, bytes), std::span(data, bytes)));
    CHECK_FALSE(pair.sender->drained());
    REQUIRE(pair.receiver->begin_read());
    CHECK(pair.receiver->pop());
  }
  CHECK(pair.sender->drained());
  // From then on slices go through slots, except those that are too long.
  CHECK_FALSE(pair.sender->copies_once());
  lend(pair, 4, open.data(), kLarge);
  CHECK(pair.sender->drained());
  lend(pair, 5, hidden, kLong);
  await_front(pair);
  REQUIRE(pair.receiver->begin_read());
  CHECK(pair.receiver->pop());
  pair.receiver->offer(place.data(), kLong);
  const auto* view = await_front(pair);
  CHECK(std::ranges::equal(std::span(view->data, kLong), std::span(hidden, kLong)));
}

TEST_CASE("single copy: of a process that is another one by now the link fails", "[transport]") {
  Pair pair(shm_kind());
  pair.open();
  settle(pair);
  const auto data = pattern(1, kLarge);
  lend(pair, 1, data.data(), data.size());
  auto* const mark = reinterpret_cast<std::atomic<std::uint64_t>*>(process_mark().address);
  const auto before = mark->exchange(4711);
  CHECK(eventually(pair, [&] {
    return pair.receiver->front() == nullptr && pair.receiver->failure() != nullptr;
  }));
  mark->store(before);
  CHECK(pair.receiver->failure()->kind == ErrorKind::peer_lost);
  CHECK(pair.receiver->failure()->message.find("the memory that rank 0 sends cannot be read: ") ==
        0);
  CHECK(pair.receiver->failure()->culprit == 0U);
}

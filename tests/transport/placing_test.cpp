// SPDX-License-Identifier: Apache-2.0
// The promises of all links about caller's memory that slices use without a copy. Links that copy
// fulfil them trivially; the tests also check that RDMA links do not copy.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <deque>

#include "transport/pair.hpp"
#include "transport/registered_memory.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

enum class Made : std::uint8_t { ordinary, registered };

/// Addresses reserved for this test, so that memory can be freed and mapped again in place.
class Place {
 public:
  explicit Place(std::size_t bytes)
      : bytes_(bytes), start_(map(nullptr, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1)) {}
  ~Place() { munmap(start_, bytes_); }
  Place(const Place&) = delete;

  std::size_t bytes() const { return bytes_; }
  /// Maps `file`, or else private memory.
  std::byte* fill(const FileDescriptor& file) const {
    const int flags = file.open() ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    return map(start_, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file.number());
  }
  void clear() const { map(start_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1); }

 private:
  std::byte* map(std::byte* where, int access, int flags, int file) const {
    void* const mapped = mmap(where, bytes_, access, flags, file, 0);
    CCOLL_CHECK(mapped != MAP_FAILED, "{}", errno);
    return static_cast<std::byte*>(mapped);
  }

  const std::size_t bytes_;
  std::byte* const start_;
};

/// Memory mapped at a place until it is freed.
class Memory {
 public:
  Memory(Made made, const Place& place) : place_(place) {
    FileDescriptor file(made == Made::registered ? memfd_create("ccoll-placing", MFD_CLOEXEC) : -1);
    if (file.open()) CCOLL_CHECK(ftruncate(file.number(), off_t(place.bytes())) == 0, "{}", errno);
    data_ = place.fill(file);
    if (file.open())
      number_ =
          RegisteredMemories::of_process().add(data_, place.bytes(), std::move(file), 0).value();
  }
  ~Memory() {
    if (number_ != 0) RegisteredMemories::of_process().remove(number_);
    place_.clear();
  }
  Memory(const Memory&) = delete;

  std::byte* data() const { return data_; }
  void fill(std::uint64_t seed) const { std::ranges::copy(pattern(seed, place_.bytes()), data_); }
  bool holds(std::uint64_t seed) const {
    return std::ranges::equal(std::span(data_, place_.bytes()), pattern(seed, place_.bytes()));
  }

 private:
  const Place& place_;
  std::byte* data_ = nullptr;
  std::uint32_t number_ = 0;
};

void lend(Pair& pair, std::uint64_t sequence, const std::byte* data, std::size_t bytes) {
  REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
  pair.sender->lend(header(sequence, bytes), data);
}

/// Takes the front slice to `place`; returns whether it already was there.
bool take(Pair& pair, std::byte* place) {
  const ReceiveLink::View* view = nullptr;
  REQUIRE(eventually(pair, [&] { return (view = pair.receiver->front()) != nullptr; }));
  REQUIRE(pair.receiver->begin_read());
  const bool placed = view->data == place;
  if (!placed) std::copy_n(view->data, view->header.bytes, place);
  REQUIRE(pair.receiver->pop());
  return placed;
}

/// A link has to be used before it is known to be up.
void begin(Pair& pair) {
  std::byte nothing{};
  pair.open();
  lend(pair, 0, &nothing, 1);
  take(pair, &nothing);
}

/// Waits until offers have reached the sender.
void pause(Pair& pair) {
  const auto end = std::chrono::steady_clock::now() + 20ms;
  while (std::chrono::steady_clock::now() < end) pair.sender->progress();
}

bool is_verbs(const TransportKind& kind) { return kind.name == "verbs"; }

constexpr std::size_t kSlice = kCommonSliceBytes;

}  // namespace

TEST_CASE("placing: what was registered, freed and mapped anew at its address is what travels",
          "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    begin(pair);
    const Place inputs(kSlice), outputs(kSlice);
    int placed = 0;
    for (std::uint64_t i = 1; i <= 20; i++) {
      const Memory input(Made::registered, inputs), output(Made::registered, outputs);
      std::byte* const from = input.data();
      std::byte* const to = output.data();
      input.fill(i);
      pair.receiver->offer(to, kSlice);
      pause(pair);
      lend(pair, i, from, kSlice);
      placed += take(pair, to);
      REQUIRE(eventually(pair, [&] { return pair.sender->drained(); }));
      REQUIRE(output.holds(i));
    }
    if (is_verbs(kind)) CHECK(placed > 0);
  }
}

TEST_CASE("placing: slices of what is announced follow one another to where they belong",
          "[transport][conformance]") {
  constexpr std::size_t kBytes = 5 * kSlice;
  for (const auto& kind : usable_transports())
    for (const auto made : {Made::ordinary, Made::registered}) {
      CAPTURE(kind.name, made);
      Pair pair(kind);
      pair.open();
      const Place inputs(kBytes), outputs(kBytes);
      int placed = 0;
      for (std::uint64_t i = 1; i <= 10; i++) {
        const Memory input(made, inputs), output(made, outputs);
        std::byte* const from = input.data();
        std::byte* const to = output.data();
        input.fill(i);
        pair.receiver->announce(to, kBytes, nullptr);
        pair.sender->announce(from, kBytes, nullptr);
        if (i % 2 == 0) pause(pair);
        // The first and the last slice are not whole slices.
        std::size_t sent = 0, taken = 0, next = 100;
        std::deque<std::size_t> under_way;
        while (taken < kBytes) {
          if (sent < kBytes && pair.sender->has_room()) {
            lend(pair, i, from + sent, next);
            under_way.push_back(next);
            sent += next;
            next = std::min(kSlice, kBytes - sent);
          }
          pair.sender->progress();
          if (pair.receiver->front() == nullptr) continue;
          placed += take(pair, to + taken);
          taken += under_way.front();
          under_way.pop_front();
        }
        REQUIRE(eventually(pair, [&] { return pair.sender->drained(); }));
        REQUIRE(output.holds(i));
      }
      if (is_verbs(kind)) CHECK(placed > 0);
    }
}

TEST_CASE("placing: once a receiver has revoked its offers nobody writes there",
          "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    begin(pair);
    const Place inputs(kSlice), outputs(kSlice);
    const Memory input(Made::registered, inputs), output(Made::registered, outputs);
    input.fill(1);
    output.fill(2);
    pair.receiver->offer(output.data(), kSlice);
    pause(pair);
    pair.receiver->revoke();
    if (pair.sender->has_room()) pair.sender->lend(header(1, kSlice), input.data());
    pause(pair);
    CHECK(output.holds(2));
    if (is_verbs(kind)) CHECK(pair.receiver->failure() != nullptr);
    // The sender gets its memory back.
    pair.sender->revoke();
  }
}

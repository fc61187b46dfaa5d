// SPDX-License-Identifier: Apache-2.0
// Registered memory: how a peer gets it, and slices that are read in place.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <fstream>
#include <thread>

#include "core/bytes.hpp"
#include "support/effort.hpp"
#include "system/segment.hpp"
#include "transport/by_hand.hpp"
#include "transport/pair.hpp"
#include "transport/registered_memory.hpp"
#include "transport/shm/lending.hpp"
#include "transport/shm/lent_slices.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

const TransportKind& shm_kind() { return *find_transport("shm"); }

/// Unmapped memory is copied into slots.
Pair::Setting mapped_only() { return {.single_copy = {false, false}}; }

/// Memory registered while this lives.
class Shared {
 public:
  explicit Shared(std::size_t bytes)
      : segment_(Segment::make_lendable("ccoll-lending", bytes).value()),
        number_(RegisteredMemories::of_process()
                    .add(segment_->data(), bytes, segment_->take_file(), 0)
                    .value()) {}
  ~Shared() { RegisteredMemories::of_process().remove(number_); }
  Shared(const Shared&) = delete;

  std::byte* data() const { return segment_->data(); }
  std::size_t size() const { return segment_->size(); }
  std::uint32_t number() const { return number_; }

 private:
  const std::shared_ptr<Segment> segment_;
  const std::uint32_t number_;
};

/// How many mappings of such memory this process has.
std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("ccoll-lending") != line.npos;
  return count;
}

/// Waits for events on the service thread.
template <typename Condition>
bool soon(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Sends slices of it until one is lent.
void hand_over(Pair& pair, const Shared& memory) {
  REQUIRE(soon([&] {
    lend(pair, 0, memory.data(), memory.size());
    await_front(pair);
    const bool lent = !pair.sender->drained();
    REQUIRE(pair.receiver->begin_read());
    REQUIRE(pair.receiver->pop());
    return lent;
  }));
}

constexpr std::size_t kLarge = 64 << 10;

}  // namespace

TEST_CASE("registered memory: what lies in it is found, and nothing else",
          "[transport][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  RegisteredMemories memories;
  constexpr std::size_t kBytes = 300;
  const std::vector<std::byte> all(kBytes);
  struct Entry {
    std::uint32_t number;
    std::size_t begin, end;
  };
  std::vector<Entry> entries;
  std::uint32_t last = 0;
  for (int round = 0; round < by_effort(2000, 20'000, 200'000); round++) {
    const auto begin = random() % kBytes;
    const auto end = begin + 1 + random() % std::min<std::size_t>(kBytes - begin, 40);
    if (random() % 3 == 0) {
      const bool overlaps = std::ranges::any_of(
          entries, [&](const auto& e) { return begin < e.end && e.begin < end; });
      const auto number = memories.add(all.data() + begin, end - begin, FileDescriptor(), begin);
      REQUIRE(number.has_value() == !overlaps);
      if (overlaps) {
        CHECK(number.error().kind == ErrorKind::invalid_argument);
        continue;
      }
      CHECK(*number > std::exchange(last, *number));
      entries.push_back({*number, begin, end});
    } else if (random() % 4 == 0 && !entries.empty()) {
      const auto gone = entries.begin() + static_cast<long>(random() % entries.size());
      memories.remove(gone->number);
      entries.erase(gone);
    }
    const auto found = memories.find(all.data() + begin, end - begin);
    const auto expected = std::ranges::find_if(
        entries, [&](const auto& e) { return e.begin <= begin && end <= e.end; });
    REQUIRE((found != nullptr) == (expected != entries.end()));
    if (found) CHECK(found->number == expected->number);
  }
}

TEST_CASE("lending: a slice of registered memory is read where it lies, a short one is copied",
          "[transport]") {
  Pair pair(shm_kind(), mapped_only());
  pair.open();
  const Shared memory(kLarge);
  std::ranges::copy(pattern(1, kLarge), memory.data());
  hand_over(pair, memory);
  lend(pair, 1, memory.data() + 4096, kLarge - 4096);
  CHECK_FALSE(pair.sender->drained());
  const auto* view = await_front(pair);
  memory.data()[kLarge - 1] = std::byte{1};
  CHECK(view->data[kLarge - 4097] == std::byte{1});
  memory.data()[kLarge - 1] = std::byte{2};
  CHECK(view->data[kLarge - 4097] == std::byte{2});
  CHECK(view->data != memory.data() + 4096);
  CHECK_FALSE(pair.sender->drained());
  REQUIRE(pair.receiver->begin_read());
  CHECK(pair.receiver->pop());
  CHECK(pair.sender->drained());
  // Nothing has to wait until it has been read.
  lend(pair, 2, memory.data(), 100);
  CHECK(pair.sender->drained());
  memory.data()[0] = ~memory.data()[0];
  CHECK(await_front(pair)->data[0] == ~memory.data()[0]);
}

TEST_CASE("lending: slices of memory of all kinds arrive whole and in order",
          "[transport][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Pair pair(shm_kind(), mapped_only());
  pair.open();
  const auto before = mappings();
  {
    const auto slices = static_cast<std::uint64_t>(by_effort(300, 2000, 20'000));
    const std::vector<std::byte> ordinary = pattern(2, kLarge);
    std::vector<std::unique_ptr<Shared>> memories;
    std::deque<std::pair<const std::byte*, std::size_t>> sent;
    std::uint64_t pushed = 0, popped = 0;
    bool right = true;
    const auto move = [&] {
      if (sent.empty() && random() % 16 == 0 && !memories.empty())
        memories.erase(memories.begin() + static_cast<long>(random() % memories.size()));
      if (random() % 16 == 0 && memories.size() < 4) {
        memories.push_back(std::make_unique<Shared>(kLarge));
        std::ranges::copy(pattern(pushed, kLarge), memories.back()->data());
      }
      if (pushed < slices && pair.sender->has_room()) {
        const auto which = random() % (memories.size() + 1);
        const auto* data = which == memories.size() ? ordinary.data() : memories[which]->data();
        const auto begin = random() % kLarge, bytes = random() % (kLarge - begin + 1);
        pair.sender->lend(header(pushed++, bytes), data + begin);
        sent.emplace_back(data + begin, bytes);
      }
      if (const auto* view = random() % 2 ? pair.receiver->front() : nullptr) {
        const auto [data, bytes] = sent.front();
        sent.pop_front();
        right =
            right && pair.receiver->begin_read() && view->header.sequence == popped++ &&
            std::ranges::equal(std::span(view->data, view->header.bytes), std::span(data, bytes));
        right &= pair.receiver->pop();
      }
    };
    const auto is_over = [&] { return !right || (popped == slices && pair.sender->drained()); };
    while (!is_over()) {
      const auto so_far = pushed + popped;
      REQUIRE(eventually(pair, [&] {
        move();
        return pushed + popped > so_far || is_over();
      }));
    }
    CHECK(right);
    CHECK(popped == slices);
  }
  CHECK(soon([&] { return mappings() == before; }));
}

TEST_CASE("lending: readers that stand still in slices of many links are waited for together",
          "[transport]") {
  constexpr std::uint16_t kLinks = 63;
  Pair pair(shm_kind(), mapped_only());
  const Shared memory(kLarge);
  std::vector<std::unique_ptr<SendLink>> senders;
  std::vector<std::unique_ptr<ReceiveLink>> receivers;
  for (std::uint16_t lane = 0; lane < kLinks; lane++) {
    pair.open(lane);
    hand_over(pair, memory);
    lend(pair, 1, memory.data(), memory.size());
    await_front(pair);
    REQUIRE_FALSE(pair.sender->drained());
    REQUIRE(pair.receiver->begin_read());
    senders.push_back(std::move(pair.sender));
    receivers.push_back(std::move(pair.receiver));
  }
  const auto began = std::chrono::steady_clock::now();
  for (const auto& sender : senders) sender->begin_revoke();
  for (const auto& sender : senders) sender->revoke();
  // One after another they would take more than 3 s.
  CHECK(std::chrono::steady_clock::now() - began < 3s);
  for (const auto& receiver : receivers) CHECK_FALSE(receiver->pop());
}

TEST_CASE("lending: what is taken back is refused, and who reads it then finds out",
          "[transport]") {
  for (const bool reads : {false, true}) {
    CAPTURE(reads);
    Pair pair(shm_kind(), mapped_only());
    pair.open();
    const Shared memory(kLarge);
    hand_over(pair, memory);
    lend(pair, 1, memory.data(), kLarge);
    await_front(pair);
    if (reads) REQUIRE(pair.receiver->begin_read());
    const auto began = std::chrono::steady_clock::now();
    pair.sender->revoke();
    CHECK(std::chrono::steady_clock::now() - began < 10s);
    if (reads)
      CHECK_FALSE(pair.receiver->pop());
    else
      CHECK_FALSE(pair.receiver->begin_read());
  }
}

TEST_CASE("lending: a reader that is slow is waited for, for a while", "[transport][stress]") {
  Pair pair(shm_kind(), mapped_only());
  pair.open();
  const Shared memory(kLarge);
  hand_over(pair, memory);
  const std::vector<std::byte> sent(kLarge, std::byte{1});
  std::ranges::copy(sent, memory.data());
  lend(pair, 1, memory.data(), kLarge);
  const auto* view = await_front(pair);
  std::atomic<bool> begun{false};
  bool good = false;
  std::vector<std::byte> read;
  std::thread reader([&] {
    if (!pair.receiver->begin_read()) return;
    begun = true;
    std::this_thread::sleep_for(5ms);
    read.assign(view->data, view->data + kLarge);
    good = pair.receiver->pop();
  });
  while (!begun) std::this_thread::yield();
  pair.sender->revoke();
  // It has read everything by now, or else has lost its core for long and then finds out.
  std::fill_n(memory.data(), kLarge, std::byte{0});
  reader.join();
  CHECK((!good || read == sent));
}

TEST_CASE("lending: memory that is freed on its way fails the link, and is nobody's any more",
          "[transport]") {
  Pair pair(shm_kind(), mapped_only());
  pair.open();
  const auto before = mappings();
  {
    const Shared memory(kLarge);
    hand_over(pair, memory);
    CHECK(mappings() == before + 2);
    lend(pair, 1, memory.data(), kLarge);
  }
  CHECK(soon([&] { return mappings() == before; }));
  CHECK(pair.receiver->front() == nullptr);
  REQUIRE(pair.receiver->failure() != nullptr);
  CHECK(pair.receiver->failure()->message == "rank 0 has freed memory that it was sending");
  CHECK(pair.receiver->failure()->culprit == 0U);
}

TEST_CASE("lending: a door knows the memory that each has offered until that one leaves",
          "[transport]") {
  const Pair pair(shm_kind());
  const auto door = shm::door_name(pair.context().table, 1);
  const FileDescriptor file(memfd_create("ccoll-lending", MFD_CLOEXEC));
  REQUIRE(ftruncate(file.number(), 10'000) == 0);
  const FileDescriptor directory(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto hello = [](std::uint32_t from, std::uint32_t to) {
    return net::Writer().number(from).number(to).take();
  };
  const auto notice = [](std::uint8_t kind, std::uint32_t number, std::uint64_t bytes,
                         std::uint64_t offset) {
    return net::Writer().number(kind).number(number).number(bytes).number(offset).take();
  };
  const auto before = mappings();
  for (const auto& bad : {hello(0, 0), hello(2, 1), hello(0, 1).substr(1)}) {
    Speaker stranger;
    REQUIRE_FALSE(stranger.connect(door));
    REQUIRE(stranger.greet("", net::Purpose::memory));
    stranger.send(bad);
    if (bad.size() < 8) stranger.socket().shutdown(asio::socket_base::shutdown_send);
    CHECK(stranger.is_closed_by_the_other());
  }
  Speaker lender;
  REQUIRE_FALSE(lender.connect(door));
  REQUIRE(lender.greet("", net::Purpose::memory));
  lender.send(hello(0, 1));
  const auto offered = [&](const std::string& what, std::vector<int> descriptors) {
    lender.send(what, descriptors);
    const auto came = lender.receive();
    return came && came->bytes == std::string(1, '\1');
  };
  const int f = file.number();
  CHECK(offered(notice(1, 7, 10'000, 0), {f}));
  CHECK(offered(notice(1, 8, 1, 9'999), {f}));
  CHECK(mappings() == before + 2);
  CHECK_FALSE(offered(notice(1, 7, 10, 0), {f}));  // that number is in use
  CHECK_FALSE(offered(notice(1, 9, 10'001, 0), {f}));
  CHECK_FALSE(offered(notice(1, 9, 2, 9'999), {f}));
  CHECK_FALSE(offered(notice(1, 9, 2, ~std::uint64_t{0}), {f}));
  CHECK_FALSE(offered(notice(1, 9, ~std::uint64_t{0}, 1), {f}));
  CHECK_FALSE(offered(notice(1, 9, 0, 0), {f}));
  CHECK_FALSE(offered(notice(1, 9, 10, 0), {}));
  CHECK_FALSE(offered(notice(1, 9, 10, 0), {f, f}));
  CHECK_FALSE(offered(notice(1, 9, 10, 0), {directory.number()}));
  lender.send(notice(2, 8, 0, 0));
  CHECK(soon([&] { return mappings() == before + 1; }));
  lender.send(notice(3, 9, 0, 0));
  CHECK(lender.is_closed_by_the_other());
  CHECK(soon([&] { return mappings() == before; }));
}

TEST_CASE("lending: where the peer cannot or will not map it, nothing is lent", "[transport]") {
  const Shared memory(kLarge);
  enum class Peer { is_absent, hangs_up, refuses, says_nothing };
  for (const auto peer : {Peer::is_absent, Peer::hangs_up, Peer::refuses, Peer::says_nothing}) {
    CAPTURE(static_cast<int>(peer));
    FalseDoor door;
    std::atomic<int> offers{0};
    const Pair pair(shm_kind(), {.before = [&](const auto& table) {
                      if (peer == Peer::is_absent) return;
                      door.stand_at(shm::door_name(table, 1), [&](Speaker& lender) {
                        if (!lender.answer() || peer == Peer::hangs_up) return void(offers++);
                        while (lender.receive()) {
                          offers++;
                          if (peer == Peer::refuses) lender.send(std::string(1, '\0'));
                        }
                      });
                    }});
    auto context = pair.context();
    if (peer == Peer::is_absent) context.table[1].port = 1;
    const auto lender = shm::Lender::make(context, 1, std::chrono::steady_clock::now() + 3s);
    CHECK_FALSE(lender->find(memory.data(), kLarge));
    if (peer != Peer::is_absent) CHECK(soon([&] { return offers > 0; }));
    std::this_thread::sleep_for(20ms);
    CHECK_FALSE(lender->find(memory.data(), kLarge));
    // Also works once that memory has gone.
    lender->withdraw(memory.number());
  }
}

TEST_CASE("lending: whoever is lent memory can read it and not write it", "[transport]") {
  const auto memory = Segment::make_lendable("ccoll-lending", 4096).value();
  const auto lent = Segment::view(memory->file(), 0, 4096).value();
  memory->data()[7] = std::byte{42};
  CHECK(lent->data()[7] == std::byte{42});
  const int file = memory->file().number();
  if ((fcntl(file, F_GET_SEALS) & F_SEAL_FUTURE_WRITE) == 0) {
    WARN("this kernel cannot promise it");
    return;
  }
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED);
  CHECK(pwrite(file, "x", 1, 7) < 0);
  CHECK(memory->data()[7] == std::byte{42});
}

TEST_CASE("registered memory: what its sender is to copy in any case is not lent", "[transport]") {
  Pair pair(shm_kind(), mapped_only());
  pair.open();
  const Shared memory(kLarge);
  std::ranges::copy(pattern(1, kLarge), memory.data());
  const std::vector<std::byte> original(memory.data(), memory.data() + kLarge);
  hand_over(pair, memory);
  for (const auto copier : {Copier::receiver, Copier::sender, Copier::sender_always}) {
    std::ranges::copy(original, memory.data());
    REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
    pair.sender->lend(header(1, kLarge), memory.data(), copier);
    const bool copied = copier == Copier::sender_always;
    CHECK(pair.sender->drained() == copied);
    if (copied) std::ranges::fill(std::span(memory.data(), kLarge), std::byte{0});
    CHECK(equals(*await_front(pair), original));
    REQUIRE(pair.receiver->begin_read());
    CHECK(pair.receiver->pop());
  }
}

// SPDX-License-Identifier: Apache-2.0
// Memory that no CPU can touch, like a GPU's, lent and announced in place, over the in-memory
// device of tests/rdma, which accesses it only by descriptor.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <random>

#include "rdma/device.hpp"
#include "rdma/faults.hpp"
#include "transport/pair.hpp"
#include "transport/verbs/device/registration.hpp"

using namespace ccoll;
using namespace ccoll::testing;

namespace {

/// Touching its address faults; the test accesses it through another mapping.
class DeviceMemory {
 public:
  DeviceMemory(std::size_t within, std::size_t bytes)
      : within_(within),
        bytes_(bytes),
        whole_((within + bytes + 4095) / 4096 * 4096),
        file_(memfd_create("a device's memory", MFD_CLOEXEC)) {
    REQUIRE(ftruncate(file_.number(), static_cast<off_t>(whole_)) == 0);
    place_ = map(PROT_NONE);
    view_ = map(PROT_READ | PROT_WRITE);
    std::memset(view_, 0x5a, whole_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    munmap(place_, whole_);
    munmap(view_, whole_);
  }

  std::byte* data() const { return place_ + within_; }
  std::byte* seen() const { return view_ + within_; }
  ExportedMemory exported() const { return {data(), bytes_, file_.number(), within_}; }
  /// Whether the bytes around the used part are unchanged.
  bool is_untouched_around() const {
    const auto is_as_before = [](std::byte each) { return each == std::byte{0x5a}; };
    return std::all_of(view_, seen(), is_as_before) &&
           std::all_of(seen() + bytes_, view_ + whole_, is_as_before);
  }

 private:
  std::byte* map(int protection) const {
    void* const place = mmap(nullptr, whole_, protection, MAP_SHARED, file_.number(), 0);
    REQUIRE(place != MAP_FAILED);
    return static_cast<std::byte*>(place);
  }

  const std::size_t within_, bytes_, whole_;
  const FileDescriptor file_;
  std::byte* place_ = nullptr;
  std::byte* view_ = nullptr;
};

/// Two ranks with a link that has carried a slice.
struct Linked {
  explicit Linked(const char* transport = "verbs", const Pair::Setting& setting = {})
      : pair(*find_transport(transport), setting) {
    pair.open();
    pair.receiver->announce(first.data(), first.size(), nullptr);
    push(*pair.sender, 0, pattern(0, first.size()));
    take(first.size());
  }
  /// Takes the front slice; returns the place of its payload.
  const std::byte* take(std::size_t bytes) {
    const ReceiveLink::View* view = nullptr;
    REQUIRE(eventually(pair, [&] { return (view = pair.receiver->front()) != nullptr; }));
    REQUIRE(view->header.bytes == bytes);
    REQUIRE(pair.receiver->begin_read());
    return view->data;
  }
  void pop() { REQUIRE(pair.receiver->pop()); }

  std::array<std::byte, 10> first{};
  Pair pair;
};

std::string refusal(const Result<std::shared_ptr<const DirectMemory>>& made) {
  return made ? "" : made.error().message;
}

}  // namespace

TEST_CASE("rdma: what is direct at either end or both goes from and to its place, all of it",
          "[transport][verbs][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Linked linked;
  linked.pop();
  auto& sender = linked.pair.sender;
  auto& receiver = linked.pair.receiver;
  const auto before = rdma::objects();
  for (int round = 0; round < 60; round++) {
    const bool sends_direct = random() % 3 != 0, receives_direct = random() % 3 != 0;
    // Includes messages whose last slice is tiny.
    const std::size_t bytes = 1 + random() % (random() % 2 == 0 ? 9000 : 700'000);
    CAPTURE(round, sends_direct, receives_direct, bytes);
    const DeviceMemory from(random() % 4096, bytes), to(random() % 4096, bytes);
    const auto data = pattern(random(), bytes);
    std::memcpy(from.seen(), data.data(), bytes);
    std::vector<std::byte> here(bytes);
    auto* const place = receives_direct ? to.data() : here.data();
    const auto* const source = sends_direct ? from.data() : data.data();
    if (receives_direct)
      receiver->announce(place, bytes, receiver->make_direct(to.exported()).value());
    else
      receiver->announce(place, bytes, nullptr);
    // Waits until it has seen that; small ordinary memory is not offered.
    for (int i = 0; i < 20; i++) sender->progress();
    if (sends_direct)
      sender->announce(source, bytes, sender->make_direct(from.exported()).value());
    else
      sender->announce(source, bytes, nullptr);
    for (std::size_t done = 0; done < bytes;) {
      const auto slice = std::min(sender->good_bytes(bytes, Copier::receiver), bytes - done);
      REQUIRE(eventually(linked.pair, [&] { return sender->has_room(); }));
      sender->lend(header(1, slice), source + done);
      const auto* const at = linked.take(slice);
      if (receives_direct)
        CHECK(at == place + done);
      else if (at != place + done)
        std::memcpy(place + done, at, slice);
      linked.pop();
      done += slice;
    }
    REQUIRE(eventually(linked.pair, [&] { return sender->drained(); }));
    CHECK(std::memcmp(receives_direct ? to.seen() : place, data.data(), bytes) == 0);
    CHECK(from.is_untouched_around());
    CHECK(to.is_untouched_around());
    CHECK(rdma::objects() == before);
  }
}

TEST_CASE("rdma: what does not get an offer in time comes through the slots",
          "[transport][verbs]") {
  Linked linked;
  linked.pop();
  auto& sender = linked.pair.sender;
  auto& receiver = linked.pair.receiver;
  constexpr std::size_t kBytes = 300'000;
  const DeviceMemory from(100, kBytes), to(200, kBytes);
  const auto data = pattern(1, kBytes);
  std::memcpy(from.seen(), data.data(), kBytes);
  sender->announce(from.data(), kBytes, sender->make_direct(from.exported()).value());
  sender->lend(header(1, 5000), from.data());
  receiver->announce(to.data(), kBytes, receiver->make_direct(to.exported()).value());
  const auto* const at = linked.take(5000);
  CHECK(at != to.data());
  CHECK(std::memcmp(at, data.data(), 5000) == 0);
  linked.pop();
  REQUIRE(eventually(linked.pair, [&] { return sender->has_room(); }));
  sender->lend(header(1, 100'000), from.data() + 5000);
  CHECK(linked.take(100'000) == to.data() + 5000);
  CHECK(std::memcmp(to.seen() + 5000, data.data() + 5000, 100'000) == 0);
  linked.pop();
}

TEST_CASE("rdma: what was revoked is neither read nor written any more, nor known to the device",
          "[transport][verbs]") {
  const bool by_sender = GENERATE(false, true);
  constexpr std::size_t kBytes = 50'000;
  const DeviceMemory from(0, kBytes), to(0, kBytes);
  Linked linked;
  linked.pop();
  auto& sender = linked.pair.sender;
  auto& receiver = linked.pair.receiver;
  const auto before = rdma::objects().registrations;
  receiver->announce(to.data(), kBytes, receiver->make_direct(to.exported()).value());
  for (int i = 0; i < 20; i++) sender->progress();
  sender->announce(from.data(), kBytes, sender->make_direct(from.exported()).value());
  CHECK(rdma::objects().registrations == before + 2);
  rdma::plug(false);
  sender->lend(header(1, kBytes), from.data());
  by_sender ? sender->revoke() : receiver->revoke();
  rdma::plug(true);
  CHECK(std::all_of(to.seen(), to.seen() + kBytes,
                    [](std::byte each) { return each == std::byte{0x5a}; }));
  by_sender ? receiver->revoke() : sender->revoke();
  CHECK(rdma::objects().registrations == before);
}

TEST_CASE("rdma: where memory cannot be direct it is said why", "[transport][verbs]") {
  const DeviceMemory memory(10, 5000);
  SECTION("links over anything else") {
    Linked linked("tcp");
    CHECK_THAT(refusal(linked.pair.sender->make_direct(memory.exported())),
               Catch::Contains("not one over RDMA"));
    CHECK_THAT(refusal(linked.pair.receiver->make_direct(memory.exported())),
               Catch::Contains("not one over RDMA"));
  }
  SECTION("checksums") {
    Pair::Setting setting;
    setting.checksum = true;
    Linked linked("verbs", setting);
    CHECK_THAT(refusal(linked.pair.sender->make_direct(memory.exported())),
               Catch::Contains("without checksums"));
    CHECK_THAT(refusal(linked.pair.receiver->make_direct(memory.exported())),
               Catch::Contains("without checksums"));
  }
  SECTION("a link that is yet to be there") {
    Pair pair(*find_transport("verbs"));
    pair.open();
    CHECK_FALSE(pair.sender->make_direct(memory.exported()));
  }
  SECTION("a device that refuses") {
    Linked linked;
    rdma::fail(rdma::Call::reg_dmabuf_mr, EOPNOTSUPP);
    CHECK_THAT(refusal(linked.pair.sender->make_direct(memory.exported())),
               Catch::Contains("5000 bytes of GPU memory cannot be registered for RDMA: ") &&
                   Catch::Contains(std::strerror(EOPNOTSUPP)));
    CHECK(linked.pair.sender->make_direct(memory.exported()));
    auto shifted = memory.exported();
    shifted.offset++;
    CHECK_FALSE(linked.pair.sender->make_direct(shifted));
  }
  SECTION("an old library") {
    rdma::lack("ibv_reg_dmabuf_mr");
    const auto library = verbs::Library::find();
    REQUIRE(library);
    const auto made = verbs::Registration::make(*library, nullptr, memory.exported());
    REQUIRE_FALSE(made);
    CHECK_THAT(made.error().message, Catch::Contains("install a newer rdma-core"));
  }
  rdma::reset();
}

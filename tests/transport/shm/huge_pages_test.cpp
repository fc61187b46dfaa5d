// SPDX-License-Identifier: Apache-2.0
// Lent memory that becomes huge pages after repeated use. If the kernel makes no huge pages on
// request, the tests only check that nothing breaks.
#include "transport/shm/huge_pages.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "support/effort.hpp"
#include "system/file_descriptor.hpp"
#include "system/segment.hpp"
#include "transport/pair.hpp"
#include "transport/registered_memory.hpp"
#include "transport/shm/lent_slices.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // from <linux/mman.h>; older libraries lack it
#endif

using namespace ccoll;
using namespace ccoll::testing;
using shm::HugePages;

namespace {

const std::size_t kSmallPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

/// The size of a huge page, even if there are none.
std::size_t huge_page() { return std::max(HugePages(true).page_bytes(), std::size_t{2} << 20); }

/// Anonymous memory of this many huge pages, made of small ones at first; no other mapping is
/// adjacent to it.
class Memory {
 public:
  explicit Memory(std::size_t pages)
      : bytes_(pages * huge_page()), mapped_(bytes_ + 3 * huge_page()) {
    void* const place =
        mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(place != MAP_FAILED);
    all_ = static_cast<std::byte*>(place);
    const auto begin = reinterpret_cast<std::uintptr_t>(all_) + huge_page();
    data_ = reinterpret_cast<std::byte*>((begin + huge_page() - 1) / huge_page() * huge_page());
    REQUIRE(mprotect(data_, bytes_, PROT_READ | PROT_WRITE) == 0);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    std::mt19937_64 random(1);
    for (std::size_t at = 0; at < bytes_; at += 512) data_[at] = static_cast<std::byte>(random());
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  }
  ~Memory() { munmap(all_, mapped_); }
  Memory(const Memory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  std::span<const std::byte> whole() const { return {data_, bytes_}; }

  /// How many bytes of it are huge pages.
  std::size_t huge() const {
    std::ostringstream begins;
    begins << std::hex << reinterpret_cast<std::uintptr_t>(data_) << '-';
    std::ifstream smaps("/proc/self/smaps");
    bool is_here = false;
    for (std::string line; std::getline(smaps, line);) {
      if (line.starts_with(begins.str())) is_here = true;
      if (is_here && line.starts_with("AnonHugePages:"))
        return std::stoul(line.substr(line.find_first_of("0123456789"))) * 1024;
    }
    FAIL("no such memory in /proc/self/smaps");
    return 0;
  }

 private:
  std::size_t bytes_;
  std::size_t mapped_;
  std::byte* all_;
  std::byte* data_;
};

/// How many bytes of the files of that name are mapped here as huge pages.
std::size_t huge_bytes_of(std::string_view name) {
  std::ifstream smaps("/proc/self/smaps");
  std::size_t bytes = 0;
  bool is_it = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find(" r") != line.npos && line.find('-') < 20) is_it = line.find(name) != line.npos;
    if (is_it && line.starts_with("ShmemPmdMapped:"))
      bytes += std::stoul(line.substr(line.find_first_of("0123456789"))) * 1024;
  }
  return bytes;
}

/// Whether the kernel makes huge pages on request: not before 6.1, nor if free memory is too
/// fragmented.
bool has_huge_pages() {
  const Memory own(1);
  if (HugePages(true).page_bytes() > 0 && madvise(own.data(), own.bytes(), MADV_COLLAPSE) == 0)
    return true;
  WARN("no huge pages can be made on this system just now");
  return false;
}

/// The same for shared memory, which has a separate system setting. Such memory must not have huge
/// pages from the start, either.
bool has_huge_shared_pages() {
  const auto probe = Segment::make("ccoll-huge-probe", huge_page()).value();
  std::fill_n(probe->data(), probe->size(), std::byte{1});
  const bool at_once = huge_bytes_of("ccoll-huge-probe") > 0;
  if (has_huge_pages() && !at_once && madvise(probe->data(), probe->size(), MADV_COLLAPSE) == 0)
    return true;
  WARN("no shared memory becomes huge pages on this system just now, or all has them");
  return false;
}

}  // namespace

TEST_CASE("huge pages: memory that is lent often becomes one, and its bytes stay", "[transport]") {
  Memory memory(2);
  const std::vector<std::byte> before(memory.data(), memory.data() + memory.bytes());
  HugePages pages(true);
  const auto slice = huge_page() / 4;
  for (std::uint64_t round = 0; round < 2 * HugePages::kPaysOff; round++) {
    if (round < HugePages::kPaysOff) CHECK(memory.huge() == 0);
    // A slice may lie in two of them.
    for (std::size_t at = slice / 2; at + slice <= huge_page() + slice / 2; at += slice)
      pages.lend(memory.data() + at, slice);
  }
  // Only a little of the second was lent.
  if (has_huge_pages()) CHECK(memory.huge() == huge_page());
  CHECK(std::ranges::equal(memory.whole(), before));
}

TEST_CASE("huge pages: of any slices those become huge that were lent enough",
          "[transport][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr std::size_t kPages = 4;
  Memory memory(kPages);
  const std::vector<std::byte> before(memory.data(), memory.data() + memory.bytes());
  HugePages pages(true);
  std::array<std::size_t, kPages> lent{};
  for (int slices = by_effort(200, 300, 3000); slices > 0; slices--) {
    const auto begin = random() % memory.bytes();
    const auto bytes = random() % std::min(memory.bytes() - begin, huge_page() / 2);
    pages.lend(memory.data() + begin, bytes);
    for (std::size_t page = 0; page < kPages; page++) {
      const auto from = std::max(begin, page * huge_page());
      const auto to = std::min(begin + bytes, (page + 1) * huge_page());
      if (from < to) lent[page] += to - from;
    }
  }
  const auto enough = std::ranges::count_if(
      lent, [](std::size_t bytes) { return bytes >= HugePages::kPaysOff * huge_page(); });
  REQUIRE(enough > 0);
  if (has_huge_pages()) CHECK(memory.huge() == static_cast<std::size_t>(enough) * huge_page());
  CHECK(std::ranges::equal(memory.whole(), before));
}

TEST_CASE("huge pages: where one is not wanted, or would take more memory, there is none",
          "[transport]") {
  Memory memory(1);
  auto* const missing = memory.data() + huge_page() / 2;
  const bool wanted = GENERATE(false, true);
  CAPTURE(wanted);
  if (wanted) REQUIRE(madvise(missing, kSmallPage, MADV_DONTNEED) == 0);
  HugePages pages(wanted);
  for (std::uint64_t round = 0; round < 3 * HugePages::kPaysOff; round++)
    pages.lend(memory.data(), huge_page());
  CHECK(memory.huge() == 0);
  unsigned char resident = 0;
  REQUIRE(mincore(missing, kSmallPage, &resident) == 0);
  CHECK((resident & 1) == (wanted ? 0 : 1));
  // It is retried later, and by then all of it may be present.
  missing[0] = std::byte{1};
  for (std::uint64_t round = 0; round < 3 * HugePages::kPaysOff; round++)
    pages.lend(memory.data(), huge_page());
  if (has_huge_pages()) CHECK(memory.huge() == (wanted ? huge_page() : 0));
  CHECK(missing[0] == std::byte{1});
}

TEST_CASE("huge pages: what cannot be one is left as it is", "[transport]") {
  HugePages pages(true);
  const std::size_t bytes = 2 * huge_page();
  const FileDescriptor file(memfd_create("shared memory", MFD_CLOEXEC));
  REQUIRE(ftruncate(file.number(), static_cast<off_t>(bytes)) == 0);
  void* const shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  REQUIRE(shared != MAP_FAILED);
  const std::span here(static_cast<std::byte*>(shared), bytes);
  std::mt19937_64 random(1);
  for (std::byte& each : here) each = static_cast<std::byte>(random());
  const std::vector<std::byte> before(here.begin(), here.end());
  std::vector<std::byte> there(bytes);
  // It lies behind all other mappings, so nothing reuses its address.
  std::byte* gone = nullptr;
  {
    const Memory memory(1);
    gone = memory.data();
  }
  for (std::uint64_t round = 0; round < 2 * HugePages::kPaysOff; round++) {
    pages.lend(gone, huge_page());
    pages.lend(here.data(), bytes);
    pages.lend(nullptr, 0);
  }
  CHECK(std::ranges::equal(here, before));
  // Its pages are still those that other processes share.
  here[0] ^= std::byte{1};
  REQUIRE(pread(file.number(), there.data(), bytes, 0) == static_cast<ssize_t>(bytes));
  CHECK(std::ranges::equal(here, there));
  munmap(shared, bytes);
}

TEST_CASE("huge pages: what a link lends again and again is counted, if that is wanted",
          "[transport]") {
  const bool wanted = GENERATE(true, false);
  CAPTURE(wanted);
  Pair pair(*find_transport("shm"), {.huge_pages = wanted});
  pair.open();
  REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
  REQUIRE(eventually(pair, [&] {
    pair.receiver->front();
    return pair.sender->copies_once();
  }));
  const Memory memory(1);
  constexpr std::size_t kSlice = 128 << 10;
  std::uint64_t sequence = 0;
  for (std::uint64_t round = 0; round <= HugePages::kPaysOff; round++) {
    for (std::size_t at = 0; at < memory.bytes(); at += kSlice) {
      lend(pair, ++sequence, memory.data() + at, kSlice);
      const auto* view = await_front(pair);
      REQUIRE(std::equal(view->data, view->data + kSlice, memory.data() + at));
      REQUIRE(pair.receiver->begin_read());
      CHECK(pair.receiver->pop());
    }
  }
  if (has_huge_pages()) CHECK(memory.huge() == (wanted ? huge_page() : 0));
}

TEST_CASE("huge pages: registered memory that is lent again and again is huge where it is mapped",
          "[transport]") {
  const bool wanted = GENERATE(true, false);
  CAPTURE(wanted);
  constexpr std::size_t kSlice = 128 << 10;
  const std::size_t bytes = 2 * huge_page() + kSlice;
  const auto segment = Segment::make_lendable("ccoll-huge", bytes).value();
  std::mt19937_64 random(2);
  for (std::size_t at = 0; at < bytes; at += 512)
    segment->data()[at] = static_cast<std::byte>(random());
  Pair pair(*find_transport("shm"), {.single_copy = {false, false}, .huge_pages = wanted});
  pair.open();
  auto& memories = RegisteredMemories::of_process();
  const auto number = memories.add(segment->data(), bytes, segment->take_file(), 0).value();
  std::uint64_t sequence = 0, in_place = 0;
  const auto enough = HugePages::kPaysOff * (bytes / kSlice);
  // Slices are copied until the peer has mapped it. One more round maps it huge there.
  for (std::size_t at = 0; in_place < enough + bytes / kSlice; at = (at + kSlice) % bytes) {
    lend(pair, ++sequence, segment->data() + at, kSlice);
    const auto* view = await_front(pair);
    REQUIRE(std::equal(view->data, view->data + kSlice, segment->data() + at));
    in_place += !pair.sender->drained();
    REQUIRE(pair.receiver->begin_read());
    CHECK(pair.receiver->pop());
  }
  // It is mapped twice in this process: by its owner and by the peer.
  if (has_huge_shared_pages()) CHECK(huge_bytes_of("ccoll-huge") == (wanted ? 4 * huge_page() : 0));
  memories.remove(number);
}

// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/huge_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "system/log.hpp"
#include "system/read_file.hpp"
#include "transport/transport.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // from <linux/mman.h>; libraries older than the kernel lack it
#endif

namespace ccoll::shm {
namespace {

/// Larger huge pages, as with 64 KiB base pages, exceed most buffers.
constexpr std::size_t kMostPageBytes = 4 << 20;
constexpr std::size_t kLeastPageBytes = 4 << 10;  ///< a base page

constexpr const char* kSettings = "/sys/kernel/mm/transparent_hugepage/";

bool are_allowed() {
  // The setting is the word in brackets.
  const auto setting = kernel_line(std::string(kSettings) + "enabled").value_or("");
  return setting.find('[') != std::string::npos && setting.find("[never]") == std::string::npos;
}

std::size_t bytes_of_page() {
  if (!are_allowed()) return 0;
  const auto size = kernel_line(std::string(kSettings) + "hpage_pmd_size").value_or("");
  const std::size_t bytes = std::strtoull(size.c_str(), nullptr, 10);
  return bytes <= kMostPageBytes ? bytes : 0;
}

/// Whether all of it is in memory; otherwise a huge page would take more memory than before.
bool is_resident(void* memory, std::size_t bytes) {
  std::array<unsigned char, kMostPageBytes / kLeastPageBytes> pages;
  if (mincore(memory, bytes, pages.data()) != 0) return false;
  const auto count = bytes / static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::all_of(pages.begin(), pages.begin() + count,
                     [](unsigned char page) { return (page & 1) != 0; });
}

}  // namespace

HugePages::HugePages(bool wanted) : page_bytes_(wanted ? bytes_of_page() : 0) {}

void HugePages::lend(const std::byte* data, std::size_t bytes) {
  if (page_bytes_ == 0 || bytes == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(data), end = begin + bytes;
  for (auto number = begin / page_bytes_; number * page_bytes_ < end; number++) {
    const auto from = std::max(begin, number * page_bytes_);
    const auto to = std::min(end, (number + 1) * page_bytes_);
    if (count(number, to - from)) collapse(number);
  }
}

bool HugePages::count(std::uintptr_t number, std::size_t bytes) {
  // Do not wait for a thread that counts another loan; skip this one.
  const auto blocks = blocks_.try_lock();
  if (!blocks) return false;
  auto& block = (*blocks)[number % kBlocks];
  if (block.number != number) block = {number, 0, kPaysOff * page_bytes_};
  block.lent += bytes;
  if (block.lent < block.until) return false;
  block.until *= 2;
  return true;
}

void HugePages::collapse(std::uintptr_t number) const {
  void* const memory = reinterpret_cast<void*>(number * page_bytes_);
  if (!is_resident(memory, page_bytes_)) return;
  // May fail: the memory does not support it, or is being read.
  const bool made = madvise(memory, page_bytes_, MADV_COLLAPSE) == 0;
  log().debug("memory at {}, which is lent repeatedly, {} a huge page", fmt::ptr(memory),
              made ? "is now" : "could not be made");
}

}  // namespace ccoll::shm

namespace ccoll {

std::string describe_huge_pages() {
  if (const auto bytes = shm::HugePages(true).page_bytes(); bytes > 0)
    return fmt::format("yes, of {} KiB, if CCOLL_HUGE_PAGES is not 0", bytes >> 10);
  return fmt::format("no: {}enabled says \"never\", or the kernel does not offer them",
                     shm::kSettings);
}

}  // namespace ccoll

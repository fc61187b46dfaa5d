// SPDX-License-Identifier: Apache-2.0
// Memory that ranks of one host read directly.
#include "faces/c/face.hpp"

using namespace ccoll::c;

ccoll_result ccoll_memory_allocate(size_t bytes, int32_t where, int32_t device,
                                   ccoll_memory* made) {
  return guarded([&] {
    if (where != CCOLL_WHERE_HOST && where != CCOLL_WHERE_DEVICE)
      refuse(fmt::format("where is {}: expected 0 (host) or 1 (device)", where));
    const auto of = device < 0 || where == CCOLL_WHERE_HOST ? std::nullopt : std::optional(device);
    hand_out(made, [&] {
      return ccoll::allocate(
          bytes, where == CCOLL_WHERE_DEVICE ? ccoll::Where::device : ccoll::Where::host, of);
    });
  });
}

ccoll_result ccoll_memory_register_file(void* data, size_t bytes, int32_t file,
                                        uint64_t file_offset, ccoll_memory* made) {
  return guarded([&] {
    hand_out(made, [&] { return ccoll::register_memory(data, bytes, file, file_offset); });
  });
}

ccoll_result ccoll_memory_register_device(void* data, size_t bytes, ccoll_memory* made) {
  return guarded([&] { hand_out(made, [&] { return ccoll::register_memory(data, bytes); }); });
}

void* ccoll_memory_data(ccoll_memory memory) {
  return memory == nullptr ? nullptr : memory->memory.data();
}

size_t ccoll_memory_size(ccoll_memory memory) {
  return memory == nullptr ? 0 : memory->memory.size_bytes();
}

ccoll_result ccoll_memory_reset_within(ccoll_memory memory, int64_t limit_ms, int32_t* is_free) {
  return guarded([&] {
    given(is_free, "the place for the answer") =
        given(memory, "the memory").memory.reset_within(std::chrono::milliseconds(limit_ms));
  });
}

void ccoll_memory_free(ccoll_memory memory) { delete memory; }

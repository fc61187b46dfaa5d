// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Shared by all functions of the C interface: handles, the way from exceptions to results, and
/// C structs as C++ values. Included by the C interface alone.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/ccoll.h"
#include "ccoll/ccoll.hpp"

struct ccoll_comm_s {
  ccoll::Communicator communicator;
};
struct ccoll_work_s {
  ccoll::Work work;
};
struct ccoll_store_s {
  std::shared_ptr<ccoll::Store> store;
};
struct ccoll_store_server_s {
  std::unique_ptr<ccoll::StoreServer> server;
};
struct ccoll_stop_s {
  std::stop_source source;
};
struct ccoll_memory_s {
  ccoll::Memory memory;
};

namespace ccoll::c {

ccoll_result result_of(ErrorKind kind);

/// Notes an error as this thread's last one, and says which result it is.
ccoll_result result_of(const Error& error) noexcept;
/// The same for the exception under way. Only a handler calls it.
ccoll_result result_of_exception() noexcept;

/// Runs a function of the C++ interface. No exception leaves it.
template <typename Function>
ccoll_result guarded(Function&& function) noexcept {
  try {
    function();
    return CCOLL_OK;
  } catch (...) {
    return result_of_exception();
  }
}

[[noreturn]] void refuse(const std::string& why);

/// The object behind a pointer; refuses NULL.
template <typename T>
T& given(T* pointer, std::string_view what) {
  if (pointer == nullptr) refuse(fmt::format("{} is NULL", what));
  return *pointer;
}

inline Communicator& communicator_of(ccoll_comm comm) {
  return given(comm, "the communicator").communicator;
}

inline std::string text_of(const char* text) { return text == nullptr ? "" : text; }

/// Writes as much as fits.
void write_text(std::string_view from, char* text, std::size_t size, std::size_t* needed);

/// Reads the caller's struct, which is as old as `own`, or newer without using its new fields, or
/// older: fields that it does not have keep their values in `own`.
template <typename Struct>
void read_struct(const Struct* given, Struct& own, std::string_view what) {
  const std::size_t size = given->size;
  if (size < sizeof size)
    refuse(fmt::format("{}: its size is {}; use its _init function", what, size));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof own &&
      std::any_of(bytes + sizeof own, bytes + size, [](unsigned char byte) { return byte != 0; }))
    refuse(fmt::format("{}: {} bytes, of which this library knows {}; the others are not all 0",
                       what, size, sizeof own));
  std::memcpy(&own, given, std::min(size, sizeof own));
  own.size = sizeof own;
}

/// Fills as much of the caller's struct as there is.
template <typename Struct>
void write_struct(const Struct& own, Struct* to, std::size_t size, std::string_view what) {
  given(to, what);
  if (size < sizeof size)
    refuse(fmt::format("{}: its size is {} bytes: expected at least {}", what, size, sizeof size));
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &own, std::min(size, sizeof own));
  to->size = size;
}

DataType type_of(std::int32_t type);
/// Refuses all but 0 and 1.
bool flag_of(std::int32_t value, std::string_view what);
/// Refuses all but 0 in a field that has no meaning yet.
void check_reserved(std::int32_t value, std::string_view what);
/// NULL is a block of nothing.
Block block_of(const ccoll_block* block);
inline ConstBlock const_block_of(const ccoll_block* block) { return block_of(block); }
template <typename AnyBlock>
std::vector<AnyBlock> blocks_of(const ccoll_block* blocks, int count) {
  std::vector<AnyBlock> all;
  for (int i = 0; blocks != nullptr && i < count; i++) all.emplace_back(block_of(blocks + i));
  return all;
}
std::vector<BufferPair> pairs_of(const ccoll_block_pair* pairs, std::size_t count);
Reduction reduction_of(ccoll_reduction op);
CallOptions options_of(const ccoll_call_options* options);
GroupOptions options_of(const ccoll_group_options* options);
CommunicatorOptions options_of(const ccoll_options* options);

/// Puts a handle at the caller's place. `made` is called only if that is not NULL.
template <typename Handle, typename Make>
void hand_out(Handle** to, Make&& make) {
  given(to, "the place for the new handle");
  *to = nullptr;
  *to = new Handle{make()};
}

}  // namespace ccoll::c

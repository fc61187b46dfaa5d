// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/input_copy.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "comm/call/call.hpp"

namespace ccoll {

Result<InputCopy> InputCopy::make(const Call& call, std::uint32_t rank, std::uint32_t size,
                                  PlanRun& run) {
  InputCopy made;
  made.elems_ = elems_of(call, Buffer::input, rank, size);
  made.elem_bytes_ = size_of(call.type);
  const std::size_t bytes = made.elems_ * made.elem_bytes_;
  made.memory_.reset(new (std::nothrow) std::byte[bytes]);
  if (!made.memory_)
    return fail(ErrorKind::exhausted,
                "{}: input and output overlap, and there is no memory to copy the input ({} bytes)",
                name_of(call), bytes);
  made.input_ = std::exchange(run.input, {made.memory_.get(), {}});
  run.in_place = false;
  return made;
}

void InputCopy::operator()() const {
  for_each_stretch(input_, elems_, elem_bytes_,
                   [&](const std::byte* data, std::uint64_t first, std::uint64_t count) {
                     std::memcpy(memory_.get() + first * elem_bytes_, data, count * elem_bytes_);
                   });
}

}  // namespace ccoll

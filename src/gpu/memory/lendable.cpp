// SPDX-License-Identifier: Apache-2.0
#include "gpu/memory/lendable.hpp"

#include <utility>

#include "gpu/memory/ipc_memory.hpp"
#include "gpu/memory/shared_memory.hpp"

namespace ccoll::device {

Result<Borrowed> borrow(int device, std::string_view directions, FileDescriptor file) {
  net::Reader reader(directions);
  switch (static_cast<LentBy>(reader.number<std::uint8_t>())) {
    case LentBy::descriptor:
      return SharedMemory::borrow(device, reader, file);
    case LentBy::handle:
      return IpcMemory::borrow(device, reader, std::move(file));
  }
  return fail(ErrorKind::corrupt, "it is offered in an unknown way");
}

}  // namespace ccoll::device

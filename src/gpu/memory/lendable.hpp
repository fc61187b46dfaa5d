// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of a GPU that a rank lets others read where it lies, and what these have of it. How other
/// processes get at it is the affair of its kind (shared_memory.hpp, ipc_memory.hpp). Only in
/// builds with CUDA, of which it knows nothing here.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::device {

/// Thread-safe.
class Lendable {
 public:
  virtual ~Lendable() = default;

  virtual std::byte* data() const = 0;
  virtual std::uint64_t size() const = 0;
  virtual int device() const = 0;
  /// Different from all others', as good as certainly.
  virtual std::uint64_t id() const = 0;
  /// How others find it, for borrow(); empty: they cannot.
  virtual const std::string& directions() const = 0;
  /// What one other rank is given with the directions.
  virtual Result<FileDescriptor> file_to_give() = 0;
};

/// What directions begin with.
enum class LentBy : std::uint8_t { descriptor = 1, handle };

struct Borrowed {
  std::byte* data = nullptr;           ///< where this process's GPU sees it
  std::shared_ptr<const void> mapped;  ///< until this goes
};

/// What another rank lends, of this process or of another, for GPU `device`.
Result<Borrowed> borrow(int device, std::string_view directions, FileDescriptor file);

}  // namespace ccoll::device

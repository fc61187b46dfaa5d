// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of a GPU that a rank lets others read where it lies, and their part of it. Each kind of
/// memory has its own means for other processes (shared_memory.hpp, ipc_memory.hpp). Only in builds
/// with CUDA; knows no CUDA itself.

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
  /// Different from all others', with near certainty.
  virtual std::uint64_t id() const = 0;
  /// How others find it, for borrow(); empty: they cannot.
  virtual const std::string& directions() const = 0;
  /// The descriptor that one other rank is given with the directions.
  virtual Result<FileDescriptor> file_to_give() = 0;
};

/// The first byte of directions.
enum class LentBy : std::uint8_t { descriptor = 1, handle };

struct Borrowed {
  std::byte* data = nullptr;           ///< where this process's GPU sees it
  std::shared_ptr<const void> mapped;  ///< until this goes
};

/// Memory that another rank lends, of this process or of another, for GPU `device`.
Result<Borrowed> borrow(int device, std::string_view directions, FileDescriptor file);

}  // namespace ccoll::device

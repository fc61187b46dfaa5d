// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of a 64-bit ELF file that cc-run needs: its functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ccoll {

class ElfFile {
 public:
  /// Empty if the file does not exist or is not such a file.
  static std::optional<ElfFile> read(const std::string& path);

  /// Whether the dynamic loader finds a function of that name in it.
  bool exports(std::string_view function) const { return defines(function, kDynamicSymbols); }
  /// Whether it has one, even if only for itself; unknown for stripped files.
  bool contains(std::string_view function) const { return defines(function, kSymbols); }
  /// Whether these bytes occur anywhere in it.
  bool has_text(std::string_view text) const { return bytes_.find(text) != std::string::npos; }
  /// The offset of its dynamic section from the load address; 0 if it has none.
  std::uint64_t dynamic_section() const;
  /// Whether its addresses are relative to the load address.
  bool moves() const;

 private:
  explicit ElfFile(std::string bytes) : bytes_(std::move(bytes)) {}
  static constexpr std::uint32_t kSymbols = 2;
  static constexpr std::uint32_t kDynamicSymbols = 11;
  bool defines(std::string_view function, std::uint32_t table) const;
  template <typename T>
  std::optional<T> at(std::uint64_t offset) const;

  std::string bytes_;
};

}  // namespace ccoll

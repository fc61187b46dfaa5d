// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An ELF file of 64 bits, as far as cc-run must know it: which functions it has.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ccoll {

class ElfFile {
 public:
  /// Nothing where there is no such file, or it is none.
  static std::optional<ElfFile> read(const std::string& path);

  /// Whether the dynamic loader finds a function of that name in it.
  bool exports(std::string_view function) const { return defines(function, kDynamicSymbols); }
  /// Whether it has one, be it for itself alone; not known of files that were stripped.
  bool contains(std::string_view function) const { return defines(function, kSymbols); }
  /// Whether these bytes are anywhere in it.
  bool has_text(std::string_view text) const { return bytes_.find(text) != std::string::npos; }
  /// Where its dynamic section is in memory, from where it was loaded; 0 if it has none.
  std::uint64_t dynamic_section() const;
  /// Whether its addresses count from where it was loaded.
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

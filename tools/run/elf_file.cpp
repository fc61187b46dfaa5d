// SPDX-License-Identifier: Apache-2.0
#include "run/elf_file.hpp"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

namespace ccoll {

template <typename T>
std::optional<T> ElfFile::at(std::uint64_t offset) const {
  if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes_.data() + offset, sizeof value);
  return value;
}

std::optional<ElfFile> ElfFile::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char begin[EI_NIDENT] = {};
  if (!file.read(begin, sizeof begin) || std::memcmp(begin, ELFMAG, SELFMAG) != 0 ||
      begin[EI_CLASS] != ELFCLASS64) {
    return std::nullopt;
  }
  file.seekg(0);
  return ElfFile(std::string(std::istreambuf_iterator<char>(file), {}));
}

bool ElfFile::moves() const {
  const auto header = at<Elf64_Ehdr>(0);
  return header && header->e_type == ET_DYN;
}

std::uint64_t ElfFile::dynamic_section() const {
  const auto header = at<Elf64_Ehdr>(0);
  if (!header) return 0;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const auto part = at<Elf64_Phdr>(header->e_phoff + std::uint64_t{i} * sizeof(Elf64_Phdr));
    if (part && part->p_type == PT_DYNAMIC) return part->p_vaddr;
  }
  return 0;
}

bool ElfFile::defines(std::string_view function, std::uint32_t table) const {
  const auto header = at<Elf64_Ehdr>(0);
  if (!header) return false;
  const auto section = [&](std::uint64_t index) {
    return at<Elf64_Shdr>(header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    const auto symbols = section(i);
    if (!symbols || symbols->sh_type != table) continue;
    const auto names = section(symbols->sh_link);
    if (!names) continue;
    for (std::uint64_t s = 0; s + sizeof(Elf64_Sym) <= symbols->sh_size; s += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(symbols->sh_offset + s);
      if (!symbol) break;
      if (symbol->st_shndx == SHN_UNDEF) continue;
      const std::uint64_t name = names->sh_offset + symbol->st_name;
      if (name >= bytes_.size() || bytes_.size() - name <= function.size()) continue;
      if (std::memcmp(&bytes_[name], function.data(), function.size()) == 0 &&
          bytes_[name + function.size()] == '\0') {
        return true;
      }
    }
  }
  return false;
}

}  // namespace ccoll

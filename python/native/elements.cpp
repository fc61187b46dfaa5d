// SPDX-License-Identifier: Apache-2.0
#include "elements.hpp"

#include <cstdlib>

namespace ccoll::python {
namespace {

std::optional<DataType> integer_of(std::size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? DataType::int8 : DataType::uint8;
    case 2:
      return is_signed ? DataType::int16 : DataType::uint16;
    case 4:
      return is_signed ? DataType::int32 : DataType::uint32;
    case 8:
      return is_signed ? DataType::int64 : DataType::uint64;
    default:
      return std::nullopt;
  }
}

std::optional<DataType> float_of(std::size_t bytes) {
  switch (bytes) {
    case 2:
      return DataType::float16;
    case 4:
      return DataType::float32;
    case 8:
      return DataType::float64;
    default:
      return std::nullopt;
  }
}

std::optional<Element> single(std::optional<DataType> type, int parts = 1) {
  if (!type) return std::nullopt;
  return Element{*type, parts};
}

}  // namespace

std::optional<Element> element_of_format(const char* format, std::size_t bytes) {
  if (format == nullptr) return Element{};
  std::string_view text = format;
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  if (text == "Zf" || text == "Zd") return single(float_of(bytes / 2), 2);
  if (text.size() != 1) return std::nullopt;
  constexpr std::string_view kSigned = "bhilqn";
  constexpr std::string_view kUnsigned = "BHILQNc";
  if (kSigned.find(text[0]) != text.npos) return single(integer_of(bytes, true));
  if (kUnsigned.find(text[0]) != text.npos) return single(integer_of(bytes, false));
  if (text[0] == 'e' || text[0] == 'f' || text[0] == 'd') return single(float_of(bytes));
  if (text[0] == '?') return Element{DataType::boolean};
  return std::nullopt;
}

std::optional<Element> element_of_name(std::string_view name) {
  if (name == "bfloat16") return Element{DataType::bfloat16};
  if (name == "float8_e4m3fn") return Element{DataType::float8_e4m3};
  if (name == "float8_e5m2") return Element{DataType::float8_e5m2};
  return std::nullopt;
}

std::optional<Element> element_of_dlpack(nanobind::dlpack::dtype dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  const std::size_t bytes = dtype.bits / 8;
  switch (dtype.code) {  // the numbers are DLPack's
    case 0:
      return single(integer_of(bytes, true));
    case 1:
      return single(integer_of(bytes, false));
    case 2:
      return single(float_of(bytes));
    case 4:
      return bytes == 2 ? single(DataType::bfloat16) : std::nullopt;
    case 5:
      return single(float_of(bytes / 2), 2);
    case 6:
      return bytes == 1 ? single(DataType::boolean) : std::nullopt;
    case 10:
      return single(DataType::float8_e4m3);
    case 12:
      return single(DataType::float8_e5m2);
    default:
      return std::nullopt;
  }
}

std::optional<Element> element_of_typestr(std::string_view text) {
  if (text.size() < 3 || (text[0] != '<' && text[0] != '|')) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(std::atoi(text.data() + 2));
  switch (text[1]) {
    case 'b':
      return Element{DataType::boolean};
    case 'i':
      return single(integer_of(bytes, true));
    case 'u':
      return single(integer_of(bytes, false));
    case 'f':
      return single(float_of(bytes));
    case 'c':
      return single(float_of(bytes / 2), 2);
    default:
      return std::nullopt;
  }
}

}  // namespace ccoll::python

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The types that other libraries' arrays name, as element types of ccoll. Each is in this
/// machine's byte order; what ccoll has no type for is none.

#include <nanobind/ndarray.h>

#include <cstddef>
#include <optional>
#include <string_view>

#include "ccoll/types.hpp"

namespace ccoll::python {

/// An element of an array, as so many elements of a type: a complex number has two parts.
struct Element {
  DataType type = DataType::uint8;
  int parts = 1;
};

/// A format of the struct module that stands for one element. Null stands for a byte.
std::optional<Element> element_of_format(const char* format, std::size_t bytes);
/// Names of types that the buffer protocol cannot tell; ml_dtypes and torch have the same.
std::optional<Element> element_of_name(std::string_view name);
std::optional<Element> element_of_dlpack(nanobind::dlpack::dtype dtype);
/// A type of numpy's array interface: "<f4".
std::optional<Element> element_of_typestr(std::string_view text);

}  // namespace ccoll::python

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A store that is written in Python.

#include <memory>

#include "arrays.hpp"

namespace ccoll::python {

/// The store behind an object that has the methods of ccoll.Store, or some of them; the others are
/// made of those, or refused as unsupported.
std::shared_ptr<Store> own_store(nb::object methods);

}  // namespace ccoll::python

// SPDX-License-Identifier: Apache-2.0
// The library's exceptions as Python's.
#include "module.hpp"
#include "pending.hpp"

namespace ccoll::python {

nb::object exception_of(const Error& error) {
  const auto kind = to_string(error.kind());
  return helpers().error(nb::str(kind.data(), kind.size()), nb::str(error.what()),
                         error.culprit() < 0 ? nb::none() : nb::object(nb::int_(error.culprit())));
}

void bind_errors(nb::module_&) {
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& error) {
          const nb::object made = exception_of(error);
          PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
        }
      },
      nullptr);
}

}  // namespace ccoll::python

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of ccoll._native.

#include "communicator.hpp"

namespace ccoll::python {

void bind_errors(nb::module_& module);
void bind_values(nb::module_& module);
void bind_reductions(nb::module_& module);
void bind_stores(nb::module_& module);
void bind_work(nb::module_& module);
void bind_call_group(nb::module_& module);
void bind_communicator(nb::module_& module);
void bind_mesh(nb::module_& module);
void bind_collectives(Class& communicator);
void bind_v_forms(Class& communicator);
void bind_messages(nb::module_& module, Class& communicator);

}  // namespace ccoll::python

// SPDX-License-Identifier: Apache-2.0
// ccoll._native: the C++ interface for Python. The package adds what is better written in Python.
#include "module.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

namespace ccoll::python {

void bind_work(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Pending>(module, "Work",
                      "An operation under way. Its arrays belong to it until it is over, also if "
                      "the Work is dropped.\n\n"
                      "In a coroutine of asyncio, `await work` waits as wait() does.")
      .def("wait", &Pending::wait, "timeout"_a = nb::none(), nb::lock_self(),
           "Waits until the operation is over; returns its result, or raises its error.\n\n"
           "timeout: in seconds; 0 only looks. When it passes, TimeoutError is raised and the "
           "operation goes on.")
      .def("done", &Pending::done, nb::lock_self(),
           "Whether the operation is over, also if it failed. Makes progress; never waits.")
      .def("exception", &Pending::exception, nb::lock_self(),
           "Its error; None where there is none, or not yet.")
      .def("on_done", &Pending::on_done, "tell"_a, nb::lock_self(),
           "Calls tell(None), or tell(error), once the operation is over, in a thread of the "
           "library; soon\n"
           "where it is over already. tell may wait and begin operations; a call that takes long "
           "holds up no other.");
}

}  // namespace ccoll::python

NB_MODULE(_native, module) {
  namespace nb = nanobind;
  using namespace ccoll::python;
  nb::set_leak_warnings(false);  // what is alive at exit is ended by _close_all
  module.def("_use", [](nb::dict functions) {
    helpers() = {functions["error"],   functions["describe"],   functions["empty"],
                 functions["pack"],    functions["copies"],     functions["torch_map"],
                 functions["combine"], functions["finish_all"], nb::str("is_neg"),
                 nb::str("is_conj")};
  });
  module.def("_close_all", &close_all);
  module.def(
      "version", [] { return std::string(ccoll::version()); },
      "The version of the library that is linked.");
  module.attr("ANY_RANK") = ccoll::kAnyRank;
  module.attr("ANY_TAG") = ccoll::kAnyTag;
  bind_errors(module);
  bind_values(module);
  bind_reductions(module);
  bind_stores(module);
  bind_work(module);
  bind_call_group(module);
  bind_communicator(module);
  bind_mesh(module);
}

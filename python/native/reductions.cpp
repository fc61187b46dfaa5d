// SPDX-License-Identifier: Apache-2.0
// Reductions: enumerators, names, factors, and functions of Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "module.hpp"

namespace ccoll::python {
namespace {

thread_local bool in_reduction = false;

/// A function of Python that any thread may call and drop.
class Function {
 public:
  explicit Function(nb::object function) : function_(new nb::object(std::move(function))) {}
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  ~Function() {
    if (!nb::is_alive()) return;  // the interpreter has gone, and what it had
    const nb::gil_scoped_acquire held;
    delete function_;
  }

  void operator()(const void* in, void* inout, std::size_t count, DataType type) const {
    const nb::gil_scoped_acquire held;
    const auto bytes = static_cast<Py_ssize_t>(count * size_of(type));
    const auto view = [&](void* at, int flags) {
      return nb::steal(PyMemoryView_FromMemory(static_cast<char*>(at), bytes, flags));
    };
    std::string failed;
    const struct InReduction {
      const bool before = std::exchange(in_reduction, true);
      ~InReduction() { in_reduction = before; }
    } here;
    try {
      const auto name = to_string(type);
      helpers().combine(*function_, view(const_cast<void*>(in), PyBUF_READ),
                        view(inout, PyBUF_WRITE), nb::str(name.data(), name.size()));
      return;
    } catch (const nb::python_error& error) {
      failed = nb::cast<std::string>(nb::str(nb::handle(error.type()).attr("__name__"))) + ": " +
               nb::cast<std::string>(nb::str(error.value()));
    }
    throw std::runtime_error(failed);
  }

 private:
  nb::object* function_;
};

Reduction custom(nb::object function, std::string name, bool commutative) {
  if (!PyCallable_Check(function.ptr()))
    throw nb::type_error("Reduction.custom: function is not callable");
  // A ufunc of one input would take the second array as the place of its result.
  if (const nb::object inputs = nb::getattr(function, "nin", nb::none());
      PyLong_Check(inputs.ptr()) && nb::cast<int>(inputs) != 2)
    throw nb::type_error(("op is " + nb::cast<std::string>(nb::repr(function)) + ", which takes " +
                          std::to_string(nb::cast<int>(inputs)) +
                          " arrays: expected a function of two")
                             .c_str());
  release_gil_in_calls();
  const auto shared = std::make_shared<const Function>(std::move(function));
  return Reduction::custom([shared](const void* in, void* inout, std::size_t count,
                                    DataType type) { (*shared)(in, inout, count, type); },
                           {.name = std::move(name), .commutative = commutative});
}

ReduceOp named(std::string_view name) {
  std::string known;
  for (const auto op : kReduceOps) {
    if (to_string(op) == name) return op;
    known += (known.empty() ? "" : ", ") + std::string(to_string(op));
  }
  refuse("op is '" + std::string(name) + "': expected one of " + known);
}

std::string name_of(nb::handle function) {
  const auto name =
      nb::getattr(function, "__qualname__", nb::getattr(function, "__name__", nb::none()));
  if (name.is_none()) return "function";
  return nb::cast<std::string>(nb::str(name));
}

}  // namespace

bool is_in_reduction() { return in_reduction; }

Reduction reduction_of(nb::handle op) {
  if (op.is_none()) return ReduceOp::sum;
  ReduceOp plain{};
  if (nb::try_cast(op, plain, false)) return plain;
  const Reduction* made = nullptr;
  if (nb::try_cast(op, made, false) && made != nullptr) return *made;
  std::string_view name;
  if (nb::try_cast(op, name, false)) return named(name);
  if (PyCallable_Check(op.ptr())) return custom(nb::borrow(op), name_of(op), true);
  throw nb::type_error(("op is " + nb::cast<std::string>(nb::repr(op)) +
                        ": expected a ReduceOp, its name, a Reduction, or a function")
                           .c_str());
}

Reduction reduction_of(nb::handle op, const Arguments& arguments) {
  auto reduction = reduction_of(op);
  const bool is_sum = reduction.form() != Reduction::Form::custom &&
                      (reduction.op() == ReduceOp::sum || reduction.op() == ReduceOp::avg);
  if (arguments.parts() == 2 && !is_sum)
    refuse(std::string(arguments.call()) + ": op is " + reduction.text() +
           ": expected sum or avg, which complex numbers have");
  return reduction;
}

void bind_reductions(nb::module_& module) {
  using namespace nb::literals;
  auto ops = nb::enum_<ReduceOp>(module, "ReduceOp", "How contributions are combined.");
  for (const auto op : kReduceOps) ops.value(std::string(to_string(op)).c_str(), op);
  nb::class_<Reduction>(module, "Reduction",
                        "The operation by which a call combines; any `op` argument takes it.")
      .def(
          "__init__", [](Reduction* at, nb::handle op) { new (at) Reduction(reduction_of(op)); },
          "op"_a.none())
      .def_static(
          "premultiplied_sum",
          [](nb::handle factor) {
            if (PyLong_Check(factor.ptr())) {
              std::int64_t whole = 0;
              if (!nb::try_cast(factor, whole))
                throw nb::value_error(("premultiplied_sum: factor is " +
                                       nb::cast<std::string>(nb::repr(factor)) +
                                       ": expected at most 64 bits")
                                          .c_str());
              return Reduction::premultiplied_sum(whole);
            }
            double real = 0;
            if (!nb::try_cast(factor, real))
              throw nb::type_error(("premultiplied_sum: factor is " +
                                    nb::cast<std::string>(nb::repr(factor)) + ": expected a number")
                                       .c_str());
            return Reduction::premultiplied_sum(real);
          },
          "factor"_a,
          "The sum of contributions, each multiplied by its own rank's factor. Integers need a "
          "whole factor.")
      .def_static("custom", &custom, "function"_a, "name"_a, "commutative"_a = true,
                  "A function (a, b), called with two arrays of one dimension and one length.\n\n"
                  "It returns the combination, or writes it to b and returns None. a is the left "
                  "operand, from lower\n"
                  "ranks, and read-only. It must be associative and must not use the communicator. "
                  "name: ranks\n"
                  "compare it. commutative=False: contributions are only combined in rank order. "
                  "An exception of it ends\n"
                  "the call on all ranks with Aborted. Without numpy the arrays are memoryviews.")
      .def("__repr__", [](const Reduction& it) { return "<ccoll.Reduction: " + it.text() + ">"; });
}

}  // namespace ccoll::python

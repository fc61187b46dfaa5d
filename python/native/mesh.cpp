// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator as a grid.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <map>

#include "module.hpp"
#include "waiting.hpp"

namespace ccoll::python {
namespace {

/// Communicators of its axes keep the mesh, whose they are.
struct Grid {
  std::shared_ptr<Mesh> mesh;
  std::map<std::string, std::shared_ptr<Used>, std::less<>> axes;

  explicit Grid(std::shared_ptr<Mesh> made) : mesh(std::move(made)) {}
  Grid(Grid&&) = default;
  ~Grid() {
    // Threads that a communicator waits for at its end may need the GIL.
    const nb::gil_scoped_release away;
    axes.clear();
    mesh.reset();
  }
};

using Axes = std::vector<std::pair<std::string, int>>;

Grid make(const Comm& communicator, nb::handle given, const std::string& name, Seconds timeout) {
  const nb::object items = PyDict_Check(given.ptr())
                               ? nb::object(nb::list(nb::borrow(given).attr("items")()))
                               : nb::borrow(given);
  Axes listed;
  if (!nb::try_cast(items, listed))
    throw nb::type_error(
        "Mesh: axes is neither a dict of names and sizes nor a list of such pairs");
  std::vector<Mesh::Axis> axes;
  for (auto& [axis, size] : listed) axes.push_back({std::move(axis), size});
  const GroupOptions options{.name = name, .timeout = limit_of(timeout, "timeout")};
  const auto call = communicator.open();
  const auto& parent = call.shared();
  Grid made{interruptible([=] { return std::make_shared<Mesh>(*parent, axes, options); },
                          [&] { parent->abort("KeyboardInterrupt in Python"); })};
  for (const auto& axis : axes)
    made.axes.emplace(axis.name, std::make_shared<Used>(std::shared_ptr<Communicator>(
                                     made.mesh, &made.mesh->axis(axis.name))));
  return made;
}

Comm axis(const Grid& grid, std::string_view name) {
  (void)grid.mesh->axis(name);  // throws, and names the axes, where there is no such one
  return Comm(grid.axes.find(name)->second);
}

}  // namespace

void bind_mesh(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Grid>(
      module, "Mesh",
      "The ranks of a communicator as a grid whose axes have names, the last one the fastest:\n"
      "Mesh(comm, {'data': 2, 'model': 3}). Each line along an axis is a communicator.")
      .def(
          "__init__",
          [](Grid* at, const Comm& communicator, nb::handle axes, const std::string& name,
             Seconds timeout) { new (at) Grid(make(communicator, axes, name, timeout)); },
          "communicator"_a, "axes"_a, nb::kw_only(), "name"_a = "", "timeout"_a = nb::none(),
          "Collective; the product of the sizes is the number of ranks. Raises Mismatch where "
          "ranks differ.")
      .def("axis", &axis, "axis"_a,
           "The ranks along that axis through this one, as a communicator.")
      .def(
          "size", [](const Grid& it, std::string_view name) { return it.mesh->size(name); },
          "axis"_a, "How many ranks lie along that axis.")
      .def_prop_ro(
          "coordinates", [](const Grid& it) { return nb::tuple(nb::cast(it.mesh->coordinates())); },
          "Where this rank stands, one number per axis.")
      .def(
          "coordinates_of",
          [](const Grid& it, int rank) {
            return nb::tuple(nb::cast(it.mesh->coordinates_of(rank)));
          },
          "rank"_a, "Where rank `rank` of the communicator stands.")
      .def(
          "rank_at",
          [](const Grid& it, const std::vector<int>& coordinates) {
            return it.mesh->rank_at(coordinates);
          },
          "coordinates"_a, "The rank of the communicator that stands there.");
}

}  // namespace ccoll::python

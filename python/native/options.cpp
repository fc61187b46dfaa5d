// SPDX-License-Identifier: Apache-2.0
// Enumerations, options, identities and memory.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cmath>
#include <limits>

#include "module.hpp"

namespace ccoll::python {
namespace {

using namespace nb::literals;
using Milliseconds = std::chrono::milliseconds;

double seconds_of(Milliseconds limit) {
  if (limit == kNoLimit) return std::numeric_limits<double>::infinity();
  return static_cast<double>(limit.count()) / 1000;
}

template <auto member>
void seconds(nb::class_<CommunicatorOptions>& options, const char* name, bool may_be_zero,
             const char* doc) {
  options.def_prop_rw(
      name, [](const CommunicatorOptions& it) { return seconds_of(it.*member); },
      [name, may_be_zero](CommunicatorOptions& it, double value) {
        it.*member = value == 0 && may_be_zero ? Milliseconds(0) : limit_of(value, name);
      },
      nb::lock_self(), doc);
}

/// An option of a struct within the options.
template <auto outer, auto inner>
void nested(nb::class_<CommunicatorOptions>& options, const char* name, const char* doc) {
  using Value = std::remove_cvref_t<decltype(std::declval<CommunicatorOptions>().*outer.*inner)>;
  options.def_prop_rw(
      name, [](const CommunicatorOptions& it) { return it.*outer.*inner; },
      [](CommunicatorOptions& it, Value value) { it.*outer.*inner = std::move(value); },
      nb::lock_self(), doc);
}

template <auto member>
void plain(nb::class_<CommunicatorOptions>& options, const char* name, const char* doc) {
  options.def_rw(name, member, nb::lock_self(), doc);
}

void bind_options(nb::module_& module) {
  using Options = CommunicatorOptions;
  nb::class_<Options> options(
      module, "Options",
      "How a communicator is made; what is not set is as the environment says.\n\n"
      "docs/environment.md has the variables. Time limits are in seconds, math.inf for none.");
  options.def("__init__", [](Options* at) { new (at) Options(Options::from_environment()); });
  seconds<&Options::timeout>(options, "timeout", false,
                             "The limit of each call that gives none, in seconds.");
  seconds<&Options::start_timeout>(options, "start_timeout", false,
                                   "The limit of start-up, in seconds.");
  seconds<&Options::warn_after>(options, "warn_after", true,
                                "When a call that does not move is logged; 0: never.");
  seconds<&Options::heartbeat>(options, "heartbeat", true,
                               "Silence in seconds after which a rank is lost; 0: never.");
  plain<&Options::name>(options, "name", "The communicator's errors begin with it.");
  plain<&Options::transport>(
      options, "transport", "'tcp', 'verbs', 'shm', 'inproc', a list, or '^' and what not to use.");
  plain<&Options::algorithm>(options, "algorithm",
                             "An algorithm for every call that has it; empty: by cost.");
  plain<&Options::max_lanes>(options, "max_lanes",
                             "The most parallel lanes of an algorithm; 0: by cost.");
  plain<&Options::deterministic>(options, "deterministic",
                                 "Sums of floats depend on contributions and ranks alone.");
  plain<&Options::checksum>(options, "checksum", "Data over TCP and RDMA carry a CRC32C.");
  plain<&Options::eager_limit>(options, "eager_limit",
                               "Bytes up to which a send does not wait for its receive.");
  plain<&Options::strict_sends>(options, "strict_sends", "Every send waits for its receive.");
  plain<&Options::interface>(options, "interface",
                             "The interface for connections, by name or prefix.");
  plain<&Options::socket_family>(options, "socket_family", "'ipv4', 'ipv6', or empty for either.");
  plain<&Options::token>(options, "token", "The job's token; empty: loopback addresses only.");
  nested<&Options::shm, &SharedMemoryOptions::slot_bytes>(options, "slot_bytes",
                                                          "Bytes of shared memory for slots.");
  nested<&Options::shm, &SharedMemoryOptions::single_copy>(options, "single_copy",
                                                           "Ranks of a host read directly.");
  nested<&Options::shm, &SharedMemoryOptions::huge_pages>(options, "huge_pages",
                                                          "Large memory may become huge pages.");
  nested<&Options::device, &DeviceOptions::ordinal>(
      options, "device", "This rank's GPU, as CUDA numbers them, for arrays there; -1: none.");
  nested<&Options::tls, &TlsOptions::mode>(options, "tls_mode", "'off', 'psk' or 'cert'.");
  nested<&Options::tls, &TlsOptions::certificate>(options, "tls_certificate", "A file, PEM.");
  nested<&Options::tls, &TlsOptions::key>(options, "tls_key", "A file, PEM.");
  nested<&Options::tls, &TlsOptions::authority>(options, "tls_authority", "A file, PEM.");
  nested<&Options::tls, &TlsOptions::name>(options, "tls_name",
                                           "The DNS name of every peer's certificate.");
}

void bind_unique_id(nb::module_& module) {
  nb::class_<UniqueId>(module, "UniqueId",
                       "128 bytes by which ranks find each other; they hold a secret. bytes(id) "
                       "and UniqueId(bytes)\n"
                       "carry them from process to process.")
      .def(
          "__init__",
          [](UniqueId* at, const nb::bytes& bytes) {
            UniqueId made;
            if (bytes.size() != made.bytes.size())
              refuse("UniqueId: " + std::to_string(bytes.size()) +
                     " bytes are given: expected 128");
            std::copy_n(static_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                        made.bytes.begin());
            new (at) UniqueId(made);
          },
          "data"_a)
      .def_static(
          "create",
          [](const std::string& interface) {
            const nb::gil_scoped_release away;
            return UniqueId::create(interface);
          },
          "interface"_a = "", "A new id; this process serves its store as long as it runs.")
      .def("__bytes__",
           [](const UniqueId& it) { return nb::bytes(it.bytes.data(), it.bytes.size()); })
      .def(
          "__eq__", [](const UniqueId& one, const UniqueId& other) { return one == other; },
          nb::is_operator());
}

/// Registered memory, which numpy.frombuffer and memoryview read and write in place.
struct Registered {
  ccoll::Memory memory;
  int exports = 0;
};

int export_memory(PyObject* self, Py_buffer* view, int flags) {
  const nb::ft_object_guard lock(self);
  auto* const it = nb::inst_ptr<Registered>(self);
  if (it->memory.data() == nullptr) {
    PyErr_SetString(PyExc_BufferError, "this memory has been freed");
    return -1;
  }
  const auto bytes = static_cast<Py_ssize_t>(it->memory.size_bytes());
  if (PyBuffer_FillInfo(view, self, it->memory.data(), bytes, 0, flags) != 0) return -1;
  it->exports++;
  return 0;
}

void end_export(PyObject* self, Py_buffer*) {
  const nb::ft_object_guard lock(self);
  nb::inst_ptr<Registered>(self)->exports--;
}

void bind_memory(nb::module_& module) {
  static PyType_Slot slots[] = {
      {Py_bf_getbuffer, reinterpret_cast<void*>(&export_memory)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(&end_export)},
      {0, nullptr},
  };
  nb::class_<Registered>(
      module, "Memory",
      "Memory that ranks of this host read where it lies: numpy.frombuffer(memory, dtype).",
      nb::type_slots(slots))
      .def(
          "__len__", [](const Registered& it) { return it.memory.size_bytes(); }, nb::lock_self())
      .def(
          "free",
          [](Registered& it) {
            if (it.exports > 0) {
              PyErr_SetString(PyExc_BufferError, "Memory.free: arrays still use this memory");
              throw nb::python_error();
            }
            it.memory.reset();
          },
          nb::lock_self(), "Frees it now. Raises BufferError while arrays use it.");
  module.def(
      "allocate", [](std::size_t bytes) { return Registered{ccoll::allocate(bytes)}; }, "bytes"_a,
      "New registered memory, all zero: a few large buffers, of 16 KiB and more, that are sent "
      "often.\n\n"
      "Each takes a file descriptor. Raises Exhausted (a MemoryError).");
}

}  // namespace

void bind_values(nb::module_& module) {
  auto types = nb::enum_<DataType>(module, "DataType", "The type of one element.");
  for (const auto type : kDataTypes) types.value(std::string(to_string(type)).c_str(), type);
  bind_options(module);
  bind_unique_id(module);
  bind_memory(module);
}

}  // namespace ccoll::python

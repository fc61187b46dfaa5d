// SPDX-License-Identifier: Apache-2.0
// Stores, by which ranks find each other.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "module.hpp"
#include "own_store.hpp"
#include "waiting.hpp"

namespace ccoll::python {
namespace {

using namespace nb::literals;
using Shared = std::shared_ptr<Store>;

constexpr double kDefault = 60;

std::string_view view_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

/// A request of a store; it waits without the GIL.
template <typename Ask>
auto ask(const Shared& store, double timeout, Ask ask) {
  const auto limit = limit_of(timeout, "timeout");
  return interruptible([store, limit, ask] { return ask(*store, limit); }, [] {});
}

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

}  // namespace

void bind_stores(nb::module_& module) {
  nb::class_<Store>(
      module, "Store",
      "Keys and values by which ranks find each other. Keys are str, values bytes; time limits are "
      "in\n"
      "seconds. Every method raises TimeoutError, or PeerLost where the server went away.")
      .def(
          "set",
          [](const Shared& self, const std::string& key, const nb::bytes& value, double timeout) {
            ask(self, timeout,
                [key, value = std::string(view_of(value))](Store& store, auto limit) {
                  store.set(key, value, limit);
                  return true;
                });
          },
          "key"_a, "value"_a, "timeout"_a = kDefault)
      .def(
          "get",
          [](const Shared& self, const std::string& key, double timeout) {
            return bytes_of(ask(self, timeout,
                                [key](Store& store, auto limit) { return store.get(key, limit); }));
          },
          "key"_a, "timeout"_a = kDefault, "Waits until key exists, and returns its value.")
      .def(
          "add",
          [](const Shared& self, const std::string& key, std::int64_t delta, double timeout) {
            return ask(self, timeout,
                       [=](Store& store, auto limit) { return store.add(key, delta, limit); });
          },
          "key"_a, "delta"_a, "timeout"_a = kDefault,
          "Adds to the number under key (0 where there is none).")
      .def(
          "check",
          [](const Shared& self, const std::vector<std::string>& keys, double timeout) {
            return ask(self, timeout,
                       [=](Store& store, auto limit) { return store.check(keys, limit); });
          },
          "keys"_a, "timeout"_a = kDefault, "Whether all keys exist.")
      .def(
          "remove",
          [](const Shared& self, const std::string& key, double timeout) {
            return ask(self, timeout,
                       [=](Store& store, auto limit) { return store.remove(key, limit); });
          },
          "key"_a, "timeout"_a = kDefault, "Deletes key; False where there was none.")
      .def(
          "wait",
          [](const Shared& self, const std::vector<std::string>& keys, double timeout) {
            ask(self, timeout, [=](Store& store, auto limit) {
              store.wait(keys, limit);
              return true;
            });
          },
          "keys"_a, "timeout"_a = kDefault, "Waits until all keys exist.")
      .def(
          "compare_set",
          [](const Shared& self, const std::string& key, const std::optional<nb::bytes>& expected,
             const nb::bytes& desired, double timeout) {
            std::optional<std::string> before;
            if (expected) before = view_of(*expected);
            return ask(self, timeout,
                       [=, desired = std::string(view_of(desired))](Store& store, auto limit) {
                         return store.compare_set(key, before, desired, limit);
                       });
          },
          "key"_a, "expected"_a.none(), "desired"_a, "timeout"_a = kDefault,
          "Sets key to desired if its value is expected, or None and it does not exist. Returns "
          "whether it did.")
      .def(
          "append",
          [](const Shared& self, const std::string& key, const nb::bytes& value, double timeout) {
            return ask(self, timeout,
                       [=, value = std::string(view_of(value))](Store& store, auto limit) {
                         return store.append(key, value, limit);
                       });
          },
          "key"_a, "value"_a, "timeout"_a = kDefault,
          "Appends to the value under key; returns its new length.")
      .def(
          "multi_get",
          [](const Shared& self, const std::vector<std::string>& keys, double timeout) {
            nb::list values;
            for (const auto& value : ask(self, timeout, [=](Store&store, auto limit) {
                   return store.multi_get(keys, limit);
                 }))
              values.append(bytes_of(value));
            return values;
          },
          "keys"_a, "timeout"_a = kDefault, "Waits until all keys exist; returns their values.")
      .def(
          "multi_set",
          [](const Shared& self, const nb::dict& values, double timeout) {
            std::vector<std::pair<std::string, std::string>> pairs;
            for (const auto& [key, value] : values)
              pairs.emplace_back(nb::cast<std::string>(key),
                                 std::string(view_of(nb::cast<nb::bytes>(value))));
            ask(self, timeout, [=](Store& store, auto limit) {
              store.multi_set(pairs, limit);
              return true;
            });
          },
          "values"_a, "timeout"_a = kDefault, "Sets all keys of a dict at once.")
      .def(
          "list",
          [](const Shared& self, const std::string& prefix, double timeout) {
            return ask(self, timeout,
                       [=](Store& store, auto limit) { return store.list(prefix, limit); });
          },
          "prefix"_a, "timeout"_a = kDefault, "All keys that begin with prefix, sorted.")
      .def(
          "barrier",
          [](const Shared& self, const std::string& key, std::size_t count, double timeout) {
            ask(self, timeout, [=](Store& store, auto limit) {
              store.barrier(key, count, limit);
              return true;
            });
          },
          "key"_a, "count"_a, "timeout"_a = kDefault, "Waits until count callers wait at key.")
      .def_prop_ro(
          "address", [](const Shared& self) { return self->address(); }, "'host:port', or empty.");
  module.def("own_store", &own_store, "store"_a);
  module.def("inproc_store", &make_inproc_store,
             "A store for ranks that are threads of this process.");
  module.def("file_store", &make_file_store, "path"_a,
             "A store in a file that all ranks can open and lock.");
  module.def("prefix_store", &make_prefix_store, "store"_a, "prefix"_a,
             "The store with a prefix before every key.");
  module.def(
      "tcp_store",
      [](const std::string& address, const std::string& token, double timeout) {
        const auto limit = limit_of(timeout, "timeout");
        return interruptible([=] { return connect_tcp_store(address, token, limit); }, [] {});
      },
      "address"_a, "token"_a = "", "timeout"_a = kDefault,
      "A connection to the server at 'host:port'.");
  nb::class_<StoreServer>(module, "StoreServer",
                          "A TCP store's server, as long as this object lives.")
      .def_prop_ro("address", &StoreServer::address, "'host:port'.");
  module.def(
      "serve_store",
      [](const std::string& address, const std::string& token) {
        return std::shared_ptr<StoreServer>(serve_tcp_store(address, token));
      },
      "address"_a = "", "token"_a = "",
      "Serves a TCP store; '' is a free port of the loopback interface.");
}

}  // namespace ccoll::python

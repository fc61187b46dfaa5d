// SPDX-License-Identifier: Apache-2.0
#include "own_store.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <typeinfo>

#include "pending.hpp"

namespace ccoll::python {
namespace {

using Text = std::string_view;

nb::bytes bytes_of(Text text) { return nb::bytes(text.data(), text.size()); }
nb::str str_of(Text text) { return nb::str(text.data(), text.size()); }

double seconds_of(Store::Timeout timeout) { return std::chrono::duration<double>(timeout).count(); }

std::string text_of(nb::handle value, const char* method) {
  if (!PyBytes_Check(value.ptr()))
    throw nb::type_error(("returned " + nb::cast<std::string>(nb::repr(value.type())) +
                          ": expected bytes, from " + method)
                             .c_str());
  const auto bytes = nb::borrow<nb::bytes>(value);
  return {bytes.c_str(), bytes.size()};
}

/// The error that a method raised, as the library has it. Its kind is the one that a store may
/// tell.
Error error_of(const nb::python_error& raised, const char* method) {
  const auto is = [&](PyObject* type) { return raised.matches(type); };
  const auto kind = is(PyExc_TimeoutError)      ? ErrorKind::timed_out
                    : is(PyExc_ConnectionError) ? ErrorKind::peer_lost
                    : is(PyExc_ValueError)      ? ErrorKind::invalid_argument
                                                : ErrorKind::internal;
  return {kind, std::string("the store's method ") + method + " raised " +
                    nb::cast<std::string>(nb::str(raised.type().attr("__name__"))) + ": " +
                    nb::cast<std::string>(nb::str(raised.value()))};
}

class OwnStore final : public Store {
 public:
  explicit OwnStore(nb::object methods) : methods_(std::move(methods)) {}
  OwnStore(const OwnStore&) = delete;
  OwnStore& operator=(const OwnStore&) = delete;
  ~OwnStore() override {
    const Inside here;
    if (Inside::is_ending()) {
      (void)methods_.release();  // left where it is
      return;
    }
    const nb::gil_scoped_acquire gil;
    methods_.reset();
  }

  void set(Text key, Text value, Timeout timeout) override {
    call("set", [&](auto& method) { method(str_of(key), bytes_of(value), seconds_of(timeout)); });
  }
  std::string get(Text key, Timeout timeout) override {
    return call("get", [&](auto& method) {
      return text_of(method(str_of(key), seconds_of(timeout)), "get");
    });
  }
  void wait(std::span<const std::string> keys, Timeout timeout) override {
    for (const auto& key : keys) get(key, timeout);
  }
  std::int64_t add(Text key, std::int64_t delta, Timeout timeout) override {
    return call("add", [&](auto& method) {
      return nb::cast<std::int64_t>(method(str_of(key), delta, seconds_of(timeout)));
    });
  }
  bool compare_set(Text key, std::optional<Text> expected, Text desired, Timeout timeout) override {
    return call("compare_set", [&](auto& method) {
      const nb::object before = expected ? nb::object(bytes_of(*expected)) : nb::none();
      return nb::cast<bool>(method(str_of(key), before, bytes_of(desired), seconds_of(timeout)));
    });
  }
  std::size_t append(Text key, Text value, Timeout timeout) override {
    return call("append", [&](auto& method) {
      return nb::cast<std::size_t>(method(str_of(key), bytes_of(value), seconds_of(timeout)));
    });
  }
  bool check(std::span<const std::string> keys, Timeout timeout) override {
    return call("check", [&](auto& method) {
      const std::vector<std::string> all(keys.begin(), keys.end());
      return nb::cast<bool>(method(all, seconds_of(timeout)));
    });
  }
  bool remove(Text key, Timeout timeout) override {
    return call("remove", [&](auto& method) {
      return nb::cast<bool>(method(str_of(key), seconds_of(timeout)));
    });
  }
  std::vector<std::string> multi_get(std::span<const std::string> keys, Timeout timeout) override {
    std::vector<std::string> values;
    for (const auto& key : keys) values.push_back(get(key, timeout));
    return values;
  }
  void multi_set(std::span<const std::pair<std::string, std::string>>, Timeout) override {
    throw Error(ErrorKind::unsupported, "a store written in Python sets one key at a time");
  }
  std::vector<std::string> list(Text prefix, Timeout timeout) override {
    return call("list", [&](auto& method) {
      auto keys = nb::cast<std::vector<std::string>>(method(str_of(prefix), seconds_of(timeout)));
      std::sort(keys.begin(), keys.end());
      return keys;
    });
  }
  void barrier(Text key, std::size_t count, Timeout timeout) override {
    call("barrier", [&](auto& method) { method(str_of(key), count, seconds_of(timeout)); });
  }

 private:
  /// use(method), with the GIL, in whichever thread this is.
  template <typename Use>
  std::invoke_result_t<Use, nb::object&> call(const char* name, Use use) {
    const Inside here;
    if (Inside::is_ending()) throw Error(ErrorKind::aborted, "the interpreter ends");
    const nb::gil_scoped_acquire gil;
    if (!nb::hasattr(methods_, name))
      throw Error(ErrorKind::unsupported, std::string("the store has no method ") + name);
    try {
      nb::object method = methods_.attr(name);
      return use(method);
    } catch (const nb::python_error& raised) {
      throw error_of(raised, name);
    } catch (const nb::builtin_exception& wrong) {
      throw Error(ErrorKind::internal,
                  std::string("the store's method ") + name + " " + wrong.what());
    } catch (const std::bad_cast&) {
      throw Error(ErrorKind::internal,
                  std::string("the store's method ") + name + " returned a value of a wrong type");
    }
  }

  nb::object methods_;
};

}  // namespace

std::shared_ptr<Store> own_store(nb::object methods) {
  for (const char* name : {"set", "get", "compare_set", "list"})
    if (!nb::hasattr(methods, name))
      throw nb::type_error(("store is " + nb::cast<std::string>(nb::repr(methods.type())) +
                            ", which has no method " + name +
                            ": expected a ccoll.Store, or an object with set, get, compare_set "
                            "and list as it has them")
                               .c_str());
  return std::make_shared<OwnStore>(std::move(methods));
}

}  // namespace ccoll::python

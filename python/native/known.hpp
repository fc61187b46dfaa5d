// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace ccoll::python {

namespace nb = nanobind;

/// Facts about a few of Python's objects, which each call asks for and nothing forgets.
template <typename Object, typename Fact, std::size_t most>
class Known {
 public:
  /// Null where nothing is known. It takes no lock.
  const Fact* of(const Object* object) const {
    const auto many = many_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < many; i++)
      if (all_[i].first == object) return &all_[i].second;
    return nullptr;
  }
  bool is_full() const { return many_.load(std::memory_order_relaxed) == most; }
  /// Keeps the object. Does nothing if it is full, or knows the object.
  void add(Object* object, const Fact& fact) {
    const nb::ft_lock_guard lock(adding_);
    const auto many = many_.load(std::memory_order_relaxed);
    if (many == most || of(object) != nullptr) return;
    Py_INCREF(object);
    all_[many] = {object, fact};
    many_.store(many + 1, std::memory_order_release);
  }

 private:
  nb::ft_mutex adding_;
  std::atomic<std::size_t> many_{0};
  std::array<std::pair<Object*, Fact>, most> all_{};
};

}  // namespace ccoll::python

// SPDX-License-Identifier: Apache-2.0
// Operators of torch, which python/ccoll/torch/_way.py calls: so the plugin needs nothing of
// Python, and one serves every version of it.
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backend.hpp"

namespace ccoll::plugin {
namespace {

/// Gives the group a backend of ccoll's, whose communicator is made meanwhile.
void attach(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::string& name,
            const std::string& interface, std::int64_t timeout_ms) {
  auto made = Group::make({.store = group->getStore(),
                           .rank = group->getRank(),
                           .size = group->getSize(),
                           .name = name,
                           .interface = interface,
                           .timeout = std::chrono::milliseconds(timeout_ms)});
  group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<Backend>(std::move(made)));
}

std::shared_ptr<Group> group_named(const std::string& name) {
  auto group = Group::named(name);
  TORCH_CHECK(group, "ccoll: there is no process group '", name, "' that is open");
  return group;
}

/// Whether the communicator is there within these milliseconds.
bool is_made(const std::string& name, std::int64_t limit_ms) {
  return group_named(name)->is_made(std::chrono::milliseconds(limit_ms));
}

/// The address of a std::shared_ptr to the communicator, which the caller takes over.
std::int64_t communicator(const std::string& name) {
  auto* const shared = new std::shared_ptr<Communicator>(group_named(name)->communicator());
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(shared));
}

std::int64_t timeout_ms(const std::string& name) { return group_named(name)->timeout().count(); }

void close_all() { Group::close_all(); }

}  // namespace

TORCH_LIBRARY(ccoll, library) {
  library.def("attach", &attach);
  library.def("is_made", &is_made);
  library.def("communicator", &communicator);
  library.def("timeout_ms", &timeout_ms);
  library.def("close_all", &close_all);
}

}  // namespace ccoll::plugin

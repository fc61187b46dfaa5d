// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/endings.hpp"

#include <utility>

namespace ccoll {

constinit Endings::Node Endings::over{};

Endings::~Endings() {
  auto* node = first_.load(std::memory_order_acquire);
  while (node != nullptr && node != &over) delete std::exchange(node, node->next);
}

void Endings::add(std::shared_ptr<Ending> ending) {
  std::unique_ptr<Node> node(new Node{std::move(ending), first_.load(std::memory_order_acquire)});
  do {
    if (node->next == &over) return node->ending->operation_ended();
  } while (!first_.compare_exchange_weak(node->next, node.get(), std::memory_order_acq_rel));
  (void)node.release();
}

void Endings::tell() noexcept {
  auto* node = first_.exchange(&over, std::memory_order_acq_rel);
  if (node == nullptr || node == &over) return;
  Node* in_order = nullptr;
  while (node != nullptr) {
    auto* const before = std::exchange(node->next, in_order);
    in_order = std::exchange(node, before);
  }
  while (in_order != nullptr) {
    const std::unique_ptr<Node> told(std::exchange(in_order, in_order->next));
    told->ending->operation_ended();
  }
}

}  // namespace ccoll

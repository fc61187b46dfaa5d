// SPDX-License-Identifier: Apache-2.0
// The list of cases: all of them, or enough that each operation, type, reduction, root, size and
// placement occurs several times.
#include <algorithm>

#include "cases.hpp"

namespace conformance {

namespace {

constexpr std::size_t kSmall[] = {0, 8, 24, 1000, 4096, 65536};
constexpr std::size_t kLarge[] = {1 << 20, 4 << 20};

bool has_root(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::bcast ||
         operation == Operation::reduce || operation == Operation::gather ||
         operation == Operation::scatter || operation == Operation::shift;
}

bool goes_in_place(Operation operation) {
  return operation != Operation::shift && operation != Operation::exchange;
}

/// A case of that operation, type and reduction for each root, size and placement.
void add_all(std::vector<Case>& all, Case next, const Scope& scope) {
  std::vector<std::size_t> sizes(std::begin(kSmall), std::end(kSmall));
  const auto type = next.type->number;
  if (type == ncclFloat32 || type == ncclBfloat16 || type == ncclInt8) {
    sizes.insert(sizes.end(), std::begin(kLarge), std::end(kLarge));
  }
  const int roots = has_root(next.operation) ? scope.ranks : 1;
  const auto reduction = static_cast<std::uint64_t>(next.reduction);
  for (const std::size_t bytes : sizes) {
    // The large ones have one reduction and one root.
    if (bytes > kSmall[5] && next.reduces() && reduction != bytes % 3) continue;
    for (int root = 0; root < (bytes > kSmall[5] ? 1 : roots); ++root) {
      for (int place = 0; place < (goes_in_place(next.operation) ? 2 : 1); ++place) {
        next.root = root;
        next.count = bytes / next.type->size;
        next.in_place = place == 1 || next.operation == Operation::bcast;
        next.seed = scatter(scope.seed ^ all.size());
        next.offset = next.seed % 4;
        all.push_back(next);
      }
    }
  }
}

/// Two of them, drawn at random.
void add_two(std::vector<Case>& all, Case next, const Scope& scope) {
  for (int place = 0; place < 2; ++place) {
    next.seed = scatter(scope.seed ^ all.size());
    next.root = static_cast<int>((next.seed >> 8) % static_cast<std::uint64_t>(scope.ranks));
    // There are few of the largest, because their checks take most of the time.
    const std::size_t drawn = (next.seed >> 16) % (4 * std::size(kSmall));
    next.count = kSmall[drawn == 0 ? 5 : drawn % 5] / next.type->size;
    next.in_place =
        next.operation == Operation::bcast || (place == 1 && goes_in_place(next.operation));
    next.offset = (next.seed >> 24) % 4;
    all.push_back(next);
  }
}

/// Some operations get one of 4 MiB in all; which ones depends on the number of ranks.
void add_large(std::vector<Case>& all, const Scope& scope) {
  for (int operation = scope.ranks % 4; operation < kOperations; operation += 4) {
    Case next;
    next.operation = static_cast<Operation>(operation);
    next.type = &types()[7];
    next.count = kLarge[1] / next.type->size / static_cast<std::size_t>(scope.ranks);
    next.in_place = next.operation == Operation::bcast;
    next.seed = scatter(scope.seed ^ all.size());
    all.push_back(next);
  }
}

}  // namespace

std::vector<Case> cases(const Scope& scope) {
  std::vector<Case> all;
  for (int operation = 0; operation < kOperations; ++operation) {
    for (const Type& type : types()) {
      Case next;
      next.operation = static_cast<Operation>(operation);
      next.type = &type;
      for (const auto reduction : kReductions) {
        next.reduction = reduction;
        if (!next.reduces() && reduction != Reduction::sum) continue;
        if (scope.full)
          add_all(all, next, scope);
        else
          add_two(all, next, scope);
      }
    }
  }
  if (!scope.full) add_large(all, scope);
  // The order is the same on all ranks, but not sorted by operation.
  std::sort(all.begin(), all.end(),
            [](const Case& a, const Case& b) { return scatter(a.seed) < scatter(b.seed); });
  return all;
}

}  // namespace conformance

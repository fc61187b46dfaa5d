// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One thread that drives one or several ranks of its process through all cases.

#include <stdexcept>
#include <string>
#include <vector>

#include "cases.hpp"
#include "memory.hpp"
#include "nccl.h"
#include "ranks.hpp"

namespace conformance {

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Driver {
 public:
  /// `locals`: the ranks of its process that it drives.
  Driver(const Request& request, int process, std::vector<int> locals, const ncclUniqueId& id,
         Memory& memory);

  /// Throws Wrong.
  void run();

 private:
  void make();
  void destroy();
  void go_through(const std::vector<Case>& all, Memory& memory, std::size_t most_in_group);
  /// Runs one case alone, or several in a group.
  void step(const Case* cases, std::size_t count, Memory& memory);
  void check_numbers();
  void split();
  void shrink();
  void use_own_memory();
  void register_buffers();

  /// The final code of a call.
  ncclResult_t settled(ncclResult_t code);
  void must(ncclResult_t code, const std::string& what);
  int rank(std::size_t i) const {
    return process_ * request_.layout.ranks_per_process + locals_[i];
  }

  Request request_;
  int process_;
  std::vector<int> locals_;
  ncclUniqueId id_;
  Memory* memory_;
  std::vector<ncclComm_t> communicators_;
  int ranks_;                  ///< of the communicators
  std::vector<int> ranks_in_;  ///< the ranks that it drives
};

}  // namespace conformance

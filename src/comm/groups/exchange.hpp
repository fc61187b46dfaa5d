// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part that serves its other calls: ranks tell each other what those need to know
/// first. Collective; each call takes the owner flag.

#include <cstddef>
#include <cstdint>
#include <string>

#include "ccoll/communicator.hpp"
#include "comm/call/call.hpp"
#include "comm/collectives/collective_calls.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/progress.hpp"
#include "core/result.hpp"
#include "schedule/problem.hpp"

namespace ccoll {

class Exchange {
 public:
  Exchange(const Self& self, Progress& progress, CollectiveCalls& calls)
      : self_(self), progress_(progress), calls_(calls) {}

  /// everyones: `bytes` from every rank's `mine`, by rank. `shown_as` is the kind in the signature,
  /// and `shown_root` its root. Fails in an open group of calls.
  Status tell_all(std::uint8_t shown_as, const void* mine, void* everyones, std::size_t bytes,
                  const CallOptions& options = {}, Rank shown_root = 0);
  /// The same while the communicator is made: that may be in an open group of other ones' calls.
  Status tell_all_at_start(std::uint8_t shown_as, const void* mine, void* everyones,
                           std::size_t bytes);
  /// Fails with a mismatch that names both sides unless all ranks gave the same `text`. Fails in an
  /// open group of calls, as tell_all() does.
  Status agree(std::uint8_t shown_as, const std::string& text);

 private:
  Status gather(const Call& call);

  const Self& self_;
  Progress& progress_;
  CollectiveCalls& calls_;
};

}  // namespace ccoll

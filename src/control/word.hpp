// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A rank's word in the store, under its key: why it does not come to a start-up, or gave it up. It
/// reaches ranks that no connection reaches: the rank may have no descriptor for one, and others
/// may come after it has gone.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "ccoll/store.hpp"
#include "control/wire.hpp"
#include "core/deadline.hpp"

namespace ccoll::control {

/// The value of rank `rank`'s key, if it has one. Throws what the store throws.
std::optional<std::string> read_key(Store& store, std::uint32_t rank, Store::Timeout timeout);

/// Stores it for rank `rank` if its key's value is still `before` (nullopt: if it has none):
/// another process may have taken the rank's place. Throws nothing: nobody can read a store that
/// fails.
void leave_word(Store& store, std::uint32_t rank, const Word& word,
                const std::optional<std::string>& before);

/// Tells words of this start-up from those of an earlier one at the same store, whose ranks may be
/// about to come again. A word counts if its rank began after this process did, and after this
/// process's last start-up. Clocks are comparable on one host only: other words never count.
class ThisStart {
 public:
  /// A rank on host `host` begins it now.
  ThisStart(std::uint64_t host, Now now);
  ~ThisStart();
  ThisStart(const ThisStart&) = delete;
  ThisStart& operator=(const ThisStart&) = delete;
  bool has(const Word& word) const { return word.host == host_ && word.began >= since_; }
  Word word(Failure why, const Row& row) const { return {std::move(why), host_, began_, row}; }

 private:
  const std::uint64_t host_;
  const Now now_;
  const Clock::time_point began_, since_;
};

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/exchange.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "comm/call/call_group.hpp"
#include "comm/progress/owner.hpp"
#include "engine/describe.hpp"
#include "engine/mix.hpp"

namespace ccoll {

Status Exchange::tell_all(std::uint8_t shown_as, const void* mine, void* everyones,
                          std::size_t bytes, const CallOptions& options, Rank shown_root) {
  CCOLL_TRY(call_group::refuse_in_one(describe({.kind = shown_as})));
  auto call = all_gather_of(mine, everyones, bytes);
  call.root = shown_root;
  call.timeout = options.timeout;
  call.label = options.label;
  call.shown_as = shown_as;
  return gather(call);
}

Status Exchange::tell_all_at_start(std::uint8_t shown_as, const void* mine, void* everyones,
                                   std::size_t bytes) {
  auto call = all_gather_of(mine, everyones, bytes);
  call.shown_as = shown_as;
  return gather(call);
}

Status Exchange::gather(const Call& call) {
  const Owner owned(progress_);
  CCOLL_TRY(calls_.run(owned, call));
  return {};
}

Status Exchange::agree(std::uint8_t shown_as, const std::string& text) {
  const std::uint64_t mine = mix_text(text);
  std::vector<std::uint64_t> all(self_.size());
  CCOLL_TRY(tell_all(shown_as, &mine, all.data(), sizeof mine));
  const auto odd = std::ranges::find_if(all, [&](std::uint64_t hash) { return hash != all[0]; });
  if (odd == all.end()) return {};
  // Exchange the words only now: they are long, and these ranks do nothing more together here.
  using Words = std::array<char, 256>;
  Words words{};
  text.copy(words.data(), words.size() - 1);
  std::vector<Words> everyones(self_.size());
  CCOLL_TRY(tell_all(shown_as, words.data(), everyones.data(), words.size()));
  const auto rank = odd - all.begin();
  auto different =
      fail(ErrorKind::mismatch, "ranks give different arguments: rank 0 {}, rank {} {}",
           everyones[0].data(), rank, everyones[static_cast<std::size_t>(rank)].data());
  different.value().culprit = self_.group().job_rank(static_cast<Rank>(rank));
  return different;
}

}  // namespace ccoll

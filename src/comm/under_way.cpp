// SPDX-License-Identifier: Apache-2.0
#include "comm/under_way.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "transport/waiter.hpp"

namespace ccoll {

UnderWay::UnderWay(const Self& self, Progress& progress, std::shared_ptr<Waiter> waiter)
    : self_(self),
      links_(self.id(), self.group().job_ranks(), self.member()->transports(), std::move(waiter)),
      messages_(self.group(), links_,
                {self.options().eager_limit, self.options().strict_sends,
                 self.options().device.direct_messages},
                [this](Failure failure, std::string_view label) {
                  return self_.for_caller(std::move(failure), label);
                }),
      in_streams_(self, progress) {}

std::vector<Rank> UnderWay::awaited(Owned /*owned*/, const Work::State& work) const noexcept {
  try {
    std::vector<Rank> ranks;
    bool collective = false;
    for (const auto& operation : work.operations) {
      if (operation->done.load(std::memory_order_relaxed)) continue;
      if (operation->sort == Operation::Sort::in_stream) continue;
      if (operation->sort == Operation::Sort::collective)
        collective = true;
      else if (const auto peer = static_cast<const MessageOperation&>(*operation).pattern.from)
        ranks.push_back(*peer);
    }
    // Whichever collective it is: the first one in the queue stands in its way.
    if (const auto* first = collective ? collectives_.started() : nullptr)
      std::ranges::copy(first->plan->standing().awaited(PlanStanding::Which::in_the_way),
                        std::back_inserter(ranks));
    return ranks;
  } catch (...) {
    // No memory: this sleep is not counted.
    return {};
  }
}

std::string UnderWay::name_of_first(Owned /*owned*/) const {
  if (!collectives_.empty())
    return self_.name_of(collectives_.front()->run, collectives_.front()->label);
  return messages_.busy() ? messages_.name_of(*messages_.pending().front()) : "";
}

void UnderWay::end(Owned owned, const Failure& failure, bool only_own) {
  links_.revoke();
  end_collectives(failure);
  messages_.end_all(failure);
  in_streams_.abort_device(owned, failure, only_own);
  in_streams_.end_with(owned, self_.for_caller(failure));
}

void UnderWay::end_copy(Owned owned, const Failure& failure) {
  end_collectives(failure);
  messages_.end_pending(failure);
  in_streams_.end_copy(owned, self_.for_caller(failure));
}

void UnderWay::end_collectives(const Failure& failure) {
  collectives_.end_all(
      [&](const Operation& each) { return self_.for_caller(failure, each.label); });
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "control/news.hpp"

#include <algorithm>
#include <iterator>

namespace ccoll::control {
namespace {

/// Approximate size in memory.
std::size_t bytes_of(const FailureNews& news) {
  constexpr std::size_t kFields = 256;
  return kFields + news.failure.message.size();
}

}  // namespace

std::shared_ptr<ControlObserver> News::observer_of(std::uint64_t communicator) {
  const auto found = observers_.find(communicator);
  if (found == observers_.end()) return nullptr;
  auto observer = found->second.lock();
  if (!observer) observers_.erase(found);
  return observer;
}

std::vector<std::shared_ptr<ControlObserver>> News::everyone() {
  std::vector<std::shared_ptr<ControlObserver>> all;
  std::erase_if(observers_, [&](const auto& entry) {
    auto observer = entry.second.lock();
    if (observer) all.push_back(std::move(observer));
    return entry.second.expired();
  });
  return all;
}

bool News::learn(const FailureNews& news) {
  const bool general = news.communicator == kEveryCommunicator;
  if (general ? is_repeated(news) : failures_.contains(news.communicator)) return false;
  // A rank that has left is not lost, however it ends.
  if (news.number == 0 && left_.contains(news.origin)) return false;
  if (!seen_.emplace(news.origin, news.number).second) return false;
  if (general) {
    general_.push_back(news);
  } else {
    failures_.emplace(news.communicator, news);
    in_order_.push_back(news.communicator);
    bytes_ += bytes_of(news);
    forget_oldest();
  }
  return true;
}

bool News::is_repeated(const FailureNews& news) const {
  return news.number != 0 && std::ranges::any_of(general_, [&](const FailureNews& known) {
           return known.number != 0 && known.origin == news.origin &&
                  known.failure.culprit == news.failure.culprit;
         });
}

void News::forget_oldest() {
  // Keep the last one: the observers have yet to hear it.
  for (auto key = in_order_.begin(); bytes_ > max_bytes_ && key != std::prev(in_order_.end());) {
    if (observers_.contains(*key)) {
      ++key;
      continue;
    }
    const auto oldest = failures_.find(*key);
    bytes_ -= bytes_of(oldest->second);
    seen_.erase({oldest->second.origin, oldest->second.number});
    failures_.erase(oldest);
    key = in_order_.erase(key);
  }
}

void News::tell(const FailureNews& news) {
  if (news.communicator == kEveryCommunicator) {
    for (const auto& observer : everyone()) tell(news, *observer);
  } else if (const auto observer = observer_of(news.communicator)) {
    observer->failed(news.communicator, news.failure);
  }
}

void News::tell(const FailureNews& general, ControlObserver& observer) {
  if (general.number == 0)
    observer.lost(general.origin, general.failure);
  else
    observer.failed(general.communicator, general.failure);
}

void News::cry(const Failure& failure) noexcept {
  // A call may end any observer, so look up the next one each time.
  for (auto next = observers_.begin(); next != observers_.end();) {
    const auto [communicator, observer] = *next;
    try {
      if (const auto listener = observer.lock()) listener->failed(kEveryCommunicator, failure);
    } catch (...) {
      // its calls end when their links do
    }
    next = observers_.upper_bound(communicator);
  }
}

bool News::is_out(std::uint32_t rank) const {
  return is_gone(rank) || std::ranges::any_of(general_, [&](const FailureNews& news) {
           return news.failure.culprit == rank;
         });
}

bool News::has_losses() const {
  return std::ranges::any_of(general_, [](const FailureNews& news) { return news.number == 0; });
}

std::optional<Failure> News::loss_of(std::uint32_t rank) const {
  for (const FailureNews& news : general_)
    if (news.origin == rank && news.number == 0) return news.failure;
  return std::nullopt;
}

std::optional<Failure> News::general_failure() const {
  if (general_.empty()) return std::nullopt;
  return general_.front().failure;
}

std::vector<FailureNews> News::failures() const {
  std::vector<FailureNews> all = general_;
  for (const auto& [communicator, news] : failures_) all.push_back(news);
  return all;
}

bool News::learn_left(std::uint32_t rank) { return rank < size_ && left_.insert(rank).second; }

void News::tell_left(std::uint32_t rank) {
  for (const auto& observer : everyone()) observer->left(rank);
}

News::Findings News::waiting(std::uint32_t peer, const Waiting& waiting) {
  if (const auto observer = observer_of(waiting.communicator)) {
    if (auto failure = observer->compare(peer, waiting))
      return {{waiting.communicator, std::move(*failure)}};
    return {};
  }
  // Questions do not wait for an observer that is yet to come, nor do answers.
  switch (waiting.signature.kind) {
    case kAsksLabel:
    case kAsksStand:
    case kTellsStand:
    case kAsksClosed:
    case kHasClosed:
      return {};
    default:
      break;
  }
  if (unheard_.size() >= kMaxWaiting) unheard_.pop_front();
  unheard_.emplace_back(peer, waiting);
  return {};
}

bool News::has_begun(std::uint64_t communicator, std::uint64_t sequence) {
  const auto observer = observer_of(communicator);
  return observer && observer->has_begun(sequence);
}

void News::tell_cycle(std::uint64_t communicator, std::uint64_t sequence,
                      const std::string& cycle) {
  if (const auto observer = observer_of(communicator)) observer->in_cycle(sequence, cycle);
}

News::Findings News::subscribe(std::uint64_t communicator,
                               std::weak_ptr<ControlObserver> observer) {
  const auto listener = observer.lock();
  if (!listener) return {};
  observers_[communicator] = std::move(observer);
  // Iterate over a copy: the listener may cause another failure.
  for (const FailureNews& news : std::vector(general_)) tell(news, *listener);
  if (const auto found = failures_.find(communicator); found != failures_.end())
    listener->failed(communicator, found->second.failure);
  for (const std::uint32_t rank : left_) listener->left(rank);

  Findings findings;
  std::deque<std::pair<std::uint32_t, Waiting>> rest;
  for (auto& [peer, waiting] : std::exchange(unheard_, {})) {
    if (waiting.communicator != communicator) {
      rest.emplace_back(peer, waiting);
    } else if (auto failure = listener->compare(peer, waiting)) {
      findings.emplace_back(communicator, std::move(*failure));
    }
  }
  unheard_ = std::move(rest);
  return findings;
}

}  // namespace ccoll::control

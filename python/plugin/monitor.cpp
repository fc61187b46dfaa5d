// SPDX-License-Identifier: Apache-2.0
// A barrier that names all ranks that do not come. Keys and texts are those of
// python/ccoll/torch/_monitor.py.
#include <c10/util/Exception.h>

#include <thread>

#include "backend.hpp"

namespace ccoll::plugin {
namespace {

using std::chrono::milliseconds;

class Barrier {
 public:
  Barrier(Group& group, milliseconds limit)
      : group_(group),
        limit_(limit),
        deadline_(Clock::now() + limit),
        identity_(group.identity()),
        store_(own_connection(group.membership().store)),
        number_(group.next_monitored()) {}

  /// Every rank but 0 calls it.
  void report() {
    const int rank = group_.membership().rank;
    store_->set(key(std::to_string(rank), number_), "1");
    // Rank 0 may have begun later, and a store may take a second to tell that a key is missing.
    deadline_ += limit_ + std::chrono::seconds(1);
    const bool is_told = has_come("verdict");
    const auto verdict =
        is_told ? store_->get_to_str(key("verdict", number_)) : "rank 0 did not come";
    if (is_told) store_->add(key("left", number_), 1);
    if (verdict != "ok")
      TORCH_CHECK(false, "ccoll: Rank ", rank,
                  " successfully reached monitoredBarrier, but received ",
                  "errors while waiting for send/recv from rank 0: ", verdict);
  }

  void lead(bool wait_all_ranks) {
    TORCH_CHECK(limit_ > milliseconds(0),
                "ccoll: Rank 0 timed out in monitoredBarrier: its time limit is 0");
    std::vector<std::int64_t> missing;
    for (int rank = 1; rank < group_.membership().size; rank++)
      if (!has_come(std::to_string(rank))) missing.push_back(rank);
    // A rank that has come to this barrier has left the one before.
    for (int rank = 1; rank < group_.membership().size; rank++)
      delete_key(*store_, key(std::to_string(rank), number_ - 1));
    const auto come = group_.membership().size - 1 - static_cast<std::int64_t>(missing.size());
    if (missing.empty()) {
      for (const auto* each : {"verdict", "left"}) delete_key(*store_, key(each, number_ - 1));
      tell("ok", come);
      return;
    }
    const auto verdict = verdict_on(missing, wait_all_ranks);
    tell(verdict, come);
    TORCH_CHECK(false, "ccoll: ", verdict);
  }

 private:
  /// Waits until the ranks that have come know the verdict, 1 s at most: this process may end next,
  /// and the store with it.
  void tell(const std::string& verdict, std::int64_t come) {
    store_->set(key("verdict", number_), verdict);
    const auto until = Clock::now() + std::chrono::seconds(1);
    while (store_->add(key("left", number_), 0) < come && Clock::now() < until)
      std::this_thread::sleep_for(milliseconds(1));
  }

  std::string key(const std::string& what, std::uint64_t number) const {
    return "ccoll/monitored/" + identity_ + "/" + std::to_string(number) + "/" + what;
  }

  bool has_come(const std::string& what) {
    const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
    try {
      if (left <= milliseconds(0)) return store_->check({key(what, number_)});
      store_->wait({key(what, number_)}, left);
      return true;
    } catch (const std::exception&) {  // torch's type differs from version to version
      return false;
    }
  }

  std::string verdict_on(at::IntArrayRef missing, bool wait_all_ranks) const {
    const auto listed = [](at::IntArrayRef ranks) {
      const auto text = as_list(ranks);
      return text.substr(1, text.size() - 2);
    };
    const bool many = missing.size() > 1;
    std::string text = (wait_all_ranks && many ? "Ranks " : "Rank ") +
                       listed(wait_all_ranks ? missing : missing.slice(0, 1)) +
                       " failed to pass monitoredBarrier in " + std::to_string(limit_.count()) +
                       " ms (timed out)";
    if (many && !wait_all_ranks) text += "; all that are missing: " + listed(missing);
    return text;
  }

  Group& group_;
  const milliseconds limit_;
  Clock::time_point deadline_;
  const std::string identity_;
  const StorePointer store_;
  const std::uint64_t number_;
};

}  // namespace

void monitored_barrier(Group& group, milliseconds limit, bool wait_all_ranks) {
  Barrier barrier(group, limit);
  if (group.membership().rank == 0)
    barrier.lead(wait_all_ranks);
  else
    barrier.report();
}

}  // namespace ccoll::plugin

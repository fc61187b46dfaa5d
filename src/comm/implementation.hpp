// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's inside: the queues of its operations, who makes progress on them, and what
/// happens when one fails. Argument checks are communicator.cpp's.

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "ccoll/communicator.hpp"
#include "comm/member.hpp"
#include "comm/operation.hpp"
#include "engine/links.hpp"
#include "engine/plan.hpp"

namespace ccoll {

class Background;

/// A collective as the caller asked for it, arguments already checked.
struct Call {
  Kind kind = Kind::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::uint8;
  Reduction op;
  Rank root = 0;
  std::optional<Algorithm> algorithm;
  std::chrono::milliseconds timeout{0};
};

/// A message as the caller asked for it.
struct Message {
  QueueKey::What what = QueueKey::What::send;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::uint8;
  Rank peer = 0;
  std::chrono::milliseconds timeout{0};
};

class Communicator::Implementation final
    : public ControlObserver,
      public std::enable_shared_from_this<Communicator::Implementation> {
 public:
  static Result<std::shared_ptr<Implementation>> make(std::shared_ptr<Member> member,
                                                      std::uint64_t id,
                                                      const CommunicatorOptions& options);
  ~Implementation() override;

  Rank rank() const { return member_->rank(); }
  Rank size() const { return static_cast<Rank>(member_->table().size()); }
  const CostTable& costs() const { return costs_; }
  /// What the communicator's options and then `algorithm` ask for.
  Forced forced(std::optional<Algorithm> algorithm) const;
  Problem problem_of(Kind kind, std::size_t count, Rank root) const;
  Result<std::string> transport_to(Rank peer) const;

  /// Holds the owner flag. Whoever holds it makes progress; on release, what is still under way
  /// goes on in the background.
  class Owner {
   public:
    explicit Owner(Implementation& communicator) : communicator_(communicator) {
      communicator_.acquire();
    }
    ~Owner() { communicator_.release(); }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;

   private:
    Implementation& communicator_;
  };

  /// Puts an operation into its queue and sets it going.
  Result<std::shared_ptr<Operation>> begin_as_owner(const Call& call);
  /// All of them or, when one cannot begin, none.
  Result<std::vector<std::shared_ptr<Operation>>> begin_as_owner(std::span<const Message> messages);
  Result<std::shared_ptr<Implementation>> duplicate_as_owner();
  /// Until all are done, or `limit` has passed: false then. Makes progress meanwhile.
  bool wait_as_owner(const Work::State& work, Clock::time_point limit);
  /// One round of progress, if nobody else is making it.
  void poll();
  /// No more calls: what is under way fails with `aborted`, and the rank leaves if this was its
  /// last communicator. Once.
  void close();
  const std::shared_ptr<net::Service>& service() const { return member_->service(); }

  // ControlObserver, on the service thread:
  void failed(const Failure& failure) override;
  void left(std::uint32_t rank) override;
  std::optional<Failure> compare(std::uint32_t peer, const Waiting& waiting) override;

  // For Background, on the service thread:
  bool try_own() { return !owned_.exchange(true, std::memory_order_acquire); }
  void disown() { owned_.store(false, std::memory_order_release); }
  bool busy_as_owner() const { return pending_ > 0; }
  /// One round over all queues; true if anything moved.
  bool progress_as_owner();
  /// Looks at deadlines and at whom we wait for; returns when to look again.
  Clock::time_point supervise_as_owner(Clock::time_point now);
  Waiter& waiter() { return *waiter_; }

 private:
  using Queue = std::deque<std::shared_ptr<Operation>>;
  struct PlanKey {
    Signature signature;
    QueueKey queue;
    friend bool operator==(const PlanKey&, const PlanKey&) = default;
  };
  struct PlanKeyHash {
    std::size_t operator()(const PlanKey& key) const;
  };

  Implementation(std::shared_ptr<Member> member, std::uint64_t id,
                 const CommunicatorOptions& options, std::shared_ptr<Waiter> waiter);
  void configure();

  void acquire();
  void release();

  // plans.cpp
  Result<Plan*> plan_for(const Call& call);
  Result<Plan*> plan_for(const Message& message);
  void drop_idle_plans();
  Result<Plan*> keep_plan(const PlanKey& key, const PlanRequest& request);

  std::shared_ptr<Operation> enqueue(Plan* plan, QueueKey queue, const void* input, void* output,
                                     std::chrono::milliseconds timeout);
  /// Compares the call with what neighbours have published about theirs.
  Status record_call(const Signature& signature);
  bool advance_queue_as_owner(Queue& queue);

  // failures.cpp
  Status usable_as_owner();
  void failed_as_owner(const Operation& operation, Failure failure);
  /// Ends every operation with `failure`; `tell`: and those of the other ranks.
  void break_as_owner(const Failure& failure, bool tell);
  bool take_news_as_owner();
  std::string name_of(const Operation& operation) const;
  std::string ranks_text(const std::vector<Rank>& ranks) const;
  bool supervise_operation_as_owner(Operation& operation, Clock::time_point now,
                                    Clock::time_point& next);
  std::optional<Rank> awaits_one_who_left(const Operation& operation);

  const std::shared_ptr<Member> member_;
  const std::uint64_t id_;
  const CommunicatorOptions options_;
  CostTable costs_;       // immutable after make
  Forced forced_;         // immutable after make
  bool crowded_ = false;  // immutable after make: ranks outnumber cores
  const std::shared_ptr<Waiter> waiter_;

  std::atomic<bool> closed_{false};
  std::atomic<bool> owned_{false};
  /// Threads that want the flag: whoever waits with it in hand lets them in.
  std::atomic<int> wanted_{0};
  // owner: holder of the owner flag, down to the next remark
  LinkTable links_;
  std::unordered_map<PlanKey, std::unique_ptr<Plan>, PlanKeyHash> plans_;
  std::map<QueueKey, Queue> queues_;
  std::map<QueueKey, std::uint64_t> sequences_;
  std::size_t pending_ = 0;
  std::optional<Failure> broken_;
  std::optional<Failure> suspicion_;  ///< a lost link, while the control path may know better
  Clock::time_point suspected_;
  bool moved_ = true;  ///< since supervise_as_owner last looked
  Clock::time_point last_moved_;
  std::uint64_t children_ = 0;
  std::byte barrier_[2] = {};

  std::shared_ptr<Background> background_;  // immutable after make

  std::atomic<bool> has_news_{false};
  std::mutex mutex_;
  std::optional<Failure> news_;   // guarded by mutex_
  std::set<std::uint32_t> left_;  // guarded by mutex_
  static constexpr std::size_t kHistory = 256;
  std::array<Signature, kHistory> history_;               // guarded by mutex_
  std::uint64_t calls_ = 0;                               // guarded by mutex_
  std::vector<std::pair<std::uint32_t, Waiting>> ahead_;  // guarded by mutex_
};

}  // namespace ccoll

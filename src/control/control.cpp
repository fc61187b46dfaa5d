// SPDX-License-Identifier: Apache-2.0
#include "control/control.hpp"

#include <chrono>
#include <cstdlib>
#include <future>

#include "control/hub.hpp"
#include "control/join.hpp"
#include "control/state/progress.hpp"
#include "control/word.hpp"
#include "net/service.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

using control::Hub;
using control::Progress;

/// Longer than Hub::kLeaveLimit in case the service thread is busy; still within the promised 1 s.
constexpr std::chrono::milliseconds kLeaveWait{950};
constexpr std::chrono::milliseconds kSettleLimit{2000};

/// The caller's handle: passes everything to the Hub on the service thread. The Hub outlives it
/// until its goodbyes are said, or until the service ends.
class Handle final : public Control {
 public:
  Handle(std::shared_ptr<net::Service> service, const Membership& membership)
      : service_(std::move(service)),
        membership_(membership),
        hub_(std::make_shared<Hub>(service_, membership)) {}

  ~Handle() override { leave(); }

  void accept(net::Stream stream) override { hub_->accept(std::move(stream)); }

  Status join(Store& store) override {
    CCOLL_CHECK(!service_->on_service_thread(), "join blocks");
    CCOLL_CHECK(!std::exchange(joined_, true), "join is called once");
    CCOLL_TRY(control::join(hub_, membership_, store));
    const auto reached = hub_->progress().state.lock();
    table_ = std::move(reached->table);
    job_ = reached->job;
    rank0_text_ = reached->rank0_text;
    return {};
  }

  const std::vector<PeerAddress>& table() const override { return table_; }
  const std::string& rank0_text() const override { return rank0_text_; }
  std::uint64_t job() const override { return job_; }

  void subscribe(std::uint64_t communicator, std::weak_ptr<ControlObserver> observer) override {
    on_service([communicator, observer = std::move(observer)](Hub& hub) {
      hub.flooding().subscribe(communicator, observer);
    });
  }
  void unsubscribe(std::uint64_t communicator) override {
    on_service([communicator](Hub& hub) { hub.unsubscribe(communicator); });
  }
  void settle() override {
    CCOLL_CHECK(!service_->on_service_thread(), "settle blocks");
    auto done = std::make_shared<std::promise<void>>();
    auto future = done->get_future();
    on_service([done](Hub&) { done->set_value(); });
    future.wait_for(kSettleLimit);
  }
  void flood(std::uint64_t communicator, const Failure& failure) override {
    on_service([communicator, failure](Hub& hub) { hub.flooding().flood(communicator, failure); });
  }
  void publish(const Waiting& waiting, const std::vector<std::uint32_t>& ranks) override {
    on_service([waiting, ranks](Hub& hub) { hub.publications().publish(waiting, ranks); });
  }

  void tell_waits(std::uint64_t communicator, std::vector<OpenWait> waits) override {
    on_service([communicator, waits = std::move(waits)](Hub& hub) {
      hub.publications().tell_waits(communicator, waits);
    });
  }
  void seek_cycle(std::uint64_t communicator, std::uint64_t sequence) override {
    on_service([communicator, sequence](Hub& hub) {
      hub.publications().seek_cycle(communicator, sequence);
    });
  }

  void call_roll(const RollCall& call, std::shared_ptr<Headcount> count) override {
    on_service(
        [call, count = std::move(count)](Hub& hub) { hub.flooding().call_roll(call, count); });
  }
  void give_up(const RollCall& call, const Failure& why) override {
    on_service([call, why](Hub& hub) { hub.flooding().give_up(call, why); });
  }

  bool has_failed(std::uint64_t communicator) const override {
    return hub_->news().has_failed(communicator);
  }

  void probe(const std::vector<std::uint32_t>& ranks) override {
    on_service([ranks](Hub& hub) { hub.liveness_probe().probe(ranks); });
  }

  void leave() override {
    // The service thread cannot wait for itself. But the goodbye must be out when this returns: the
    // caller may drop the last reference to the service right away, and with it everything that was
    // posted.
    if (service_->on_service_thread()) {
      on_service([](Hub& hub) { hub.leave(); });
      return hub_->run_actions();
    }
    const auto end = Clock::now() + kLeaveWait;
    begin_to_leave();
    if (!service_->catch_up()) return;
    Progress& progress = hub_->progress();
    progress.state.lock().wait_until(progress.changed, end,
                                     [](const Progress::State& state) { return state.gone; });
  }

  /// Starts to leave, so that leave() has less to wait for.
  void begin_to_leave() {
    on_service([](Hub& hub) { hub.leave(); });
  }
  /// Whether this is a forked child of the process that made it: the connections are the parent's.
  bool is_forked() const { return hub_->is_forked(); }

  Statistics statistics() const override { return hub_->statistics(); }

 private:
  template <typename Action>
  void on_service(Action action) {
    Hub::run(hub_, std::move(action));
  }

  const std::shared_ptr<net::Service> service_;  // outlives hub_'s last use of its context
  const Membership membership_;
  const std::shared_ptr<Hub> hub_;
  bool joined_ = false;             // owner: the caller of join
  std::vector<PeerAddress> table_;  // immutable after join
  std::string rank0_text_;          // immutable after join
  std::uint64_t job_ = 0;           // immutable after join
};

/// The ranks of this process. A program may end by exit() or quick_exit() with a communicator still
/// open. Then their goodbyes are said here, so that the other ranks do not count them as lost.
class Present {
 public:
  static void add(const std::shared_ptr<Handle>& handle) {
    // Destroyed before the service, which was made earlier. Objects of the program that were made
    // before this are destroyed later.
    static const AtExit at_exit;
    const auto handles = of_process().lock();
    std::erase_if(handles->all, [](const auto& each) { return each.expired(); });
    handles->all.push_back(handle);
  }

 private:
  struct AtExit {
    AtExit() { std::at_quick_exit(leave_all); }
    ~AtExit() { leave_all(); }
  };

  struct Handles {
    std::vector<std::weak_ptr<Handle>> all;
  };
  static Guarded<Handles, ProcessMutex>& of_process() {
    return Runtime::one<Guarded<Handles, ProcessMutex>>();
  }

  static void leave_all() {
    std::vector<std::shared_ptr<Handle>> here;
    {
      const auto handles = of_process().lock();
      for (const auto& each : handles->all)
        if (auto handle = each.lock(); handle && !handle->is_forked())
          here.push_back(std::move(handle));
    }
    // Begin all first, so that they wait for the others' answers at the same time.
    for (const auto& handle : here) handle->begin_to_leave();
    for (const auto& handle : here) handle->leave();
  }
};

}  // namespace

std::shared_ptr<Control> Control::make(std::shared_ptr<net::Service> service,
                                       const Membership& membership) {
  auto made = std::make_shared<Handle>(std::move(service), membership);
  Present::add(made);
  return made;
}

void Control::decline(Store& store, std::uint32_t rank, std::uint64_t host, Clock::time_point began,
                      const Failure& why) {
  control::leave_word(store, rank, {why, host, began, {}}, std::nullopt);
}

}  // namespace ccoll

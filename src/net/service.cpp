// SPDX-License-Identifier: Apache-2.0
#include "net/service.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <future>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "core/os_error.hpp"
#include "net/wire/openssl.hpp"
#include "system/file_descriptor.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"
#include "system/signals.hpp"

namespace ccoll::net {
namespace {

using namespace std::chrono_literals;

bool is_over(const std::shared_future<void>& what, std::chrono::milliseconds limit) {
  return what.wait_for(limit) == std::future_status::ready;
}

/// The thread's loop. The thread shares it with the Service, so either may end first.
struct Loop {
  static std::shared_ptr<Loop> make() {
    return made_beyond_standard_streams([] {
      auto made = std::make_shared<Loop>();
      // Asio opens its descriptors at the first timer, and keeps their numbers.
      const asio::steady_timer first(made->context);
      return made;
    });
  }

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
};

/// Logs the exception being handled. Logging needs memory, which may be exhausted.
void complain() noexcept {
  try {
    log().error("an exception reached the service thread: {}",
                failure_of(std::current_exception()).message);
  } catch (...) {
  }
}

/// Handlers turn exceptions into failures of the object they serve. If one does not, it must still
/// end neither the process nor the thread that all others depend on.
void run(Loop& loop) {
  for (;;) {
    try {
      loop.context.run();
      return;
    } catch (...) {
      complain();
    }
  }
}

class ThreadService;

/// A thread that was held when its Service ended.
struct Abandoned {
  std::shared_future<void> end;
  pid_t process = ::getpid();

  /// Whether nobody needs to wait for it: a child that another thread forks has no such thread.
  bool is_gone(std::chrono::milliseconds limit) const {
    return process != ::getpid() || is_over(end, limit);
  }
};

struct Services {
  std::weak_ptr<ThreadService> shared;
  std::vector<Abandoned> abandoned;
};

Guarded<Services, ProcessMutex>& services() {
  return Runtime::one<Guarded<Services, ProcessMutex>>();
}

class ThreadService final : public Service {
 public:
  explicit ThreadService(const char* name) : loop_(Loop::make()) {
    const SignalsBlocked blocked;
    // The thread must not own the Service, or the Service would never end. It owns the loop, so
    // that the last reference may also be dropped on the thread itself.
    std::promise<void> ended;
    end_ = ended.get_future().share();
    thread_ = std::thread([loop = loop_, ended = std::move(ended)]() mutable {
      run(*loop);
      loop.reset();
      UsingOpenSsl::leave_thread();
      ended.set_value();
    });
    id_ = thread_.get_id();
    pthread_setname_np(thread_.native_handle(), name);
  }

  ~ThreadService() override {
    if (is_forked()) {
      // The number may be another thread's in this process, so do not join or detach it.
      (void)new std::thread(std::move(thread_));
      return;
    }
    loop_->context.stop();
    if (!thread_.joinable()) return;
    // A thread cannot join itself, and a held one may be so for ever, so it goes on alone. It
    // returns from run() after the handler in progress, and takes the loop with it.
    if (!on_service_thread() && is_in_time(end_)) {
      thread_.join();
      return;
    }
    thread_.detach();
    const auto all = services().lock();
    std::erase_if(all->abandoned, [](const auto& each) { return each.is_gone(0ms); });
    all->abandoned.push_back({end_});
  }

  /// Ends the thread although another object still holds the Service.
  void finish() {
    if (is_forked()) return;
    loop_->context.stop();
    if (thread_.joinable() && std::this_thread::get_id() != id_) thread_.join();
    ended_.store(true);
  }

  asio::io_context& context() override { return loop_->context; }
  bool on_service_thread() const override {
    return has_ended() || std::this_thread::get_id() == id_;
  }
  bool catch_up() override {
    if (is_forked() || on_service_thread()) return true;
    const auto reached = std::make_shared<std::promise<void>>();
    asio::post(loop_->context, [reached] { reached->set_value(); });
    return is_in_time(reached->get_future().share());
  }
  bool has_ended() const override { return ended_.load(); }
  bool is_forked() const override { return ::getpid() != process_; }

 private:
  /// Waits until the thread has done it, but not a second time for a thread that is still held.
  bool is_in_time(const std::shared_future<void>& done) {
    const bool is_held = overdue_.with([](const std::shared_future<void>& overdue) {
      return overdue.valid() && !is_over(overdue, 0ms);
    });
    if (is_over(done, is_held ? 0ms : kHeldLimit)) return true;
    *overdue_.lock() = done;
    return false;
  }

  std::shared_ptr<Loop> loop_;    // immutable after construction
  std::thread thread_;            // immutable after construction, except for its end
  std::thread::id id_;            // immutable after construction
  std::shared_future<void> end_;  // immutable after construction; the thread's end
  const pid_t process_ = ::getpid();
  std::atomic<bool> ended_{false};
  Guarded<std::shared_future<void>> overdue_;  ///< the wait for it timed out
};

/// A connection attempt in progress may hold the Service when the process exits. Its thread must
/// not go on while its objects are taken down. The same holds for a thread that was held when its
/// Service ended, unless it still is.
struct EndAtExit {
  ~EndAtExit() {
    auto all = services().lock();
    const auto service = all->shared.lock();
    const auto abandoned = all->abandoned;
    // The thread may be about to fork, and fork waits for the lock's holder.
    all.unlock();
    if (service) service->finish();
    for (const auto& each : abandoned) each.is_gone(kHeldLimit);
  }
};

/// How a spawned coroutine ends. If Asio has no memory to resume one, it silently destroys the
/// coroutine and this object.
class Ending {
 public:
  Ending(const asio::io_context::executor_type* where, std::string what,
         std::function<void(const Failure&)> failed)
      : what_(std::move(what)), failed_(std::move(failed)) {
    if (where != nullptr) where_ = *where;
  }
  ~Ending() {
    // A service that ends also drops all coroutines, but not from within one of its handlers.
    if (!has_come_ && where_ && where_->running_in_this_thread())
      come(std::make_exception_ptr(std::bad_alloc()));
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  void come(const std::exception_ptr& thrown) noexcept {
    if (std::exchange(has_come_, true) || !thrown) return;
    try {
      const Failure failure = failure_of(thrown);
      if (failed_) return failed_(failure);
      log().error("{}: {}", what_, failure.message);
    } catch (...) {
      complain();
    }
  }

 private:
  const std::string what_;
  const std::function<void(const Failure&)> failed_;
  std::optional<asio::io_context::executor_type> where_;
  bool has_come_ = false;
};

}  // namespace

void spawn(const asio::any_io_executor& where, asio::awaitable<void> task, std::string what,
           std::function<void(const Failure&)> failed) {
  const auto* const executor = where.target<asio::io_context::executor_type>();
  auto ended = [ending = std::make_shared<Ending>(executor, std::move(what), std::move(failed))](
                   const std::exception_ptr& thrown) { ending->come(thrown); };
  if (executor != nullptr && !executor->running_in_this_thread()) {
    // A coroutine that begins elsewhere first posts itself there, and if memory is exhausted Asio
    // ends the process; asio::post throws instead. No reference stays here: the last one reports
    // how the coroutine ended, and here it would report to nobody.
    asio::post(where, [where, task = std::move(task), ended = std::move(ended)]() mutable {
      asio::co_spawn(where, std::move(task), std::move(ended));
    });
    return;
  }
  try {
    asio::co_spawn(where, std::move(task), ended);
  } catch (...) {
    ended(nullptr);  // the caller gets the exception
    throw;
  }
}

std::size_t waiting_connections() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 64, 16384);
}

/// The callers of this are near the public API and have no other service. So if a thread or
/// descriptor cannot be had, they get ccoll's own exception.
static std::shared_ptr<ThreadService> start(const char* name) {
  try {
    return std::make_shared<ThreadService>(name);
  } catch (const std::system_error& error) {
    raise({ErrorKind::exhausted,
           fmt::format("the thread that serves connections could not start: {}",
                       os_error(error.code())),
           std::nullopt});
  }
}

std::shared_ptr<Service> Service::shared() {
  const UsingOpenSsl use;
  static const EndAtExit end_at_exit;
  const auto all = services().lock();
  auto service = all->shared.lock();
  if (!service || service->has_ended() || service->is_forked()) {
    service = start("ccoll-service");
    all->shared = service;
  }
  return service;
}

std::shared_ptr<Service> Service::dedicated() {
  // Its thread uses OpenSSL, perhaps until a static object of the program ends.
  const UsingOpenSsl use;
  return start("ccoll-own-serv");
}

}  // namespace ccoll::net

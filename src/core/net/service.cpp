// SPDX-License-Identifier: Apache-2.0
#include "core/net/service.hpp"

#include <openssl/crypto.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/executor_work_guard.hpp>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/log.hpp"

namespace ccoll::net {
namespace {

/// What the thread runs. The thread shares it with the Service, so that either may go first.
struct Loop {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
};

/// Handlers turn what they throw into failures of whom they serve. One that does not must still not
/// end the process, nor the thread that all others depend on.
void run(Loop& loop) {
  for (;;) {
    try {
      loop.context.run();
      return;
    } catch (...) {
      log().error("on the service thread: {}", failure_of(std::current_exception()).message);
    }
  }
}

/// Blocks every signal of the calling thread while it lives: a thread started meanwhile inherits
/// that, and so the program's handlers never run on a thread that it does not know of.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

class ThreadService final : public Service {
 public:
  explicit ThreadService(const char* name) : loop_(std::make_shared<Loop>()) {
    const SignalsBlocked blocked;
    // The thread must not own the Service, or the Service would never end; it owns the loop, so
    // that its last reference may also be dropped on the thread itself.
    thread_ = std::thread([loop = loop_] { run(*loop); });
    id_ = thread_.get_id();
    pthread_setname_np(thread_.native_handle(), name);
  }

  ~ThreadService() override {
    if (is_forked()) {
      // Its number may be another thread's in this process: neither to be joined nor detached.
      (void)new std::thread(std::move(thread_));
      return;
    }
    loop_->context.stop();
    if (!thread_.joinable()) return;
    if (on_service_thread()) {
      // A thread cannot join itself: it goes on alone, returns from run() as soon as the handler
      // that dropped us has, and takes the loop with it.
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  /// Ends the thread although someone still holds the Service.
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
  bool has_ended() const override { return ended_.load(); }
  bool is_forked() const override { return ::getpid() != process_; }

 private:
  std::shared_ptr<Loop> loop_;  // immutable after construction
  std::thread thread_;          // immutable after construction, but for its end
  std::thread::id id_;          // immutable after construction
  const pid_t process_ = ::getpid();
  std::atomic<bool> ended_{false};
};

}  // namespace

namespace {

struct Instance {
  std::mutex mutex;
  std::weak_ptr<ThreadService> service;  // guarded by mutex
};

Instance& instance() {
  // Never destroyed: threads may still ask while the process runs its exit handlers.
  static auto& instance = *new Instance;
  return instance;
}

/// A connection attempt under way may hold the Service when the process exits. Its thread must not
/// go on while what it uses is taken down.
struct EndAtExit {
  ~EndAtExit() {
    const std::lock_guard lock(instance().mutex);
    if (const auto service = instance().service.lock()) service->finish();
  }
};

}  // namespace

void spawn(const asio::any_io_executor& where, asio::awaitable<void> task, std::string what,
           std::function<void(const Failure&)> failed) {
  asio::co_spawn(where, std::move(task),
                 [what = std::move(what), failed = std::move(failed)](std::exception_ptr thrown) {
                   if (!thrown) return;
                   const Failure failure = failure_of(thrown);
                   if (failed) return failed(failure);
                   log().error("{}: {}", what, failure.message);
                 });
}

std::size_t waiting_connections() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 64, 16384);
}

/// Whoever asks for a service is near the public API, and has no other without it: a system that
/// has no thread or descriptor left is told of by ccoll's own exception.
static std::shared_ptr<ThreadService> start(const char* name) {
  try {
    return std::make_shared<ThreadService>(name);
  } catch (const std::system_error& error) {
    raise({ErrorKind::exhausted,
           fmt::format("the thread that serves connections: {}", error.what()), std::nullopt});
  }
}

std::shared_ptr<Service> Service::shared() {
  // OpenSSL first: what is set up later ends earlier.
  OPENSSL_init_crypto(OPENSSL_INIT_ADD_ALL_DIGESTS, nullptr);
  static const EndAtExit end_at_exit;
  const std::lock_guard lock(instance().mutex);
  auto service = instance().service.lock();
  if (!service || service->has_ended() || service->is_forked()) {
    service = start("ccoll-service");
    instance().service = service;
  }
  return service;
}

std::shared_ptr<Service> Service::dedicated() { return start("ccoll-own-serv"); }

}  // namespace ccoll::net

// SPDX-License-Identifier: Apache-2.0
#include "comm/dump_signal.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "comm/implementation.hpp"
#include "core/log.hpp"
#include "core/variables.hpp"

namespace ccoll {
namespace {

/// An eventfd that the handler writes to, for the process's life; -1: none yet.
std::atomic<int> bell{-1};
static_assert(std::atomic<int>::is_always_lock_free);

/// Only what is safe in a handler.
void on_signal(int) {
  const int error = errno;
  const std::uint64_t one = 1;
  if (const int to = bell.load(); to >= 0) [[maybe_unused]]
    const auto ignored = ::write(to, &one, sizeof one);
  errno = error;
}

Result<int> signal_named(std::string name) {
  if (name.starts_with("SIG")) name.erase(0, 3);
  if (name == "USR1") return SIGUSR1;
  if (name == "USR2") return SIGUSR2;
  if (name == "QUIT") return SIGQUIT;
  return fail(ErrorKind::invalid_argument, "'{}': expected USR1, USR2 or QUIT", name);
}

/// Once in a process, however many communicators it has.
Status install() {
  const auto asked = signal_named(read_variable("CCOLL_DUMP_SIGNAL").value_or(""));
  if (!asked) return tl::unexpected(asked.error());
  if (!read_variable("CCOLL_DUMP"))
    return fail(ErrorKind::invalid_argument, "needs CCOLL_DUMP, the directory to write to");
  struct sigaction action {};
  ::sigaction(*asked, nullptr, &action);
  if (action.sa_handler != SIG_DFL)
    return fail(ErrorKind::unsupported, "the program handles or ignores that signal itself");
  const int made = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made < 0) return fail(ErrorKind::exhausted, "no descriptor: {}", std::strerror(errno));
  bell.store(made);
  action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(*asked, &action, nullptr);
  return {};
}

/// Waits on the service thread for the bell, for all communicators that live.
class Watch final : public DumpSignal, public std::enable_shared_from_this<Watch> {
 public:
  explicit Watch(asio::io_context& context) : descriptor_(context, ::dup(bell.load())) {}

  void add(const std::shared_ptr<Communicator::Implementation>& communicator) {
    std::lock_guard lock(mutex_);
    std::erase_if(communicators_, [](const auto& each) { return each.expired(); });
    communicators_.push_back(communicator);
  }
  /// On the service thread.
  void wait() {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [weak = weak_from_this()](const std::error_code& code) {
                             const auto self = code ? nullptr : weak.lock();
                             if (self) self->dump();
                           });
  }

 private:
  void dump() {
    std::uint64_t rings = 0;
    [[maybe_unused]] const auto ignored = ::read(bell.load(), &rings, sizeof rings);
    std::vector<std::weak_ptr<Communicator::Implementation>> all;
    {
      std::lock_guard lock(mutex_);
      all = communicators_;
    }
    for (const auto& each : all)
      if (const auto communicator = each.lock()) communicator->request_dump("signal");
    wait();
  }

  asio::posix::stream_descriptor descriptor_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Communicator::Implementation>> communicators_;  // guarded by mutex_
};

}  // namespace

std::shared_ptr<DumpSignal> DumpSignal::join(
    const std::shared_ptr<Communicator::Implementation>& communicator) {
  static std::mutex mutex;
  static std::weak_ptr<Watch> watch;  // guarded by mutex
  static std::once_flag once;
  if (!read_variable("CCOLL_DUMP_SIGNAL")) return nullptr;
  std::call_once(once, [] {
    if (auto installed = install(); !installed)
      log().warn("CCOLL_DUMP_SIGNAL: {}", installed.error().message);
  });
  if (bell.load() < 0) return nullptr;
  const std::lock_guard lock(mutex);
  auto made = watch.lock();
  if (!made) {
    auto& context = communicator->service()->context();
    watch = made = std::make_shared<Watch>(context);
    asio::post(context, [made] { made->wait(); });
  }
  made->add(communicator);
  return made;
}

}  // namespace ccoll

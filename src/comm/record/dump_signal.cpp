// SPDX-License-Identifier: Apache-2.0
#include "comm/record/dump_signal.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <cerrno>
#include <utility>
#include <vector>

#include "comm/record/dumps.hpp"
#include "core/os_error.hpp"
#include "system/file_descriptor.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"
#include "system/signals.hpp"
#include "system/variables.hpp"

namespace ccoll {
namespace {

/// An eventfd that the handler writes to, for the life of the process that made it. A forked child
/// inherits both; a signal there must not wake the parent.
std::atomic<int> doorbell{-1};
std::atomic<pid_t> doorbell_of{0};  // 0: there is none
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

/// Does only things that are safe in a handler.
void on_signal(int) {
  const int error = errno;
  const std::uint64_t one = 1;
  if (doorbell_of.load() == ::getpid()) [[maybe_unused]]
    const auto ignored = ::write(doorbell.load(), &one, sizeof one);
  errno = error;
}

/// Once in a process, however many communicators it has.
Status install() {
  const auto asked = signal_named(read_variable("CCOLL_DUMP_SIGNAL").value_or(""));
  if (!asked) return tl::unexpected(asked.error());
  if (!read_variable("CCOLL_DUMP"))
    return fail(ErrorKind::invalid_argument, "needs CCOLL_DUMP, the directory to write to");
  struct sigaction action {};
  ::sigaction(*asked, nullptr, &action);
  const bool from_parent = action.sa_handler == on_signal;
  if (action.sa_handler != SIG_DFL && !from_parent)
    return fail(ErrorKind::unsupported, "the program handles or ignores that signal itself");
  FileDescriptor made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made.open()) return fail(ErrorKind::exhausted, "no descriptor: {}", os_error(errno));
  doorbell.store(made.release());
  doorbell_of.store(::getpid());
  action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(*asked, &action, nullptr);
  return {};
}

/// If a communicator fails, this many others of its rank write dumps, those made last.
constexpr std::size_t kMostBeside = 64;

/// Waits on the service thread for the bell, if there is one, for all communicators that live.
class Watch final : public DumpSignal, public std::enable_shared_from_this<Watch> {
 public:
  explicit Watch(asio::io_context& context) : descriptor_(context) {
    if (doorbell_of.load() == process_) {
      FileDescriptor own(::fcntl(doorbell.load(), F_DUPFD_CLOEXEC, 0));
      if (own.open()) descriptor_.assign(own.release());
    }
  }
  /// Whether this is a forked child's copy, without the parent's service thread.
  bool is_forked() const { return ::getpid() != process_; }

  void add(const std::shared_ptr<Dumps>& dumps) {
    const auto all = all_.lock();
    std::erase_if(*all, [](const auto& each) { return each.expired(); });
    all->push_back(dumps);
  }
  void failed(const Dumps& one) override {
    std::size_t count = 0;
    const auto all = living();
    for (auto each = all.rbegin(); each != all.rend() && count < kMostBeside; ++each) {
      if (each->get() == &one || (*each)->self().job() != one.self().job() ||
          (*each)->self().job_rank() != one.self().job_rank())
        continue;
      (*each)->request(std::string(Record::kBesideDump));
      count++;
    }
  }
  /// On the service thread.
  void wait() {
    if (!descriptor_.is_open()) return;
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [weak = weak_from_this()](const std::error_code& code) {
                             const auto self = code ? nullptr : weak.lock();
                             if (self) self->dump();
                           });
  }

 private:
  std::vector<std::shared_ptr<Dumps>> living() {
    const auto all = all_.lock();
    std::vector<std::shared_ptr<Dumps>> living;
    for (const auto& each : *all)
      if (auto dumps = each.lock()) living.push_back(std::move(dumps));
    return living;
  }
  void dump() {
    std::uint64_t rings = 0;
    [[maybe_unused]] const auto ignored = ::read(doorbell.load(), &rings, sizeof rings);
    for (const auto& each : living()) each->request("signal");
    wait();
  }

  const pid_t process_ = ::getpid();
  asio::posix::stream_descriptor descriptor_;
  Guarded<std::vector<std::weak_ptr<Dumps>>, ProcessMutex> all_;
};

struct Watching {
  std::weak_ptr<Watch> watch;
  pid_t installed_in = 0;  ///< the process that handles the signal
};

}  // namespace

std::shared_ptr<DumpSignal> DumpSignal::join(const std::shared_ptr<Dumps>& dumps) {
  auto watching = Runtime::one<Guarded<Watching, ProcessMutex>>().lock();
  Status installed;
  if (read_variable("CCOLL_DUMP_SIGNAL") &&
      std::exchange(watching->installed_in, ::getpid()) != ::getpid())
    installed = install();
  watching.unlock();
  if (!installed) log().warn("CCOLL_DUMP_SIGNAL: {}", installed.error().message);
  if (!read_variable("CCOLL_DUMP")) return nullptr;
  watching.lock();
  auto made = watching->watch.lock();
  if (!made || made->is_forked()) {
    auto& context = dumps->self().service()->context();
    watching->watch = made = std::make_shared<Watch>(context);
    asio::post(context, [made] { made->wait(); });
  }
  made->add(dumps);
  return made;
}

}  // namespace ccoll

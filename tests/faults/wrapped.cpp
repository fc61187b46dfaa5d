// SPDX-License-Identifier: Apache-2.0
// Replacements for the system calls that ccoll makes (--wrap=NAME turns a call of NAME into one of
// __wrap_NAME; __real_NAME is the C library's).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "faults/faults.hpp"

using namespace ccoll::testing::faults;

extern "C" {
ssize_t __real_read(int, void*, size_t);
ssize_t __real_readv(int, const iovec*, int);
ssize_t __real_recv(int, void*, size_t, int);
ssize_t __real_recvmsg(int, msghdr*, int);
ssize_t __real_send(int, const void*, size_t, int);
ssize_t __real_sendmsg(int, const msghdr*, int);
ssize_t __real_write(int, const void*, size_t);
int __real_epoll_wait(int, epoll_event*, int, int);
int __real_epoll_ctl(int, int, int, epoll_event*);
int __real_epoll_create1(int);
int __real_accept(int, sockaddr*, socklen_t*);
int __real_connect(int, const sockaddr*, socklen_t);
int __real_socket(int, int, int);
int __real_eventfd(unsigned, int);
int __real_memfd_create(const char*, unsigned);
int __real_ftruncate64(int, off64_t);
void* __real_mmap64(void*, size_t, int, int, int, off64_t);
ssize_t __real_process_vm_readv(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                                unsigned long);
int __real_close(int);
}

namespace {

/// The events that each descriptor is watched for, so that they can be raised again.
class Watched {
 public:
  void set(int epoll, int descriptor, const epoll_event& event) {
    const std::lock_guard lock(mutex_);
    by_descriptor_[descriptor][epoll] = event;
  }
  void drop(int epoll, int descriptor) {
    const std::lock_guard lock(mutex_);
    by_descriptor_[descriptor].erase(epoll);
  }
  /// Must be called before the descriptor is closed, because its number may be reused at once.
  void forget(int closed) {
    const std::lock_guard lock(mutex_);
    by_descriptor_.erase(closed);
    for (auto& [descriptor, epolls] : by_descriptor_) epolls.erase(closed);
  }
  /// Raises another edge, in case something is still pending.
  void tell_again(int descriptor) {
    const int before = errno;
    const std::lock_guard lock(mutex_);
    for (auto& [epoll, event] : by_descriptor_[descriptor])
      if ((event.events & EPOLLET) != 0) __real_epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event);
    errno = before;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::map<int, epoll_event>> by_descriptor_;  // guarded by mutex_
};

Watched& watched() {
  // Never destroyed: the service thread may run until the process ends.
  static auto& instance = *new Watched;
  return instance;
}

bool is_tcp(int descriptor) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
         (domain == AF_INET || domain == AF_INET6);
}

bool is_socket(int descriptor) {
  int type = 0;
  socklen_t length = sizeof type;
  const int before = errno;
  const bool is_one = getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
  errno = before;
  return is_one;
}

void pause_before(Call call, int descriptor) {
  const bool long_one = wants(Kind::stalled, call);
  if (!long_one && !wants(Kind::delayed, call)) return;
  const std::chrono::microseconds time(long_one ? 20'000 + draw(180'000) : 1 + draw(1000));
  count(long_one ? Kind::stalled : Kind::delayed, call, descriptor,
        fmt::format("{} us", time.count()));
  std::this_thread::sleep_for(time);  // the fault is the time that the call takes
}

/// The errors that any call on a connection may have; true: errno is set and the call is not made.
bool breaks(Call call, int descriptor) {
  if (!armed() || !is_socket(descriptor)) return false;
  pause_before(call, descriptor);
  if (wants(Kind::interrupted, call)) {
    count(Kind::interrupted, call, descriptor, "");
    errno = EINTR;
    return true;
  }
  if (wants(Kind::again, call)) {
    count(Kind::again, call, descriptor, "");
    watched().tell_again(descriptor);
    errno = EAGAIN;
    return true;
  }
  if (wants(Kind::cut, call)) {
    count(Kind::cut, call, descriptor, "");
    ::shutdown(descriptor, SHUT_RDWR);
    errno = ECONNRESET;
    return true;
  }
  return false;
}

/// Fails with one of `codes`.
bool lacks(Call call, int descriptor, std::initializer_list<int> codes) {
  if (!wants(Kind::exhausted, call)) return false;
  const int code = *(codes.begin() + draw(codes.size() - 1));
  count(Kind::exhausted, call, descriptor, std::strerror(code));
  errno = code;
  return true;
}

/// How many of `bytes` to read or write; may be fewer.
std::size_t fewer(Kind kind, Call call, int descriptor, std::size_t bytes) {
  if (bytes < 2 || !wants(kind, call)) return bytes;
  // Sometimes very few, so that headers are torn.
  const auto few = 1 + draw(draw(1) == 0 ? std::min<std::size_t>(bytes - 2, 40) : bytes - 2);
  count(kind, call, descriptor, fmt::format("{} of {} bytes", few, bytes));
  return few;
}

std::size_t total(const iovec* parts, std::size_t many) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < many; i++) bytes += parts[i].iov_len;
  return bytes;
}

/// The first `bytes` of memory in parts.
std::vector<iovec> cut_to(const iovec* parts, std::size_t many, std::size_t bytes) {
  std::vector<iovec> kept;
  for (std::size_t i = 0; i < many && bytes > 0; i++) {
    kept.push_back({parts[i].iov_base, std::min(parts[i].iov_len, bytes)});
    bytes -= kept.back().iov_len;
  }
  return kept;
}

/// Flips a bit of data received over TCP.
void corrupt(Call call, int descriptor, const iovec* parts, std::size_t many, ssize_t bytes) {
  if (bytes <= 0 || !is_tcp(descriptor) || !wants(Kind::corrupted, call)) return;
  const auto where = draw(static_cast<std::uint64_t>(bytes) - 1);
  auto left = where;
  for (std::size_t i = 0; i < many; i++) {
    if (left < parts[i].iov_len) {
      static_cast<unsigned char*>(parts[i].iov_base)[left] ^=
          static_cast<unsigned char>(1U << draw(7));
      break;
    }
    left -= parts[i].iov_len;
  }
  count(Kind::corrupted, call, descriptor, fmt::format("byte {} of {}", where, bytes));
}

/// Reads into parts by any of the calls.
template <typename Real>
ssize_t read_parts(Call call, int descriptor, const iovec* parts, std::size_t many, Real real) {
  if (breaks(call, descriptor)) return -1;
  const auto all = total(parts, many);
  const auto few =
      armed() && is_socket(descriptor) ? fewer(Kind::short_read, call, descriptor, all) : all;
  if (few < all) {
    const auto kept = cut_to(parts, many, few);
    const auto got = real(kept.data(), kept.size());
    watched().tell_again(descriptor);
    corrupt(call, descriptor, kept.data(), kept.size(), got);
    return got;
  }
  const auto got = real(parts, many);
  if (armed()) corrupt(call, descriptor, parts, many, got);
  return got;
}

template <typename Real>
ssize_t write_parts(Call call, int descriptor, const iovec* parts, std::size_t many, Real real) {
  if (breaks(call, descriptor)) return -1;
  if (armed() && is_socket(descriptor)) {
    if (lacks(call, descriptor, {ENOBUFS, ENOMEM})) return -1;
    const auto all = total(parts, many);
    // A Unix socket takes a short message whole or not at all.
    const auto few = is_tcp(descriptor) ? fewer(Kind::short_write, call, descriptor, all) : all;
    if (few < all) {
      const auto kept = cut_to(parts, many, few);
      const auto got = real(kept.data(), kept.size());
      watched().tell_again(descriptor);
      return got;
    }
  }
  return real(parts, many);
}

}  // namespace

extern "C" {

ssize_t __wrap_read(int descriptor, void* data, size_t bytes) {
  const iovec part{data, bytes};
  return read_parts(Call::read, descriptor, &part, 1, [&](const iovec* parts, std::size_t) {
    return __real_read(descriptor, parts->iov_base, parts->iov_len);
  });
}

ssize_t __wrap_readv(int descriptor, const iovec* parts, int many) {
  return read_parts(Call::readv, descriptor, parts, static_cast<std::size_t>(many),
                    [&](const iovec* kept, std::size_t kept_many) {
                      return __real_readv(descriptor, kept, static_cast<int>(kept_many));
                    });
}

ssize_t __wrap_recv(int descriptor, void* data, size_t bytes, int flags) {
  const iovec part{data, bytes};
  return read_parts(Call::recv, descriptor, &part, 1, [&](const iovec* parts, std::size_t) {
    return __real_recv(descriptor, parts->iov_base, parts->iov_len, flags);
  });
}

ssize_t __wrap_recvmsg(int descriptor, msghdr* message, int flags) {
  // Descriptors come with the first byte of a whole message.
  if (message->msg_control != nullptr)
    return breaks(Call::recvmsg, descriptor) ? -1 : __real_recvmsg(descriptor, message, flags);
  return read_parts(Call::recvmsg, descriptor, message->msg_iov, message->msg_iovlen,
                    [&](const iovec* parts, std::size_t many) {
                      msghdr kept = *message;
                      kept.msg_iov = const_cast<iovec*>(parts);
                      kept.msg_iovlen = many;
                      const auto got = __real_recvmsg(descriptor, &kept, flags);
                      message->msg_flags = kept.msg_flags;
                      message->msg_namelen = kept.msg_namelen;
                      return got;
                    });
}

ssize_t __wrap_send(int descriptor, const void* data, size_t bytes, int flags) {
  const iovec part{const_cast<void*>(data), bytes};
  return write_parts(Call::send, descriptor, &part, 1, [&](const iovec* parts, std::size_t) {
    return __real_send(descriptor, parts->iov_base, parts->iov_len, flags);
  });
}

ssize_t __wrap_sendmsg(int descriptor, const msghdr* message, int flags) {
  if (message->msg_control != nullptr) {
    if (breaks(Call::sendmsg, descriptor)) return -1;
    if (lacks(Call::sendmsg, descriptor, {ETOOMANYREFS, ENOBUFS, ENOMEM})) return -1;
    return __real_sendmsg(descriptor, message, flags);
  }
  return write_parts(Call::sendmsg, descriptor, message->msg_iov, message->msg_iovlen,
                     [&](const iovec* parts, std::size_t many) {
                       msghdr kept = *message;
                       kept.msg_iov = const_cast<iovec*>(parts);
                       kept.msg_iovlen = many;
                       return __real_sendmsg(descriptor, &kept, flags);
                     });
}

ssize_t __wrap_write(int descriptor, const void* data, size_t bytes) {
  const iovec part{const_cast<void*>(data), bytes};
  return write_parts(Call::write, descriptor, &part, 1, [&](const iovec* parts, std::size_t) {
    return __real_write(descriptor, parts->iov_base, parts->iov_len);
  });
}

int __wrap_epoll_wait(int epoll, epoll_event* events, int most, int milliseconds) {
  if (wants(Kind::interrupted, Call::epoll_wait)) {
    count(Kind::interrupted, Call::epoll_wait, -1, "");
    errno = EINTR;
    return -1;
  }
  return __real_epoll_wait(epoll, events, most, milliseconds);
}

int __wrap_epoll_ctl(int epoll, int what, int descriptor, epoll_event* event) {
  if (what == EPOLL_CTL_ADD && lacks(Call::epoll_ctl, descriptor, {ENOMEM, ENOSPC})) return -1;
  const int done = __real_epoll_ctl(epoll, what, descriptor, event);
  if (done == 0 && what == EPOLL_CTL_DEL) watched().drop(epoll, descriptor);
  if (done == 0 && what != EPOLL_CTL_DEL) watched().set(epoll, descriptor, *event);
  return done;
}

int __wrap_close(int descriptor) {
  watched().forget(descriptor);
  return __real_close(descriptor);
}

int __wrap_epoll_create1(int flags) {
  if (lacks(Call::epoll_create1, -1, {EMFILE, ENFILE, ENOMEM})) return -1;
  return __real_epoll_create1(flags);
}

int __wrap_accept(int listener, sockaddr* address, socklen_t* length) {
  if (armed()) {
    pause_before(Call::accept, listener);
    if (wants(Kind::again, Call::accept)) {
      count(Kind::again, Call::accept, listener, "");
      watched().tell_again(listener);
      errno = EAGAIN;
      return -1;
    }
    if (lacks(Call::accept, listener, {EMFILE, ENFILE, ENOBUFS, ENOMEM})) {
      watched().tell_again(listener);
      return -1;
    }
  }
  const int accepted = __real_accept(listener, address, length);
  if (accepted >= 0) note_connection("accepted", accepted);
  return accepted;
}

int __wrap_connect(int descriptor, const sockaddr* address, socklen_t length) {
  pause_before(Call::connect, descriptor);
  const int done = __real_connect(descriptor, address, length);
  if (done == 0 || errno == EINPROGRESS) {
    const int before = errno;
    note_connection("connected", descriptor, address, length);
    errno = before;
  }
  return done;
}

int __wrap_socket(int domain, int type, int protocol) {
  if (lacks(Call::socket, -1, {EMFILE, ENFILE, ENOBUFS, ENOMEM})) return -1;
  return __real_socket(domain, type, protocol);
}

int __wrap_eventfd(unsigned value, int flags) {
  if (lacks(Call::eventfd, -1, {EMFILE, ENFILE, ENOMEM})) return -1;
  return __real_eventfd(value, flags);
}

int __wrap_memfd_create(const char* name, unsigned flags) {
  if (lacks(Call::memfd_create, -1, {EMFILE, ENFILE, ENOMEM})) return -1;
  return __real_memfd_create(name, flags);
}

int __wrap_ftruncate64(int descriptor, off64_t bytes) {
  if (lacks(Call::ftruncate, descriptor, {ENOSPC, ENOMEM})) return -1;
  return __real_ftruncate64(descriptor, bytes);
}

void* __wrap_mmap64(void* address, size_t bytes, int protection, int flags, int descriptor,
                    off64_t offset) {
  if (lacks(Call::mmap, descriptor, {ENOMEM})) return MAP_FAILED;
  return __real_mmap64(address, bytes, protection, flags, descriptor, offset);
}

ssize_t __wrap_process_vm_readv(pid_t process, const iovec* local, unsigned long locals,
                                const iovec* remote, unsigned long remotes, unsigned long flags) {
  if (armed()) pause_before(Call::process_vm_readv, -1);
  if (lacks(Call::process_vm_readv, -1, {ENOMEM})) return -1;
  return __real_process_vm_readv(process, local, locals, remote, remotes, flags);
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
#include "net/inherited.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

namespace ccoll::net {
namespace {

/// Sockets with numbers from here on stay open in forked children.
constexpr std::size_t kMost = 65536;

/// Each socket's inode by its number. It shows whether the number is still that socket's; 0: none.
/// Not in the Runtime: a forked child reads them, and may run nothing that constructs.
std::array<std::atomic<ino_t>, kMost> inodes;
std::atomic<std::size_t> end{0};  // all numbers in use are less

ino_t inode_of(int socket) {
  struct stat status {};
  const bool is_socket = fstat(socket, &status) == 0 && S_ISSOCK(status.st_mode);
  return is_socket ? status.st_ino : 0;
}

/// Runs in the child, where the parent's objects still have the numbers. Their calls, even close(),
/// must not hit a file that the child opens. Only system calls are allowed here.
void replace_sockets() {
  const int unconnected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (unconnected < 0) return;
  for (std::size_t i = 0; i < end.load(); i++) {
    const auto known = inodes[i].exchange(0);
    const int number = static_cast<int>(i);
    if (known != 0 && known == inode_of(number)) dup3(unconnected, number, O_CLOEXEC);
  }
  close(unconnected);
}

/// Runs before main: later another thread could fork at any time.
[[maybe_unused]] const int children_registered = pthread_atfork(nullptr, nullptr, replace_sockets);

}  // namespace

void keep_from_children(int socket) {
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  const auto number = static_cast<std::size_t>(socket);
  if (socket < 0 || number >= kMost) return;
  inodes[number].store(inode_of(socket));
  for (auto before = end.load(); before <= number;)
    if (end.compare_exchange_weak(before, number + 1)) break;
}

}  // namespace ccoll::net

// SPDX-License-Identifier: Apache-2.0
#include "system/descriptors.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ccoll::shm {
namespace {

constexpr std::size_t kMostDescriptors = 4;

/// Room for one control message with kMostDescriptors descriptors.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> bytes{};
};

}  // namespace

Status send_with_descriptors(int socket, std::string_view bytes, std::span<const int> descriptors) {
  CCOLL_CHECK(descriptors.size() <= kMostDescriptors, "{} descriptors", descriptors.size());
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  Control control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return {};
  const int error = sent < 0 ? errno : EPIPE;
  const bool later =
      error == ETOOMANYREFS || error == EAGAIN || error == ENOBUFS || error == ENOMEM;
  return fail(later ? ErrorKind::exhausted : ErrorKind::peer_lost, "sendmsg: {}",
              std::strerror(error));
}

Result<WithDescriptors> receive_with_descriptors(int socket, std::size_t bytes) {
  WithDescriptors got{std::string(bytes, '\0'), {}};
  iovec part{got.bytes.data(), bytes};
  Control control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t count = 0;
  do count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (count < 0 && errno == EINTR);
  if (count < 0)
    return fail(errno == EAGAIN ? ErrorKind::exhausted : ErrorKind::peer_lost, "recvmsg: {}",
                std::strerror(errno));
  for (auto* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    // Alignment leaves room for more than kMostDescriptors, and a stranger may send more.
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; i++) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      got.descriptors.emplace_back(number);
    }
  }
  if (count == 0) return fail(ErrorKind::peer_lost, "the peer closed the connection");
  got.bytes.resize(static_cast<std::size_t>(count));
  return got;
}

}  // namespace ccoll::shm

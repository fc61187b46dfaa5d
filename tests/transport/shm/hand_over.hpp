// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A hand-over of shared memory between two ranks: its messages, and how a test follows it.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "core/bytes.hpp"
#include "net/handshake.hpp"
#include "transport/pair.hpp"
#include "transport/shm/link.hpp"

namespace ccoll::testing::hand_over {

using namespace std::chrono_literals;

inline const TransportKind& shm_kind() { return *find_transport("shm"); }

/// Captures this process's standard error while it lives.
class Said {
 public:
  Said() : file_(memfd_create("said", MFD_CLOEXEC)), before_(dup(STDERR_FILENO)) {
    dup2(file_.number(), STDERR_FILENO);
  }
  ~Said() { dup2(before_.number(), STDERR_FILENO); }
  std::string text() const {
    std::string all(static_cast<std::size_t>(lseek(file_.number(), 0, SEEK_END)), '\0');
    (void)!pread(file_.number(), all.data(), all.size(), 0);
    return all;
  }
  std::size_t count(std::string_view what) const {
    const auto all = text();
    std::size_t times = 0;
    for (auto at = all.find(what); at != all.npos; at = all.find(what, at + 1)) times++;
    return times;
  }

 private:
  const FileDescriptor file_, before_;
};

/// Sends and receives that many slices of mixed sizes, in order and intact.
inline bool carries(Pair& pair, std::uint64_t slices) {
  std::uint64_t pushed = 0, popped = 0;
  bool right = true;
  const auto data = [](std::uint64_t number) { return pattern(number, number * 977 % 9001); };
  const bool in_time = eventually(pair, [&] {
    if (pushed < slices && pair.sender->has_room()) {
      push(*pair.sender, pushed, data(pushed));
      pushed++;
    }
    if (const auto* view = pair.receiver->front()) {
      right = right && view->header.sequence == popped && pair.receiver->begin_read() &&
              equals(*view, data(popped)) && pair.receiver->pop();
      popped++;
    }
    return popped == slices;
  });
  return in_time && right && pair.sender->failure() == nullptr;
}

inline std::string verdict(bool taken, std::string_view why_not = "") {
  return net::Writer().number(std::uint8_t{taken}).text(why_not).take();
}

/// A sender's message after the greeting.
inline std::string offer_of(const LinkId& id, std::uint32_t cell = 0, bool has_multicast = false,
                            const shm::ProcessMark& mark = {}) {
  return net::Writer()
      .number(id.communicator)
      .number(id.from)
      .number(id.to)
      .number(id.lane)
      .number(cell)
      .number(std::uint8_t{has_multicast})
      .number(mark.address)
      .number(mark.value)
      .take();
}

/// A receiver's message once it has opened its end.
inline std::string doorbell(std::uint32_t cell = 0) { return net::Writer().number(cell).take(); }

inline FileDescriptor memory_of(std::size_t bytes, int seals) {
  FileDescriptor file(memfd_create("offered", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  CCOLL_CHECK(ftruncate(file.number(), static_cast<off_t>(bytes)) == 0, "{}", errno);
  CCOLL_CHECK(fcntl(file.number(), F_ADD_SEALS, seals) == 0, "{}", errno);
  return file;
}

struct Held {
  std::ptrdiff_t descriptors = 0;
  std::size_t links = 0;  ///< mappings
  friend bool operator==(const Held&, const Held&) = default;
};
inline Held held_now() {
  Held held;
  const std::filesystem::directory_iterator open("/proc/self/fd");
  held.descriptors = std::distance(begin(open), end(open));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    held.links += line.find("memfd:ccoll-link") != line.npos;
  return held;
}

/// Both ends have each other's doorbell, and the service thread has closed the hand-over's socket.
inline bool handed_over(Pair& pair) {
  const bool connected =
      eventually(pair, [&] { return pair.sender->connected() && pair.receiver->connected(); });
  std::promise<void> idle;
  asio::post(pair.context().service->context(), [&] { idle.set_value(); });
  idle.get_future().wait();
  return connected;
}

/// Polls, because the service thread releases resources a little later.
inline bool holds_again(const Held& before) {
  for (int tries = 0; tries < 500; tries++) {
    if (held_now() == before) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

}  // namespace ccoll::testing::hand_over

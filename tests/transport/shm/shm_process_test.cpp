// SPDX-License-Identifier: Apache-2.0
// Shared-memory links between two processes: `ring` exchanges slices of all sizes with pauses and
// sleeps at both ends; in `descriptors` a receiver has none left; in `refusal` a sender's memory
// becomes unreadable. No Catch2: the processes fork before they start any thread.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string_view>

#include "support/effort.hpp"
#include "transport/pair.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint64_t kCommunicator = 7;

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// One of two ranks that are processes.
class Rank {
 public:
  /// `other`: a socket to the other rank's process.
  Rank(std::uint32_t rank, int other) : rank_(rank), other_(other) {
    context_ = {.service = net::Service::shared(), .token = "", .rank = rank, .table = {}};
    context_.table.resize(2);
    auto handler = [this](net::Purpose, net::Stream stream) {
      tcp_->accept(std::move(stream).release());
    };
    listener_ = net::Listener::open(context_.service, "", "", handler).value();
    auto& mine = context_.table[rank] = testing::loopback(listener_->endpoint().port());
    mine.process = static_cast<std::uint64_t>(getpid());
    expect(write(other, &mine, sizeof mine) == sizeof mine &&
               read(other, &context_.table[1 - rank], sizeof mine) == sizeof mine,
           "addresses are exchanged");
    waiter = Waiter::make().value();
    tcp_ = find_transport("tcp")->make(context_, nullptr);
    shm_ = find_transport("shm")->make(context_, tcp_);
  }
  void open_sender() {
    sender = shm_->open_send({kCommunicator, rank_, 1 - rank_, 0}, waiter).value();
  }
  void open_receiver() {
    receiver = shm_->open_receive({kCommunicator, 1 - rank_, rank_, 0}, waiter).value();
  }
  /// Waits until the other rank is here, too.
  void meet() {
    char byte = 'm';
    expect(write(other_, &byte, 1) == 1 && read(other_, &byte, 1) == 1, "the other has gone");
  }

  std::shared_ptr<Waiter> waiter;
  std::unique_ptr<SendLink> sender;
  std::unique_ptr<ReceiveLink> receiver;

 private:
  const std::uint32_t rank_;
  const int other_;
  TransportContext context_;
  std::unique_ptr<net::Listener> listener_;
  std::shared_ptr<Transport> tcp_, shm_;
};

/// Runs `body` as two processes; returns whether both succeeded.
bool in_two(void (*body)(std::uint32_t rank, int other)) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
  for (std::uint32_t rank = 0; rank < 2; rank++) {
    if (fork() != 0) continue;
    alarm(100);
    close(ends[1 - rank]);
    try {
      body(rank, ends[rank]);
      std::_Exit(0);
    } catch (const std::exception& error) {
      std::cerr << fmt::format("rank {}: {}\n", rank, error.what());
      std::_Exit(1);
    }
  }
  close(ends[0]);
  close(ends[1]);
  bool well = true;
  for (int i = 0, status = -1; i < 2; i++) well = wait(&status) > 0 && status == 0 && well;
  return well;
}

/// 0 to 128 KiB, small ones most often, including both sizes around the switch from lines to slots.
std::size_t size_of(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return 0;
    case 1:
      return 24;
    case 2:
      return 25;
    case 3:
      return 128 << 10;
    default:
      return random() % (std::size_t{1} << (random() % 18)) % (128 << 10);
  }
}

std::uint64_t word(std::uint32_t from, std::uint64_t slice, std::size_t at) {
  return (slice * 2 + from + 1) * 0x9e3779b97f4a7c15ULL ^ at;
}
void stamp(std::byte* data, std::size_t bytes, std::uint32_t from, std::uint64_t slice) {
  for (std::size_t at = 0; at < bytes; at += 8) {
    const auto value = word(from, slice, at);
    std::memcpy(data + at, &value, std::min<std::size_t>(8, bytes - at));
  }
}
bool is_stamped(const std::byte* data, std::size_t bytes, std::uint32_t from, std::uint64_t slice) {
  for (std::size_t at = 0; at < bytes; at += 8) {
    const auto value = word(from, slice, at);
    if (std::memcmp(data + at, &value, std::min<std::size_t>(8, bytes - at)) != 0) return false;
  }
  return true;
}

/// Both ends send and receive that many slices. They pause now and then, so that rings fill and
/// drain, and sleep as the engine does when nothing moves.
void exchange(Rank& rank, std::uint32_t number, std::uint64_t slices, std::uint64_t seed) {
  std::mt19937_64 sizes(seed + number), theirs(seed + 1 - number), pauses(seed + 2 + number);
  std::uint64_t pushed = 0, popped = 0, sleeps = 0;
  std::size_t next = size_of(sizes);
  const auto can_move = [&] {
    rank.sender->progress();
    return (pushed < slices && rank.sender->has_room()) ||
           (popped < slices && rank.receiver->front() != nullptr);
  };
  const auto pause = [&] {
    if (pauses() % 64 == 0) usleep(static_cast<useconds_t>(pauses() % 300));
  };
  while (pushed < slices || popped < slices || !rank.sender->drained()) {
    expect(rank.sender->failure() == nullptr, "the sender fails");
    if (pushed < slices && rank.sender->has_room()) {
      stamp(rank.sender->room(next), next, number, pushed);
      rank.sender->push(testing::header(pushed++, next));
      next = size_of(sizes);
      pause();
      if (pauses() % 4 != 0) continue;  // often several in a row
    }
    if (const auto* view = popped < slices ? rank.receiver->front() : nullptr) {
      const auto bytes = size_of(theirs);
      expect(view->header.sequence == popped && view->header.bytes == bytes,
             fmt::format("slice {} of {} bytes came as {} of {}", popped, bytes,
                         view->header.sequence, view->header.bytes));
      expect(rank.receiver->begin_read() && is_stamped(view->data, bytes, 1 - number, popped),
             fmt::format("slice {} of {} bytes is not what was sent", popped, bytes));
      expect(rank.receiver->pop(), "nothing was lent");
      popped++;
      pause();
      continue;
    }
    rank.waiter->prepare();
    if (!can_move() && (pushed < slices || popped < slices)) {
      const auto began = Clock::now();
      rank.waiter->sleep(20s);
      sleeps++;
      expect(Clock::now() - began < 15s,
             fmt::format("nobody rang: {} pushed, {} popped", pushed, popped));
    }
    rank.waiter->awake();
  }
  expect(sleeps > slices / 1000, fmt::format("only {} sleeps: nothing was tried", sleeps));
}

void ring(std::uint32_t number, int other) {
  Rank rank(number, other);
  rank.open_sender();
  rank.open_receiver();
  exchange(rank, number, testing::by_effort<std::uint64_t>(2000, 20'000, 500'000), 4711);
  rank.meet();
  rank.sender.reset();
  const auto end = Clock::now() + 10s;
  while (rank.receiver->front() != nullptr || rank.receiver->failure() == nullptr)
    expect(Clock::now() < end, "the sender has gone and the receiver does not learn it");
}

/// Leaves this process that many more descriptors.
void leave_descriptors(int more) {
  int highest = 0;
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd"))
    highest = std::max(highest, std::stoi(open.path().filename().string()));
  // The lowest free number is used first: afterwards none below the last is free.
  int last = 0;
  while ((last = dup(STDERR_FILENO)) < highest) expect(last >= 0, "no descriptor to fill up with");
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = static_cast<rlim_t>(last + 1 + more);
  expect(setrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit of descriptors");
}

/// Rank 1 can accept a connection and take one descriptor of an offer, but not three: both ends use
/// sockets, and report it.
void descriptors(std::uint32_t number, int other) {
  Rank rank(number, other);
  constexpr std::uint64_t kSlices = 300;
  const auto end = Clock::now() + 30s;
  std::mt19937_64 sizes(4712);
  if (number == 1) {
    rank.open_receiver();
    leave_descriptors(2);
  }
  rank.meet();
  if (number == 1) {
    for (std::uint64_t i = 0; i < kSlices; i++) {
      const auto bytes = size_of(sizes);
      const ReceiveLink::View* view = nullptr;
      while ((view = rank.receiver->front()) == nullptr) expect(Clock::now() < end, "none comes");
      expect(view->header.sequence == i && view->header.bytes == bytes &&
                 rank.receiver->begin_read() && is_stamped(view->data, bytes, 0, i),
             fmt::format("slice {} is not what was sent", i));
      expect(rank.receiver->pop(), "nothing was lent");
    }
  } else {
    const FileDescriptor said(memfd_create("said", MFD_CLOEXEC)), before(dup(STDERR_FILENO));
    dup2(said.number(), STDERR_FILENO);
    rank.open_sender();
    for (std::uint64_t i = 0; i < kSlices; i++) {
      const auto bytes = size_of(sizes);
      for (; !rank.sender->has_room(); rank.sender->progress())
        expect(Clock::now() < end && rank.sender->failure() == nullptr, "it cannot be sent");
      stamp(rank.sender->room(bytes), bytes, 0, i);
      rank.sender->push(testing::header(i, bytes));
    }
    for (; !rank.sender->drained(); rank.sender->progress())
      expect(Clock::now() < end, "it is not drained");
    dup2(before.number(), STDERR_FILENO);
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(pread(said.number(), text.data(), text.size(), 0)));
    expect(text ==
               "ccoll: warning: rank 0: no shared memory with rank 1: 1 of 3 descriptors "
               "reached it (is its ulimit -n used up?); another transport is used\n",
           text);
  }
  rank.meet();
}

/// Rank 1 may read rank 0's memory at first, and later not: slices arrive intact all the same.
void refusal(std::uint32_t number, int other) {
  // A process that may read all memory must change its user.
  constexpr uid_t kNobody = 65534;
  if (geteuid() == 0)
    expect(setresgid(kNobody, kNobody, kNobody) == 0 && setresuid(kNobody, kNobody, kNobody) == 0,
           "it stays root");
  expect(prctl(PR_SET_DUMPABLE, 1) == 0, "its memory is not to be read");
  Rank rank(number, other);
  constexpr std::uint64_t kSlices = 40;
  constexpr std::size_t kBytes = 100'000;
  const auto end = Clock::now() + 30s;
  if (number == 1) {
    rank.open_receiver();
    for (std::uint64_t i = 0; i < kSlices; i++) {
      const ReceiveLink::View* view = nullptr;
      while ((view = rank.receiver->front()) == nullptr)
        expect(Clock::now() < end && rank.receiver->failure() == nullptr, "none comes");
      expect(view->header.sequence == i && view->header.bytes == kBytes &&
                 rank.receiver->begin_read() && is_stamped(view->data, kBytes, 0, i),
             fmt::format("slice {} is not what was sent", i));
      expect(rank.receiver->pop(), "it was taken back");
      if (i == 0) rank.meet();
    }
  } else {
    rank.open_sender();
    std::vector<std::vector<std::byte>> lent;
    for (std::uint64_t i = 0; i < kSlices; i++) {
      stamp(lent.emplace_back(kBytes).data(), kBytes, 0, i);
      for (; !rank.sender->has_room(); rank.sender->progress())
        expect(Clock::now() < end && rank.sender->failure() == nullptr, "it cannot be sent");
      rank.sender->lend(testing::header(i, kBytes), lent.back().data(), Copier::receiver);
      if (i == 0) rank.meet();
      if (i == 0) expect(rank.sender->copies_once(), "nothing is read where it lies");
      if (i == kSlices / 2) prctl(PR_SET_DUMPABLE, 0);
    }
    for (; !rank.sender->drained(); rank.sender->progress())
      expect(Clock::now() < end, "it is not drained");
    expect(!rank.sender->copies_once(), "it may still be read");
  }
  rank.meet();
}

/// Whether processes of one user may read each other's memory here.
bool may_read() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope == 0;
}

constexpr int kSkipped = 77;

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what = count > 1 ? arguments[1] : "";
  if (what == "refusal" && !may_read()) {
    std::cerr << "SKIPPED: kernel.yama.ptrace_scope is not 0\n";
    return kSkipped;
  }
  const bool well = what == "ring"          ? in_two(ring)
                    : what == "descriptors" ? in_two(descriptors)
                                            : what == "refusal" && in_two(refusal);
  if (!well) std::cerr << "failed: " << what << "\n";
  return well ? 0 : 1;
}

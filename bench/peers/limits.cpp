// SPDX-License-Identifier: Apache-2.0
// The limits of this machine: the least time that two processes need for a collective's data
// movement, without any protocol. bench/compare judges ccoll and its peers against it.
//
// Usage: limits [--fresh] FIGURES BYTES...      FIGURES: all, or names of the list, a,b,c
// Rows on standard output, one per figure and size: figure,bytes,usec,way   (medians of 9 batches
// of the slower process; the way is empty if there is only one). With --fresh each process rewrites
// its input before every call, which is not timed.
//
//   copy            one process copies BYTES
//   copy2           both processes copy BYTES at once
//   sum2            both processes at once: out = a + b over BYTES
//   handover2       the minimum of an all_reduce in private buffers: twice, each process writes
//                   half of BYTES where the other has read, and reads the other's half
//   allreduce2      two ranks whose buffers are mapped by both: each sums its half of the two
//                   inputs into its output, then copies the peer's half of the result
//   allreduce2_slots  the same result with private buffers, through eight 64 KiB slots each way:
//                   the peer's half goes out slice by slice, each slice is reduced straight out of
//                   its slot into the output and into the slot that carries it back
//   allreduce2_line BYTES <= 48: values and sequence number in one cache line per rank
//   NAME2_bare      allreduce, allgather, reducescatter, alltoall, broadcast, reduce, sendrecv: the
//                   operation on private buffers by the fastest way of exchanges.hpp, which the
//                   row names. Data are copied or added directly from slots; up to 56 bytes lie
//                   in the cache line that announces them.
//   allgather2      two ranks: each copies both inputs (BYTES/2 each) into its output
//   flag_roundtrip  a cache line bounced between two spinning processes
//   tcp_roundtrip   8 bytes there and back over loopback TCP, both ends spinning on recv
//   tcp_oneway      BYTES streamed one way over loopback TCP, neither end sleeping
//   tcp_bothways    BYTES each way at once over two loopback connections
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "bare_collectives.hpp"
#include "exchanges.hpp"
#include "two_processes.hpp"

using namespace limits;

namespace {

using exchanges::add, exchanges::Side;

void all_reduce_line(int rank, const float* in, float* out, size_t n) {
  static uint64_t seq = 0;
  Line &mine = shared->line[rank][++seq & 1], &peer = shared->line[1 - rank][seq & 1];
  std::memcpy(mine.values, in, n * sizeof(float));
  mine.seq.store(seq, std::memory_order_release);
  while (peer.seq.load(std::memory_order_acquire) != seq) {
  }
  for (size_t i = 0; i < n; i++) out[i] = in[i] + peer.values[i];
}

void all_reduce_slots(int rank, const float* in, float* out, size_t n) {
  constexpr size_t kAhead = 3;  // slices sent before waiting for the first
  Pipe &tx = shared->pipe[rank], &rx = shared->pipe[1 - rank];
  const size_t half = n / 2, mine = rank * half, theirs = half - mine;
  const size_t slices = (half + kSlotFloats - 1) / kSlotFloats;
  uint64_t head = tx.head.load(std::memory_order_relaxed),
           tail = rx.tail.load(std::memory_order_relaxed);
  size_t sent = 0, gathered = 0;
  const auto length = [&](size_t slice) {
    return std::min(kSlotFloats, half - slice * kSlotFloats);
  };
  const auto room = [&] {
    while (head - tx.tail.load(std::memory_order_acquire) >= kSlots) {
    }
    return tx.slot[head % kSlots];
  };
  const auto front = [&] {
    while (rx.head.load(std::memory_order_acquire) == tail) {
    }
    return rx.slot[tail % kSlots];
  };
  const auto push = [&] { tx.head.store(++head, std::memory_order_release); };
  const auto pop = [&] { rx.tail.store(++tail, std::memory_order_release); };
  const auto send = [&] {
    std::memcpy(room(), in + theirs + sent * kSlotFloats, length(sent) * sizeof(float));
    push(), sent++;
  };
  const auto gather = [&] {
    const float* slot = front();
    std::memcpy(out + theirs + gathered * kSlotFloats, slot, length(gathered) * sizeof(float));
    pop(), gathered++;
  };
  while (sent < std::min(kAhead, slices)) send();
  for (size_t slice = 0; slice < slices; slice++) {
    if (slice >= kAhead) gather();
    const float *slot = front(), *own = in + mine + slice * kSlotFloats;
    float *result = out + mine + slice * kSlotFloats, *back = room();
    for (size_t i = 0, count = length(slice); i < count; i++)
      result[i] = back[i] = own[i] + slot[i];
    pop(), push();
    if (sent < slices) send();
  }
  while (gathered < slices) gather();
}

// Sends and receives at once without ever sleeping.
void exchange(int send_fd, int recv_fd, char* out, char* in, size_t to_send, size_t to_receive) {
  size_t sent = 0, received = 0;
  while (sent < to_send || received < to_receive) {
    if (sent < to_send) {
      const ssize_t n = send(send_fd, out + sent, to_send - sent, MSG_DONTWAIT);
      if (n > 0) sent += n;
    }
    if (received < to_receive) {
      const ssize_t n = recv(recv_fd, in + received, to_receive - received, MSG_DONTWAIT);
      if (n > 0) received += n;
    }
  }
}

void memory_figures(int rank, size_t bytes) {
  float *in = memory[rank], *peer_in = memory[1 - rank];
  float *out = memory[2 + rank], *peer_out = memory[3 - rank];
  const size_t n = bytes / sizeof(float), half = n / 2, mine = rank * half, theirs = half - mine;
  const std::span<float> input(in, n);
  measure(rank, "copy", bytes, input, [&] {
    if (rank == 0) std::memcpy(out, in, bytes);
  });
  measure(rank, "copy2", bytes, input, [&] { std::memcpy(out, in, bytes); });
  measure(rank, "sum2", bytes, input, [&] { add(out, in, peer_in, n); });
  measure(rank, "handover2", bytes, {}, [&] {
    for (const size_t first : {size_t{0}, half}) {
      std::memset(out + first, rank, half * sizeof(float));
      barrier2();
      float seen = 0;
      for (size_t i = 0; i < half; i += 64 / sizeof(float)) seen += peer_out[first + i];
      asm volatile("" : : "x"(seen));
      barrier2();
    }
  });
  measure(rank, "allreduce2", bytes, input, [&] {
    barrier2();
    add(out + mine, in + mine, peer_in + mine, half);
    barrier2();
    std::memcpy(out + theirs, peer_out + theirs, half * sizeof(float));
  });
  measure(rank, "allgather2", bytes, input, [&] {
    barrier2();
    std::memcpy(out + mine, in, half * sizeof(float));
    std::memcpy(out + theirs, peer_in, half * sizeof(float));
    barrier2();
  });
}

void protocol_figures(int rank, size_t bytes) {
  const size_t n = bytes / sizeof(float);
  std::vector<float> in(n, rank + 1.0f), out(n);
  const auto check = [&](const char* figure) {
    if (is_wanted(figure) && (out[0] != 3.0f || out[n - 1] != 3.0f))
      std::fprintf(stderr, "limits: %s: the first sum is %g and the last %g, expected 3\n", figure,
                   out[0], out[n - 1]),
          std::exit(1);
  };
  measure(rank, "allreduce2_slots", bytes, in,
          [&] { all_reduce_slots(rank, in.data(), out.data(), n); });
  check("allreduce2_slots");
  if (bytes > 48) return;
  measure(rank, "allreduce2_line", bytes, in,
          [&] { all_reduce_line(rank, in.data(), out.data(), n); });
}

void tcp_figures(int rank, const int* fds, size_t bytes) {
  char *in = bytes_of(memory[rank]), *out = bytes_of(memory[2 + rank]);
  const std::span<float> input(memory[rank], bytes / sizeof(float));
  measure(rank, "tcp_oneway", bytes, input,
          [&] { exchange(fds[0], fds[1], in, out, rank == 0 ? bytes : 0, rank == 0 ? 0 : bytes); });
  measure(rank, "tcp_bothways", bytes, input,
          [&] { exchange(fds[0], fds[1], in, out, bytes, bytes); });
}

void round_trips(int rank, const int* fds) {
  int turn = 0;
  const auto await_turn = [&] {
    while (shared->ball.load(std::memory_order_acquire) != turn) {
    }
  };
  measure(rank, "flag_roundtrip", 8, {}, [&] {
    if (rank == 0) {
      shared->ball.store(++turn, std::memory_order_release), ++turn;
      await_turn();
    } else {
      ++turn;
      await_turn();
      shared->ball.store(++turn, std::memory_order_release);
    }
  });
  measure(rank, "tcp_roundtrip", 8, {}, [&] {
    char ball[8] = {};
    const auto spin_recv = [&] {
      while (recv(fds[1], ball, 8, MSG_DONTWAIT) != 8) {
      }
    };
    if (rank == 0) {
      (void)!send(fds[0], ball, 8, 0), spin_recv();
    } else {
      spin_recv(), (void)!send(fds[0], ball, 8, 0);
    }
  });
}

void run(int rank, const int* fds, const std::vector<size_t>& sizes) {
  std::memset(memory[rank], 1, capacity), std::memset(memory[2 + rank], 1, capacity);
  // The system may let only a parent access its child's memory, unless the child permits it.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  shared->exchanges.process[rank] = getpid();
  barrier2();
  Side side(shared->exchanges, rank);
  shared->direct[rank] = side.can_copy_directly();
  barrier2();
  can_copy_directly = shared->direct[0] && shared->direct[1];
  for (const size_t bytes : sizes) {
    memory_figures(rank, bytes);
    protocol_figures(rank, bytes);
    Bare(rank, side, bytes).figures();
    tcp_figures(rank, fds, bytes);
  }
  round_trips(rank, fds);
}

// A connected loopback pair: [0] is the connecting end, [1] the accepting one.
std::pair<int, int> tcp_pair() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address);
  listen(listener, 1);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const int a = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(a, reinterpret_cast<sockaddr*>(&address), sizeof address)) std::perror("connect");
  const int b = accept(listener, nullptr, nullptr);
  for (int fd : {a, b}) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // BBR, the default of some systems, sends at a rate that it measures.
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  }
  close(listener);
  return {a, b};
}

}  // namespace

int main(int argc, char** argv) {
  fresh = argc > 1 && std::strcmp(argv[1], "--fresh") == 0;
  argv += fresh, argc -= fresh;
  if (argc < 3) return std::fprintf(stderr, "usage: limits [--fresh] FIGURE,...|all BYTES...\n"), 2;
  std::istringstream names(argv[1]);
  for (std::string name; std::getline(names, name, ',');) wanted.push_back(name);
  std::vector<size_t> sizes;
  for (int i = 2; i < argc; i++) {
    sizes.push_back(std::strtoull(argv[i], nullptr, 10));
    if (sizes.back() == 0 || sizes.back() % 8 != 0)
      return std::fprintf(stderr, "limits: %s is not a positive multiple of 8 bytes\n", argv[i]), 2;
  }
  capacity = *std::max_element(sizes.begin(), sizes.end());
  shared = new (map_shared<Shared>(sizeof(Shared))) Shared();
  for (auto& m : memory) m = map_shared<float>(capacity);
  const auto [a0, a1] = tcp_pair();  // rank 0 sends on a0, rank 1 receives on a1
  const auto [b0, b1] = tcp_pair();  // rank 1 sends on b1, rank 0 receives on b0
  const int ends[2][2] = {{a0, b0}, {b1, a1}};
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing else would end its spinning
    run(1, ends[1], sizes);
    std::_Exit(0);
  }
  run(0, ends[0], sizes);
  int status = 0;
  wait(&status);
  return status == 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Two processes that send bytes to each other at once, in every way that a machine offers: through
// shared memory (two copies), or with one copy from or to the other's memory
// (process_vm_readv, process_vm_writev). limits.cpp measures a collective with each of them.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace exchanges {

constexpr size_t kSlotBytes = 64 << 10;
constexpr uint64_t kSlots = 8, kLines = 32;

struct Line {  // of a slice: `number` publishes it
  alignas(64) std::atomic<uint64_t> number{0};
  char few[56];
};

struct Queue {  // slices from one rank to the other; `taken` counts those that the other has read
  Line line[kLines];
  alignas(64) char memory[kSlots * kSlotBytes];
  alignas(64) std::atomic<uint64_t> taken{0};
};

// The places of slices that do not fit their lines. They take turns.
struct Places {
  size_t bytes = kSlotBytes;  // from one to the next
  uint64_t ahead = kSlots;    // slices that may be under way

  // They lie one behind another, as many as there is memory for: a core may write slowly to what
  // the other has just read.
  static Places behind_one_another(size_t n) {
    const size_t bytes = std::min((n + 127) / 128 * 128, kSlotBytes);
    return {bytes, std::min(kLines, kSlots * kSlotBytes / bytes)};
  }
  size_t of(uint64_t slice) const { return slice % (kSlots * kSlotBytes / bytes) * bytes; }
};

struct Offer {  // one rank's, for the other's single copies: `number` publishes it
  alignas(64) std::atomic<uint64_t> number{0};
  const char* source;
  char* place;
  std::atomic<size_t> claimed{0};             // pieces of the incoming data claimed for copying
  alignas(64) std::atomic<uint64_t> done{0};  // the other rank's copies for exchange `number`
};

struct Area {  // mapped by both
  Queue queue[2];
  Offer offer[2];
  pid_t process[2];
};

inline void add(float* out, const float* a, const float* b, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

// The destination of incoming bytes: `place`, plus the values at `added` if there are any.
struct Destination {
  char* place;
  const char* added = nullptr;

  void take(size_t at, const char* data, size_t n) const {
    if (added == nullptr) {
      std::memcpy(place + at, data, n);
    } else {
      add(reinterpret_cast<float*>(place + at), reinterpret_cast<const float*>(added + at),
          reinterpret_cast<const float*>(data), n / sizeof(float));
    }
  }
};

inline void spin_until(const std::atomic<uint64_t>& number, uint64_t value) {
  while (number.load(std::memory_order_acquire) != value) {
  }
}

// One rank's side. Both ranks make the same exchanges in the same order.
class Side {
 public:
  static constexpr size_t kWhole = SIZE_MAX;

  Side(Area& area, int rank)
      : area_(area), rank_(rank), mine_(area.offer[rank]), theirs_(area.offer[1 - rank]) {}

  // Two copies, through shared memory.
  void in_slots(const Places& places, const char* out, size_t to_send, size_t to_come,
                Destination to) {
    Queue &tx = area_.queue[rank_], &rx = area_.queue[1 - rank_];
    const auto data = [&places](Queue& queue, uint64_t slice, size_t n) {
      auto& few = queue.line[slice % kLines].few;
      return n <= sizeof few ? few : queue.memory + places.of(slice);
    };
    for (size_t sent = 0, come = 0; sent < to_send || come < to_come;) {
      if (sent < to_send) {
        if (pushed_ >= taken_ + places.ahead) taken_ = tx.taken.load(std::memory_order_acquire);
        if (pushed_ < taken_ + places.ahead) {
          const size_t n = std::min(to_send - sent, kSlotBytes);
          std::memcpy(data(tx, pushed_, n), out + sent, n);
          auto& line = tx.line[pushed_ % kLines];
          line.number.store(++pushed_, std::memory_order_release);
          sent += n;
        }
      }
      if (come < to_come) {
        auto& line = rx.line[popped_ % kLines];
        if (line.number.load(std::memory_order_acquire) != popped_ + 1) continue;
        const size_t n = std::min(to_come - come, kSlotBytes);
        to.take(come, data(rx, popped_, n), n);
        come += n;
        // Not after each short one: a line that both touch costs as much as everything else.
        if (++popped_ % (kSlots / 2) == 0 || n > sizeof line.few)
          rx.taken.store(popped_, std::memory_order_release);
      }
    }
  }

  // The receiver copies, `piece` bytes at a time.
  void by_reading(size_t piece, const char* out, size_t to_send, size_t to_come, Destination to) {
    exchange_++;
    if (to_send > 0) offer(out, nullptr);
    if (to_come > 0) {
      spin_until(theirs_.number, exchange_);
      if (to.added != nullptr) scratch_.resize(std::max(scratch_.size(), std::min(piece, to_come)));
      for (size_t at = 0; at < to_come; at += std::min(piece, to_come - at)) {
        const size_t n = std::min(piece, to_come - at);
        char* const direct = to.added == nullptr ? to.place + at : scratch_.data();
        read(theirs_.source + at, direct, n);
        if (to.added != nullptr) to.take(at, direct, n);
      }
      theirs_.done.store(exchange_, std::memory_order_release);
    }
    if (to_send > 0) spin_until(mine_.done, exchange_);
  }

  // The sender copies. Nothing is added.
  void by_writing(const char* out, size_t to_send, size_t to_come, char* place) {
    exchange_++;
    if (to_come > 0) offer(nullptr, place);
    if (to_send > 0) {
      spin_until(theirs_.number, exchange_);
      write(out, theirs_.place, to_send);
      theirs_.done.store(exchange_, std::memory_order_release);
    }
    if (to_come > 0) spin_until(mine_.done, exchange_);
  }

  // Both copy; the first idle one takes the next piece. Nothing is added.
  void by_both(size_t piece, const char* out, size_t to_send, size_t to_come, char* place) {
    exchange_++;
    mine_.claimed.store(0, std::memory_order_relaxed);
    offer(out, place);
    spin_until(theirs_.number, exchange_);
    const auto claim_all = [piece](Offer& receiver, size_t all, const auto& copy) {
      for (;;) {
        const size_t at = piece * receiver.claimed.fetch_add(1, std::memory_order_relaxed);
        if (at >= all) return;
        copy(at, std::min(piece, all - at));
      }
    };
    claim_all(mine_, to_come,
              [&](size_t at, size_t n) { read(theirs_.source + at, place + at, n); });
    claim_all(theirs_, to_send,
              [&](size_t at, size_t n) { write(out + at, theirs_.place + at, n); });
    theirs_.done.store(exchange_, std::memory_order_release);
    spin_until(mine_.done, exchange_);
  }

  // Whether this machine lets a process access the other's memory.
  bool can_copy_directly() const {
    char byte = 0;
    iovec local{&byte, 1}, remote{&byte, 1};  // a fork's stack is where its parent's is
    return process_vm_readv(peer(), &local, 1, &remote, 1, 0) == 1;
  }

 private:
  pid_t peer() const { return area_.process[1 - rank_]; }

  void offer(const char* source, char* place) {
    mine_.source = source, mine_.place = place;
    mine_.number.store(exchange_, std::memory_order_release);
  }

  void read(const char* from, char* to, size_t n) const {
    iovec local{to, n}, remote{const_cast<char*>(from), n};
    expect_all(process_vm_readv(peer(), &local, 1, &remote, 1, 0), n);
  }

  void write(const char* from, char* to, size_t n) const {
    iovec local{const_cast<char*>(from), n}, remote{to, n};
    expect_all(process_vm_writev(peer(), &local, 1, &remote, 1, 0), n);
  }

  static void expect_all(ssize_t copied, size_t n) {
    if (copied == static_cast<ssize_t>(n)) return;
    std::perror("limits: a single copy");
    std::exit(1);
  }

  Area& area_;
  const int rank_;
  Offer &mine_, &theirs_;
  // This rank's position in the two queues, and how many of its slices were taken when it looked.
  uint64_t pushed_ = 0, popped_ = 0, taken_ = 0;
  uint64_t exchange_ = 0;
  std::vector<char> scratch_;
};

}  // namespace exchanges

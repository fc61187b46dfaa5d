// SPDX-License-Identifier: Apache-2.0
// Collectives of two processes with private buffers and nothing else, in each of their ways.
#pragma once

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "exchanges.hpp"
#include "two_processes.hpp"

namespace limits {

using exchanges::Destination, exchanges::Places, exchanges::Side;

// An exchange by one way: the outgoing data and size, the incoming size and its destination.
using Exchange = std::function<void(const char*, size_t, size_t, Destination)>;

// A way to do an operation, with all its exchanges.
struct Way {
  const char* name;
  std::function<void()> work;
};

// A bare collective of two ranks with private buffers, in each of its ways.
class Bare {
 public:
  Bare(int rank, Side& side, size_t bytes)
      : rank_(rank),
        side_(side),
        bytes_(bytes),
        in_(bytes / sizeof(float), rank + 1.0f),
        out_(in_.size()),
        from_(bytes_of(in_.data())),
        to_(bytes_of(out_.data())) {}

  void figures() {
    const float peers = 2.0f - rank_;
    const bool is_root = rank_ == 0;
    best("sendrecv2_bare", copies([this](const Exchange& by) { by(from_, bytes_, bytes_, {to_}); }),
         0, bytes_, peers);
    best("allreduce2_bare", all_reduces(), 0, bytes_, 3.0f);
    best("reducescatter2_bare", sums([this](const Exchange& by) {
           by(from_ + theirs_, half_, half_, {to_, from_ + mine_});
         }),
         0, half_, 3.0f);
    best("allgather2_bare", copies([this](const Exchange& by) {
           std::memcpy(to_ + mine_, from_, half_);
           by(from_, half_, half_, {to_ + theirs_});
         }),
         theirs_, half_, peers);
    best("alltoall2_bare", copies([this](const Exchange& by) {
           std::memcpy(to_ + mine_, from_ + mine_, half_);
           by(from_ + theirs_, half_, half_, {to_ + theirs_});
         }),
         theirs_, half_, peers);
    best("broadcast2_bare", copies([this, is_root](const Exchange& by) {
           by(from_, is_root ? bytes_ : 0, is_root ? 0 : bytes_, {to_});
         }),
         0, is_root ? 0 : bytes_, 1.0f);
    best("reduce2_bare", sums([this, is_root](const Exchange& by) {
           by(from_, is_root ? 0 : bytes_, is_root ? bytes_ : 0, {to_, from_});
         }),
         0, is_root ? bytes_ : 0, 3.0f);
  }

 private:
  using Operation = std::function<void(const Exchange&)>;

  // A piece of a single copy, which stays in the second-level cache until it is added.
  static constexpr size_t kPiece = 64 << 10;
  // Longer data take whole slots in any case.
  bool fit_behind_one_another() const { return bytes_ > 56 && half_ < exchanges::kSlotBytes; }
  // Below a page, a system call takes longer than a second copy.
  bool has_single_copies() const { return bytes_ >= 4096 && can_copy_directly; }

  Exchange in_slots() {
    return [this](auto... each) { side_.in_slots({}, each...); };
  }
  Exchange behind_one_another() {
    return [this](const char* out, size_t to_send, size_t to_come, Destination to) {
      const auto places = Places::behind_one_another(std::max(to_send, to_come));
      side_.in_slots(places, out, to_send, to_come, to);
    };
  }
  Exchange reading(size_t piece) {
    return [this, piece](auto... each) { side_.by_reading(piece, each...); };
  }
  Exchange writing() {
    return [this](const char* out, size_t to_send, size_t to_come, Destination to) {
      side_.by_writing(out, to_send, to_come, to.place);
    };
  }
  Exchange both() {
    return [this](const char* out, size_t to_send, size_t to_come, Destination to) {
      side_.by_both(kPiece, out, to_send, to_come, to.place);
    };
  }

  static Way way(const char* name, Operation operation, Exchange by) {
    return {name, [operation = std::move(operation), by = std::move(by)] { operation(by); }};
  }

  std::vector<Way> sums(const Operation& operation) {
    std::vector<Way> ways{way("slots", operation, in_slots())};
    if (fit_behind_one_another())
      ways.push_back(way("slots behind one another", operation, behind_one_another()));
    if (!has_single_copies()) return ways;
    ways.push_back(way("read", operation, reading(Side::kWhole)));
    ways.push_back(way("read in pieces", operation, reading(kPiece)));
    return ways;
  }

  std::vector<Way> copies(const Operation& operation) {
    std::vector<Way> ways = sums(operation);
    if (!has_single_copies()) return ways;
    ways.push_back(way("write", operation, writing()));
    ways.push_back(way("read and write", operation, both()));
    return ways;
  }

  // Each rank adds up everything; or it adds up only its half, and fetches the peer's.
  std::vector<Way> all_reduces() {
    const auto at_once = [this](const Exchange& by) { by(from_, bytes_, bytes_, {to_, from_}); };
    const auto in_halves = [this](Exchange add_up, Exchange copy) {
      return [this, add_up, copy] {
        add_up(from_ + theirs_, half_, half_, {to_ + mine_, from_ + mine_});
        copy(to_ + mine_, half_, half_, {to_ + theirs_});
      };
    };
    std::vector<Way> ways{way("slots", at_once, in_slots())};
    if (half_ >= 4) ways.push_back({"slots, halves", in_halves(in_slots(), in_slots())});
    if (fit_behind_one_another()) {
      ways.push_back(way("slots behind one another", at_once, behind_one_another()));
      ways.push_back({"slots behind one another, halves",
                      in_halves(behind_one_another(), behind_one_another())});
    }
    if (!has_single_copies()) return ways;
    ways.push_back(way("read in pieces", at_once, reading(kPiece)));
    ways.push_back({"read, halves", in_halves(reading(kPiece), reading(Side::kWhole))});
    ways.push_back({"read and write, halves", in_halves(reading(kPiece), writing())});
    return ways;
  }

  // Prints the fastest of `ways`. After each of them, `came` bytes of the output, from `first` on,
  // must be `value`.
  void best(const char* figure, const std::vector<Way>& ways, size_t first, size_t came,
            float value) {
    if (!is_wanted(figure)) return;
    const bool reads = rank_ == 0 || std::strcmp(figure, "broadcast2_bare") != 0;
    const char* fastest = "";
    double least = 0;
    for (const Way& way : ways) {
      std::fill(out_.begin(), out_.end(), 0.0f);
      const double usec = microseconds(rank_, reads ? in_ : std::span<float>(), way.work);
      expect(figure, way.name, first, came, value);
      if (*fastest == '\0' || usec < least) least = usec, fastest = way.name;
    }
    if (rank_ == 0) print(figure, bytes_, least, fastest);
  }

  void expect(const char* figure, const char* way, size_t first, size_t came, float value) {
    const auto result = std::span(out_).subspan(first / sizeof(float), came / sizeof(float));
    const auto wrong = std::ranges::find_if(result, [value](float each) { return each != value; });
    if (wrong == result.end()) return;
    std::fprintf(stderr, "limits: %s by %s: an element is %g, expected %g\n", figure, way, *wrong,
                 value);
    if (rank_ == 1) kill(getppid(), SIGTERM);  // it would wait for this process
    std::exit(1);
  }

  const int rank_;
  Side& side_;
  const size_t bytes_;
  const size_t half_ = bytes_ / 8 * 4, mine_ = rank_ * half_, theirs_ = half_ - mine_;
  std::vector<float> in_, out_;
  char *from_, *to_;
};

}  // namespace limits

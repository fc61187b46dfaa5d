// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Random operations of a communicator's ranks, each checked. All ranks draw the same.

#include <functional>
#include <string>

#include "ccoll/ccoll.hpp"
#include "soak/round.hpp"

namespace ccoll::testing::soak {

/// A part of the ranks failed, and all agree on that: the communicator itself may be intact.
struct PartFailed {
  std::string what;
};

class Operations {
 public:
  /// Reports an error on a communicator that was made from another.
  using OnError = std::function<void(Communicator& where, const std::string& what, const Error&)>;

  Operations(Communicator& ranks, std::uint64_t seed, OnError on_error)
      : ranks_(ranks), draw_(seed), on_error_(std::move(on_error)) {}

  /// Runs the next operation. Throws its calls' errors, WrongResult, or PartFailed.
  void next();
  /// Its description.
  const std::string& text() const { return text_; }
  /// How many calls were made.
  int calls() const { return calls_; }

 private:
  void blocking(Communicator& ranks);
  void asynchronous();
  void grouped();
  void around_the_ring();
  void batch();
  void on_part();
  void through_nccl();
  void agree(bool well, const std::string& what);

  Communicator& ranks_;
  Draw draw_;
  const OnError on_error_;
  std::string text_;
  int calls_ = 0;
};

}  // namespace ccoll::testing::soak

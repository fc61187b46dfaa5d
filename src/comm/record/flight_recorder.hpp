// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's last operations, beside the collectives in its History: when those ended that
/// had to wait, and messages. Always on; a message of the short way costs a counter's read and one
/// line of memory. Used by the holder of the owner flag.

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "ccoll/types.hpp"
#include "comm/record/history.hpp"
#include "comm/record/trace/ticks.hpp"

namespace ccoll {

class FlightRecorder {
 public:
  static constexpr std::uint64_t kMessages = 256;
  static constexpr std::uint32_t kAny = UINT32_MAX;

  enum class State : std::uint8_t { begun, ended, failed };
  struct alignas(32) Message {
    std::uint64_t begun = 0;  ///< in processor_ticks(), as all here
    std::uint64_t bytes = 0;
    std::uint32_t peer = kAny;
    std::uint32_t tag = kAny;
    DataType type = DataType::uint8;
    bool is_send = false;
    State state = State::begun;
  };

  /// Records the end of a collective that was not over at once.
  void call_ended(std::uint64_t call) { call_ends_.set(call); }
  std::optional<std::uint64_t> end_of_call(std::uint64_t call) const { return call_ends_.of(call); }

  /// Records a message that begins, or is over already on the short way; returns its number.
  std::uint64_t message(bool is_send, std::uint64_t bytes, std::uint32_t peer, std::uint32_t tag,
                        DataType type, State state) {
    auto& entry = entries_[messages_ % kMessages];
    entry.begun = processor_ticks();
    entry.bytes = bytes;
    entry.peer = peer;
    entry.tag = tag;
    entry.type = type;
    entry.is_send = is_send;
    entry.state = state;
    return messages_++;
  }
  /// For a message that was not over at once; null if it is none of the last.
  Message* message_ended(std::uint64_t number, State state) {
    if (messages_ - number > kMessages) return nullptr;
    auto& entry = entries_[number % kMessages];
    entry.state = state;
    message_ends_.set(number);
    return &entry;
  }
  const Message& message_at(std::uint64_t number) const { return entries_[number % kMessages]; }
  std::optional<std::uint64_t> end_of_message(std::uint64_t number) const {
    return message_ends_.of(number);
  }
  std::uint64_t messages() const { return messages_; }

 private:
  /// When operations ended that were not over at once.
  template <std::size_t kMost>
  class Ends {
   public:
    void set(std::uint64_t number) { ends_[number % kMost] = {number, processor_ticks()}; }
    std::optional<std::uint64_t> of(std::uint64_t number) const {
      const auto& [whose, ended] = ends_[number % kMost];
      return ended != 0 && whose == number ? std::optional(ended) : std::nullopt;
    }

   private:
    std::array<std::pair<std::uint64_t, std::uint64_t>, kMost> ends_{};
  };

  std::array<Message, kMessages> entries_;
  std::uint64_t messages_ = 0;
  Ends<kMessages> message_ends_;
  Ends<History::kCalls> call_ends_;
};

}  // namespace ccoll

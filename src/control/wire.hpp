// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The messages on control connections, as bytes. A frame is a length (32 bits, of what follows),
/// the protocol version, the type, and the fields. Every decoder checks lengths and ranges before a
/// value is used; nothing here knows of sockets.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/control.hpp"
#include "core/deadline.hpp"
#include "core/result.hpp"
#include "net/peer_address.hpp"

namespace ccoll::control {

inline constexpr std::uint8_t kWireVersion = 14;
/// Maximum bytes of a failure's text; longer texts are cut.
inline constexpr std::size_t kMaxText = 2048;
/// Maximum bytes of a frame without the address table or a list of all ranks.
inline constexpr std::size_t kMaxFrame = 4096;
/// Maximum bytes of a frame in a job of `size` ranks once its table is made.
constexpr std::size_t max_frame(std::uint32_t size) {
  return kMaxFrame + sizeof(std::uint32_t) * std::size_t{size};
}
/// Maximum number of ranks in one message of departures.
inline constexpr std::size_t kMaxLeft = 1000;
static_assert(kMaxLeft * sizeof(std::uint32_t) < kMaxFrame);

enum class Type : std::uint8_t {
  hello = 1,     ///< caller: who I am, and the callee that I mean
  welcome = 2,   ///< callee: you are expected
  refused = 3,   ///< callee: you are not (now), and why
  gathered = 4,  ///< up the tree: the rows of my whole subtree
  table = 5,     ///< down the tree: all rows
  failure = 6,   ///< flooded
  left = 7,      ///< flooded, several at once; on a rank's own connection it says goodbye
  waiting = 8,   ///< to one rank, from hop to hop
  question = 9,  ///< a hello that only asks whether the callee is there
  answer = 10,   ///< flooded: a rank's word in a roll call
  beat = 11,     ///< I live, and after so much silence I count a peer as lost
};

/// A row of the table on the wire. Every Control draws a new nonce, and a caller names the one it
/// read. So neither a key left over by an earlier job nor a reused address lets a stranger in.
struct Row {
  PeerAddress address;
  std::uint64_t nonce = 0;
  friend bool operator==(const Row&, const Row&) = default;
};
inline constexpr std::size_t kRowBytes = 63;
static_assert(kRowBytes <= 64);

/// Maximum bytes of a frame in a job of `size` ranks while its table is being made.
constexpr std::size_t max_start_frame(std::uint32_t size) {
  return kMaxFrame + kRowBytes * std::size_t{size};
}

static_assert(kMaxRank0Text + 64 < kMaxFrame, "rank 0's text travels in the table's frame");

struct Hello {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint64_t callee = 0;  ///< the callee's nonce
  Row row;                   ///< of the caller
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Refusal {
  bool final = false;  ///< the callee leaves or has left for this reason: calling again is useless
  Failure reason;      ///< of kind mismatch if the callee is not the one that was meant
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

/// A failure on its way to everyone. `(origin, number)` identifies it, so that it is forwarded only
/// once. Number 0 is the loss of rank `origin`, whichever rank saw it.
struct FailureNews {
  std::uint32_t origin = 0;
  std::uint32_t number = 0;
  std::uint64_t communicator = 0;
  Failure failure;
  friend bool operator==(const FailureNews&, const FailureNews&) = default;
};

/// A rank's word in a roll call, on its way to everyone; a later word replaces it.
struct Answer {
  enum class State : std::uint8_t { counts, decided, gave_up, closed };
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint64_t said = 0;     ///< its number among all roll-call words of this rank, from 1
  std::uint32_t attempt = 0;  ///< RollCall::attempt
  State state = State::counts;
  std::vector<std::uint32_t> gone;  ///< ascending
  /// Why it last gave up; without a message if it never did, or another rank gave up first.
  Failure why = {ErrorKind::aborted, {}, std::nullopt};
  friend bool operator==(const Answer&, const Answer&) = default;
};

/// A waiting rank's message to another.
struct Publication {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Waiting waiting;
  bool detour = false;  ///< it has left the tree, because a rank had gone
};

struct Frame {
  Type type;
  std::string_view body;
};

/// Parses a frame without its length.
Result<Frame> parse(std::string_view payload);
/// Removes the first frame from `bytes`; nullopt if it is not complete yet. Fails if the bytes are
/// no frame.
Result<std::optional<Frame>> next_frame(std::string_view& bytes, std::size_t limit);

std::string encode(const Hello& hello);
std::string encode_question(const Hello& hello);
std::string encode_welcome();
std::string encode(const Refusal& refusal);
std::string encode_rows(const std::vector<Row>& rows);
/// Encodes all rows, and rank 0's text for everyone.
std::string encode_table(const std::vector<Row>& rows, std::string_view rank0_text);
std::string encode(const FailureNews& news);
/// Ranks that have left; at most kMaxLeft.
std::string encode_left(std::span<const std::uint32_t> ranks);
std::string encode(const Publication& publication);
std::string encode(const Answer& answer);
/// `limit_ms`: the sender's heartbeat limit in milliseconds; 0: it has none.
std::string encode_beat(std::uint32_t limit_ms);

std::optional<Hello> decode_hello(std::string_view body);
std::optional<Refusal> decode_refusal(std::string_view body);
/// Requires exactly `count` rows.
std::optional<std::vector<Row>> decode_rows(std::string_view body, std::size_t count);
struct Table {
  std::vector<Row> rows;
  std::string rank0_text;
};
std::optional<Table> decode_table(std::string_view body, std::size_t count);
/// These require ranks below `size`.
std::optional<FailureNews> decode_failure(std::string_view body, std::uint32_t size);
std::optional<std::vector<std::uint32_t>> decode_left(std::string_view body, std::uint32_t size);
std::optional<Publication> decode_publication(std::string_view body, std::uint32_t size);
std::optional<Answer> decode_answer(std::string_view body, std::uint32_t size);
std::optional<std::uint32_t> decode_beat(std::string_view body);

/// The reason why a rank does not come to a start-up, or gave it up.
struct Word {
  Failure why;
  std::uint64_t host = 0;     ///< PeerAddress::host of the rank
  Clock::time_point began{};  ///< of its start-up, by that host's clock
  std::optional<Row> row;     ///< where it may still answer, if announced
  friend bool operator==(const Word&, const Word&) = default;
};

/// A rank's one key in the store, and its value: its row, or its word.
inline constexpr std::string_view kKeyPrefix = "control/";
std::string key_of(std::uint32_t rank);
std::string encode_key(const Row& row);
std::string encode_key(const Word& word);
/// Also takes the row of a word.
std::optional<Row> decode_key(std::string_view value);
/// Requires ranks below `size`.
std::optional<Word> decode_word(std::string_view value, std::uint32_t size);

}  // namespace ccoll::control

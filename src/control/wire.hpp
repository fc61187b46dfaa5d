// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The messages on control connections, as bytes. A frame is a length (32 bits, of what follows),
/// the version of this protocol, the type, and the fields. Every decoder checks length and ranges
/// before a value is used; nothing here knows of sockets.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/control.hpp"
#include "core/result.hpp"
#include "net/peer_address.hpp"

namespace ccoll::control {

inline constexpr std::uint8_t kWireVersion = 12;
/// Longest text of a failure that travels; what is longer is cut.
inline constexpr std::size_t kMaxText = 2048;
/// Longest frame but those that carry the address table or a list of all ranks.
inline constexpr std::size_t kMaxFrame = 4096;
/// Longest frame of a job of `size` ranks once its table is made.
constexpr std::size_t max_frame(std::uint32_t size) {
  return kMaxFrame + sizeof(std::uint32_t) * std::size_t{size};
}
/// Most ranks in one message of departures.
inline constexpr std::size_t kMaxLeft = 1000;
static_assert(kMaxLeft * sizeof(std::uint32_t) < kMaxFrame);

enum class Type : std::uint8_t {
  hello = 1,     ///< caller: who I am, and whom I mean to have called
  welcome = 2,   ///< callee: you are expected
  refused = 3,   ///< callee: you are not (now), and why
  gathered = 4,  ///< up the tree: the rows of my whole subtree
  table = 5,     ///< down the tree: all rows
  failure = 6,   ///< flooded
  left = 7,      ///< flooded, several at once; on a rank's own connection it says goodbye
  waiting = 8,   ///< to one rank, from hop to hop
  question = 9,  ///< a hello of one that only wants to know whether the callee is still there
  answer = 10,   ///< flooded: a rank's word in a roll call
  beat = 11,     ///< I live; and how soon I count a peer as lost that says nothing
};

/// A row of the table as it travels. The nonce is drawn anew by every Control: a caller names the
/// one it read, so that a key left over by an earlier job or an address that now belongs to
/// someone else never lets a stranger in.
struct Row {
  PeerAddress address;
  std::uint64_t nonce = 0;
  friend bool operator==(const Row&, const Row&) = default;
};
inline constexpr std::size_t kRowBytes = 63;
static_assert(kRowBytes <= 64);

/// Longest frame of a job of `size` ranks while its table is being made.
constexpr std::size_t max_start_frame(std::uint32_t size) {
  return kMaxFrame + kRowBytes * std::size_t{size};
}

static_assert(kMaxTold + 64 < kMaxFrame, "what rank 0 tells travels in the table's frame");

struct Hello {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint64_t callee = 0;  ///< the nonce of the one called
  Row row;                   ///< of the caller
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Refusal {
  bool final = false;  ///< the callee leaves, or has, for this reason: calling again cannot help
  Failure reason;      ///< its kind is mismatch where the callee is someone else than was meant
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

/// A failure under way to everyone. `(origin, number)` is its identity, by which it is forwarded
/// once only. Number 0 is the loss of rank `origin`, whoever saw it.
struct FailureNews {
  std::uint32_t origin = 0;
  std::uint32_t number = 0;
  std::uint64_t communicator = 0;
  Failure failure;
  friend bool operator==(const FailureNews&, const FailureNews&) = default;
};

/// A rank's word in a roll call, under way to everyone; what it says later takes its place.
struct Answer {
  enum class State : std::uint8_t { counts, decided, gave_up, closed };
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint64_t said = 0;  ///< its number among all that this rank has said in roll calls, from 1
  std::uint32_t attempt = 0;  ///< RollCall::attempt
  State state = State::counts;
  std::vector<std::uint32_t> gone;  ///< ascending
  /// Why it last gave up; without a message where it never did, or another had before.
  Failure why = {ErrorKind::aborted, {}, std::nullopt};
  friend bool operator==(const Answer&, const Answer&) = default;
};

/// What a waiting rank tells another.
struct Publication {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Waiting waiting;
  bool detour = false;  ///< it has left the tree, where a rank had gone
};

struct Frame {
  Type type;
  std::string_view body;
};

/// A frame from what follows its length.
Result<Frame> parse(std::string_view payload);
/// The first frame of `bytes`, which is then removed from it; nullopt when it is not whole yet. A
/// failure says what is wrong with the bytes.
Result<std::optional<Frame>> next_frame(std::string_view& bytes, std::size_t limit);

std::string encode(const Hello& hello);
std::string encode_question(const Hello& hello);
std::string encode_welcome();
std::string encode(const Refusal& refusal);
std::string encode_rows(const std::vector<Row>& rows);
/// All rows, and what rank 0 tells everyone.
std::string encode_table(const std::vector<Row>& rows, std::string_view told);
std::string encode(const FailureNews& news);
/// Ranks that have left; at most kMaxLeft.
std::string encode_left(std::span<const std::uint32_t> ranks);
std::string encode(const Publication& publication);
std::string encode(const Answer& answer);
/// The limit is the sender's heartbeat limit in milliseconds; 0: it has none.
std::string encode_beat(std::uint32_t limit_ms);

std::optional<Hello> decode_hello(std::string_view body);
std::optional<Refusal> decode_refusal(std::string_view body);
/// Exactly `count` rows.
std::optional<std::vector<Row>> decode_rows(std::string_view body, std::size_t count);
struct Table {
  std::vector<Row> rows;
  std::string told;
};
std::optional<Table> decode_table(std::string_view body, std::size_t count);
/// Ranks are below `size`.
std::optional<FailureNews> decode_failure(std::string_view body, std::uint32_t size);
std::optional<std::vector<std::uint32_t>> decode_left(std::string_view body, std::uint32_t size);
std::optional<Publication> decode_publication(std::string_view body, std::uint32_t size);
std::optional<Answer> decode_answer(std::string_view body, std::uint32_t size);
std::optional<std::uint32_t> decode_beat(std::string_view body);

/// Why a rank does not come to a start-up, or gave it up.
struct Word {
  Failure why;
  std::uint64_t host = 0;                         ///< PeerAddress::host of the rank
  std::chrono::steady_clock::time_point began{};  ///< of its start-up, by that host's clock
  std::optional<Row> row;  ///< where it may still answer, if it had announced that
  friend bool operator==(const Word&, const Word&) = default;
};

/// A rank's one key in the store, and its value: its row, or its word.
inline constexpr std::string_view kKeyPrefix = "control/";
std::string key_of(std::uint32_t rank);
std::string encode_key(const Row& row);
std::string encode_key(const Word& word);
/// A word's row, too.
std::optional<Row> decode_key(std::string_view value);
/// Ranks are below `size`.
std::optional<Word> decode_word(std::string_view value, std::uint32_t size);

}  // namespace ccoll::control

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A schedule's effects, round by round, for people to look at: the messages that travel, and every
/// rank's buffers before and after. The programs are executed symbolically, as in the verifier,
/// over one window that holds whole blocks. Pure data, independent of its presentation.
///
/// A message's depth is its place on the longest chain of messages in which each had to be received
/// before the next was sent. All messages of a round have equal depth; if a lane sends several of
/// equal depth, they are in consecutive rounds.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"
#include "verify/verify.hpp"

namespace ccoll {

/// Stands for the number of a missing content or step.
inline constexpr std::uint32_t kNothing = UINT32_MAX;
/// An unknown content, because a finding has spoilt it.
inline constexpr std::uint32_t kSpoilt = UINT32_MAX - 1;

/// How often a rank has contributed.
struct Share {
  Rank rank = 0;
  std::uint64_t times = 1;
  friend bool operator==(const Share&, const Share&) = default;
};

/// The content of a place in a buffer: some ranks' contributions to one block of the operation,
/// combined in one way. Equal contents have the same number.
struct Content {
  std::uint32_t block = 0;             ///< of the contributing ranks' inputs
  std::vector<Share> shares;           ///< by rank
  std::vector<std::uint32_t> sources;  ///< the contents combined, in order; empty: an input
  bool finished = false;               ///< `avg` has been divided
};

/// Where a rank has data. `passing`: a step's result from received data that it sends but stores
/// nowhere.
enum class Place : std::uint8_t { input, output, scratch, passing };
std::string_view to_string(Place place);

/// One block's place in one rank's memory. Scratch and passing data belong to a lane; elsewhere it
/// is 0.
struct Holding {
  Place place = Place::input;
  std::uint16_t lane = 0;
  std::uint32_t block = 0;
  std::uint32_t content = kNothing;
  friend bool operator==(const Holding&, const Holding&) = default;
};

/// From here on the place holds this content, or nothing.
struct Change {
  Rank rank = 0;
  Holding holding;
};

/// A step of a rank's program.
struct StepName {
  Rank rank = 0;
  std::uint16_t lane = 0;
  std::uint32_t step = 0;
  friend bool operator==(const StepName&, const StepName&) = default;
};

/// A block of a message.
struct MessageBlock {
  std::uint32_t block = 0;     ///< the number in the sender's step
  std::uint32_t to_block = 0;  ///< the number in the receiver's step
  std::uint32_t content = kNothing;
  std::uint64_t elems = 0;
};

struct Message {
  StepName from;
  Rank to = 0;
  StepName by;            ///< the step that receives it; meaningless if none does
  bool received = false;  ///< false only in a broken schedule
  bool reduces = false;   ///< the receiver combines it with other data
  std::vector<MessageBlock> pieces;

  std::uint64_t elems() const;
};

struct Round {
  std::uint64_t depth = 0;        ///< of its messages
  std::vector<Message> messages;  ///< by sender, lane and receiver
  std::vector<StepName> steps;    ///< steps that have received all and stored in this round
  std::vector<Change> changes;    ///< relative to the round before
};

/// One rank's work so far.
struct Tally {
  std::uint64_t messages = 0;  ///< sent
  std::uint64_t elems_sent = 0;
  std::uint64_t elems_reduced = 0;  ///< received and combined with other data
  friend bool operator==(const Tally&, const Tally&) = default;
};

/// A lane that can never proceed.
struct Wait {
  enum class For : std::uint8_t { message, room, step, nothing };
  StepName step;            ///< the blocked step; 0 if the lane has ended
  For what = For::message;  ///< nothing: the lane has ended
  Rank peer = 0;            ///< the rank that does not send, or take
  std::uint32_t after = 0;  ///< the step that must come first
  std::uint16_t after_lane = 0;
};

struct Rounds {
  Problem problem;
  std::uint32_t blocks = 1;
  std::vector<Content> contents;
  std::vector<Change> inputs;  ///< the holdings before the first round
  std::vector<Round> rounds;
  /// Errors of form or execution; the rounds go as far as they make sense. verify() gives the whole
  /// proof.
  std::vector<Finding> findings;
  /// In a deadlock, lanes that each wait for the next one.
  std::vector<Wait> waits;
  bool is_cycle = false;  ///< the last one waits for the first
};

/// The Choice with one window that holds whole blocks.
Choice one_window(const Problem& problem, Algorithm algorithm);

/// Costs about as much as verify() of one window. `problem` must be whole.
Rounds rounds_of(const Problem& problem, const Schedule& schedule);

/// Whether the operation gives `rank` this output block.
bool has_result(const Problem& problem, Rank rank, std::uint32_t block);

/// Whether `content` is the correct result for that block.
bool is_result(const Rounds& rounds, Rank rank, std::uint32_t block, std::uint32_t content);

/// All ranks' holdings and work after some rounds, found by replaying the changes.
class Board {
 public:
  /// The state before the first round. `rounds` must live as long.
  explicit Board(const Rounds& rounds);

  /// Goes on by one round; false if there is none.
  bool advance();
  /// How many rounds are complete.
  std::size_t round() const { return round_; }
  /// All holdings, by place, lane and block.
  std::span<const Holding> held_by(Rank rank) const { return held_[rank]; }
  /// The content there, or kNothing.
  std::uint32_t content_at(Rank rank, Place place, std::uint32_t block) const;
  const Tally& tally(Rank rank) const { return tallies_[rank]; }

 private:
  void apply(const Change& change);

  const Rounds& rounds_;
  std::size_t round_ = 0;
  std::vector<std::vector<Holding>> held_;
  std::vector<Tally> tallies_;
};

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a schedule does, round by round, for people to look at: which messages travel, and what
/// every rank's buffers hold before and after. It is found by executing the programs symbolically,
/// as the verifier does, over one window that holds all of every block. Pure data; knows nothing of
/// how it is shown.
///
/// A message's depth is its place on the longest chain of messages that each had to be received
/// before the next was sent. The messages of a round are of equal depth; those of equal depth that
/// a lane sends one after another are in rounds one after another, too.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"
#include "verify/verify.hpp"

namespace ccoll {

/// Stands where a number of a content or step is expected: there is none.
inline constexpr std::uint32_t kNothing = UINT32_MAX;
/// A content of which nothing can be said, because a finding has spoilt it.
inline constexpr std::uint32_t kSpoilt = UINT32_MAX - 1;

/// How often a rank has contributed.
struct Share {
  Rank rank = 0;
  std::uint64_t times = 1;
  friend bool operator==(const Share&, const Share&) = default;
};

/// What a place in a buffer can hold: some ranks' contributions to one block of the operation,
/// combined in one way. Equal contents have one number.
struct Content {
  std::uint32_t block = 0;             ///< of the contributing ranks' inputs
  std::vector<Share> shares;           ///< by rank
  std::vector<std::uint32_t> sources;  ///< the contents combined, in order; none: a rank's own
  bool finished = false;               ///< `avg` has been divided
};

/// Where a rank has data. `passing`: what a step has made of what it received and will send, but
/// stores nowhere.
enum class Place : std::uint8_t { input, output, scratch, passing };
std::string_view to_string(Place place);

/// One block's place in one rank's memory. Scratch and what is passing belong to a lane; elsewhere
/// it is 0.
struct Holding {
  Place place = Place::input;
  std::uint16_t lane = 0;
  std::uint32_t block = 0;
  std::uint32_t content = kNothing;
  friend bool operator==(const Holding&, const Holding&) = default;
};

/// From now on the place holds this content, or nothing.
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
  std::uint32_t block = 0;     ///< as the sender's step names it
  std::uint32_t to_block = 0;  ///< as the receiver's does
  std::uint32_t content = kNothing;
  std::uint64_t elems = 0;
};

struct Message {
  StepName from;
  Rank to = 0;
  StepName by;            ///< the step that receives it; of no meaning if nobody does
  bool received = false;  ///< false only in a broken schedule
  bool reduces = false;   ///< the receiver combines it with others
  std::vector<MessageBlock> pieces;

  std::uint64_t elems() const;
};

struct Round {
  std::uint64_t depth = 0;        ///< of its messages
  std::vector<Message> messages;  ///< by sender, lane and receiver
  std::vector<StepName> steps;  ///< that have received all they wait for, and stored, in this round
  std::vector<Change> changes;  ///< to what was held before
};

/// What one rank has done so far.
struct Tally {
  std::uint64_t messages = 0;  ///< sent
  std::uint64_t elems_sent = 0;
  std::uint64_t elems_reduced = 0;  ///< received and combined with others
  friend bool operator==(const Tally&, const Tally&) = default;
};

/// A lane that can never go on.
struct Wait {
  enum class For : std::uint8_t { message, room, step, nothing };
  StepName step;            ///< that cannot run; 0 where the lane has ended
  For what = For::message;  ///< nothing: the lane has ended
  Rank peer = 0;            ///< who does not send, or take
  std::uint32_t after = 0;  ///< the step that it comes after
  std::uint16_t after_lane = 0;
};

struct Rounds {
  Problem problem;
  std::uint32_t blocks = 1;
  std::vector<Content> contents;
  std::vector<Change> inputs;  ///< what is held before the first round
  std::vector<Round> rounds;
  /// What was wrong with the form, or on the way; then the rounds go as far as they make sense. The
  /// whole proof is verify()'s.
  std::vector<Finding> findings;
  /// In a deadlock, lanes of which each waits for the next one.
  std::vector<Wait> waits;
  bool is_cycle = false;  ///< the last one waits for the first
};

/// The Choice of one window that holds all of every block.
Choice one_window(const Problem& problem, Algorithm algorithm);

/// Costs about as much as verify() of one window. `problem` is whole.
Rounds rounds_of(const Problem& problem, const Schedule& schedule);

/// Whether the operation says that `rank` has this output block in the end.
bool has_result(const Problem& problem, Rank rank, std::uint32_t block);

/// Whether `content` is what that block must then hold.
bool is_result(const Rounds& rounds, Rank rank, std::uint32_t block, std::uint32_t content);

/// What all ranks hold and have done after some rounds: replays the changes.
class Board {
 public:
  /// Before the first round. `rounds` must live as long.
  explicit Board(const Rounds& rounds);

  /// After one round more; false if there is none.
  bool advance();
  /// How many rounds have been.
  std::size_t round() const { return round_; }
  /// By place, lane and block; nothing is left out that is held.
  std::span<const Holding> held_by(Rank rank) const { return held_[rank]; }
  /// What is there, or kNothing.
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

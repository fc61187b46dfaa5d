// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A rank's flight recorder of one communicator, as a value and as JSON (docs/diagnosis.md):
/// written by Communicator::dump(), on a failure and on a signal; read by cc-run and cc-show. Times
/// are nanoseconds since 1970.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll::dump {

inline constexpr int kVersion = 1;
/// Ending of dump files' names.
inline constexpr std::string_view kExtension = ".dump.json";
inline constexpr std::size_t kMostBytes = std::size_t{16} << 20;

/// A rank, by its number in the communicator, and where it runs.
struct Peer {
  std::uint32_t rank = 0;
  std::string address;
  std::uint64_t process = 0;
  friend bool operator==(const Peer&, const Peer&) = default;
};

enum class State : std::uint8_t { begun, ended, failed, unknown };
/// In the order of State.
inline constexpr std::string_view kStates[] = {"begun", "ended", "failed", "unknown"};
inline std::string_view to_string(State state) { return kStates[static_cast<std::size_t>(state)]; }

/// A collective.
struct Call {
  std::uint64_t number = 0;
  std::string kind;  ///< "all_reduce"
  std::string text;  ///< "all_reduce of 10 float32, sum"
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< of `count` elements
  std::string type;
  std::string op;  ///< empty where nothing is reduced
  std::optional<std::uint32_t> root;
  std::string algorithm;
  std::string label;
  State state = State::unknown;
  std::int64_t begun = 0;
  /// Absent while it is not over, and if it was so short that its end was not recorded.
  std::optional<std::int64_t> ended;
  friend bool operator==(const Call&, const Call&) = default;
};

struct Message {
  std::uint64_t number = 0;
  bool is_send = false;
  std::optional<std::uint32_t> peer;  ///< absent: any
  std::optional<std::uint32_t> tag;
  std::uint64_t bytes = 0;  ///< of the message; of the buffer, if it has not come
  std::string type;
  State state = State::unknown;
  std::int64_t begun = 0;
  std::optional<std::int64_t> ended;  ///< as Call's
  friend bool operator==(const Message&, const Message&) = default;
};

/// Position of the first lane that was not done; all from 0.
struct Stand {
  std::uint64_t lane = 0;
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  std::uint64_t window = 0;
  std::uint64_t windows = 0;
  friend bool operator==(const Stand&, const Stand&) = default;
};

/// A collective or a message that was not over.
struct UnderWay {
  std::optional<std::uint64_t> call;  ///< its number; absent: a message
  std::string text;
  std::string standing;  ///< how far it had come, in words
  std::string device;    ///< the same for a device that makes it; empty: none, or it has
  std::optional<Stand> stand;
  std::int64_t begun = 0;
  std::vector<Peer> waits_for;
  friend bool operator==(const UnderWay&, const UnderWay&) = default;
};

struct Failed {
  std::string kind;
  std::string message;
  std::optional<std::uint32_t> culprit;  ///< rank in the communicator
  friend bool operator==(const Failed&, const Failed&) = default;
};

struct Dump {
  std::string job;           ///< hexadecimal; the same on all ranks
  std::string communicator;  ///< the same
  std::string name;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t job_rank = 0;
  std::string host;
  std::uint64_t process = 0;
  std::string reason;  ///< "failure", "beside", "signal", "asked"
  std::int64_t at = 0;
  /// Whether another thread had the owner flag: then only calls are known, without their ends.
  bool partial = false;
  std::optional<Failed> failure;
  std::uint64_t calls = 0;     ///< collectives begun so far
  std::uint64_t finished = 0;  ///< of those
  std::vector<Call> last_calls;
  std::uint64_t messages = 0;  ///< sends and receives begun so far
  std::vector<Message> last_messages;
  std::vector<UnderWay> under_way;
  friend bool operator==(const Dump&, const Dump&) = default;
};

std::string to_json(const Dump& dump);

}  // namespace ccoll::dump

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory that the ranks of a group share, in one process or several: memory of each one's GPU,
/// and words. All ranks make it together, and try it out with data and words before anything uses
/// it. Only in builds with CUDA; knows no CUDA itself.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "gpu/exchange.hpp"
#include "gpu/group/group_words.hpp"
#include "gpu/memory/shared_memory.hpp"

namespace ccoll::device {

struct StreamGroupOptions {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;  ///< at most kMostTeamRanks
  int device = 0;          ///< this process's number of it; ranks may differ
  /// For each rank, the slots and scratch that programs may need; the same on all.
  std::uint64_t shared_bytes = 32 << 20;
  /// Channels from one rank to another, which are a program's lanes; the same on all.
  std::uint32_t links = 16;
  std::uint32_t most_blocks = 32;  ///< per kernel; for the team kernel 0: kBlocksOfRank
  bool by_kernels = false;         ///< calls run the team kernel, else steps; the same on all
  /// Whether steps of all_gather and all_to_all are copies, through slots, without kernels; the
  /// same on all.
  bool by_copies = false;
  /// How long each trial may take; at most half of the time there is.
  std::chrono::milliseconds trial{5000};
};

/// The time limit of a trial that begins now, in a set-up that ends at `deadline`.
Exchange::TimePoint trial_limit(const StreamGroupOptions& options, Exchange::TimePoint deadline);

/// All ranks call it, each with its own status. If one has failed, all fail, with its message
/// behind `what`.
Status agree(Exchange& exchange, const Status& own, std::string_view what,
             Exchange::TimePoint deadline);

class SharedGroup {
 public:
  using TimePoint = Exchange::TimePoint;

  /// All ranks call it. It fails on all with the failure of the first rank that had one.
  static Result<std::unique_ptr<SharedGroup>> make(const StreamGroupOptions& options,
                                                   Exchange& exchange, TimePoint deadline);

  /// Where this rank's GPU sees the memory of rank `rank`.
  std::byte* memory(std::uint32_t rank) const { return memories_[rank]->data(); }
  /// The size of this rank's memory.
  std::uint64_t own_bytes() const { return memories_[options_.rank]->size(); }
  GroupWords words() const { return {segment_->segment().data(), options_.size, options_.links}; }
  /// Where this rank's GPU sees the word that lies at `at`.
  std::uint32_t* word_on_device(std::size_t at) const {
    return reinterpret_cast<std::uint32_t*>(segment_->on_device() + at);
  }
  /// Keeps the memory for ever, because something may still use it.
  void abandon() const;

 private:
  explicit SharedGroup(const StreamGroupOptions& options) : options_(options) {}
  Status check_options() const;
  Status make_own();
  std::string introduction() const;
  Status map_all(std::vector<Parcel> parcels);
  Status try_out(Exchange& exchange, TimePoint deadline);

  const StreamGroupOptions options_;
  std::vector<std::shared_ptr<SharedMemory>> memories_;  // by rank
  std::shared_ptr<Segment> made_;                        // by rank 0
  std::shared_ptr<MappedSegment> segment_;
};

}  // namespace ccoll::device

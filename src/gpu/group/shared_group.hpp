// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the ranks of a group share, be they of one process or several: memory of each one's GPU,
/// and words. Made by all together and tried out with data and words before anything uses it. Only
/// in builds with CUDA, of which it knows nothing here.

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
  /// What programs may need for slots and scratch, of each rank; the same on all.
  std::uint64_t shared_bytes = 32 << 20;
  /// Channels from one rank to another, which are a program's lanes; the same on all.
  std::uint32_t links = 16;
  std::uint32_t most_blocks = 32;  ///< of a kernel; of the team kernel 0: kBlocksOfRank
  bool by_kernels = false;         ///< calls are the team kernel's, else steps; the same on all
  /// Whether steps of all_gather and all_to_all are copies, through slots, and run no kernels; the
  /// same on all.
  bool by_copies = false;
  /// How long anything that is tried out may take, and half of the time there is at most.
  std::chrono::milliseconds trial{5000};
};

/// Until when what is tried out from now on may take, of a set-up that ends at `deadline`.
Exchange::TimePoint trial_limit(const StreamGroupOptions& options, Exchange::TimePoint deadline);

/// By all ranks, each with how far it has come: where one has failed all do, with its words behind
/// `what`.
Status agree(Exchange& exchange, const Status& own, std::string_view what,
             Exchange::TimePoint deadline);

class SharedGroup {
 public:
  using TimePoint = Exchange::TimePoint;

  /// By all ranks. Fails on all with what failed on the first rank where something did.
  static Result<std::unique_ptr<SharedGroup>> make(const StreamGroupOptions& options,
                                                   Exchange& exchange, TimePoint deadline);

  /// Where this rank's GPU sees the memory of rank `rank`.
  std::byte* memory(std::uint32_t rank) const { return memories_[rank]->data(); }
  /// Of this rank's.
  std::uint64_t own_bytes() const { return memories_[options_.rank]->size(); }
  GroupWords words() const { return {segment_->segment().data(), options_.size, options_.links}; }
  /// Where this rank's GPU sees the word that lies at `at`.
  std::uint32_t* word_on_device(std::size_t at) const {
    return reinterpret_cast<std::uint32_t*>(segment_->on_device() + at);
  }
  /// Something may use it for ever: it stays.
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

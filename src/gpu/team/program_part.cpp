// SPDX-License-Identifier: Apache-2.0
#include "gpu/team/program_part.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "gpu/program/block_budget.hpp"
#include "kernels/device/combine.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {
namespace {

/// The shared memory that a kernel has without asking for more.
constexpr std::size_t kMostSharedBytes = 48 << 10;

/// The threads of a block are at least a warp.
constexpr std::uint32_t kFewestThreads = 32;

constexpr Family kFamilies[] = {Family::bits, Family::integers, Family::floats,
                                Family::small_floats};

const void* kernel_of(Family family, bool by_words) {
  switch (family) {
    case Family::bits:
      return team_kernel_of_bits(by_words);
    case Family::integers:
      return team_kernel_of_integers(by_words);
    case Family::floats:
      return team_kernel_of_floats(by_words);
    case Family::small_floats:
      return team_kernel_of_small_floats(by_words);
  }
  return nullptr;
}

/// A program's lists one after another, as they lie on the device.
class Lists {
 public:
  template <typename T>
  std::size_t add(const std::vector<T>& list) {
    const std::size_t at = (bytes_.size() + kTeamAlignment - 1) / kTeamAlignment * kTeamAlignment;
    bytes_.resize(at + list.size() * sizeof(T));
    if (!list.empty()) std::memcpy(bytes_.data() + at, list.data(), list.size() * sizeof(T));
    return at;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

Status load_team_kernels(int device) {
  const auto cooperative = attribute(cudaDevAttrCooperativeLaunch, device);
  CCOLL_TRY(cooperative);
  if (*cooperative == 0) {
    return fail(ErrorKind::unsupported, "GPU {} has no cooperative launches, which a team needs",
                device);
  }
  // Loaded lazily, a kernel could wait at its first launch for one that spins.
  for (const Family family : kFamilies) {
    for (const bool by_words : {false, true}) {
      cudaFuncAttributes ignored = {};
      CCOLL_TRY(cuda_status(cudaFuncGetAttributes(&ignored, kernel_of(family, by_words)),
                            "loading a team's kernels"));
    }
  }
  return {};
}

Result<ProgramKernel> kernel_for(const TeamProgram& program) {
  const ProgramKernel made{kernel_of(family_of(program.type, program.op), program.by_words),
                           program.shared_words() * sizeof(std::uint64_t)};
  if (made.shared_bytes <= kMostSharedBytes) return made;
  return fail(ErrorKind::unsupported,
              "a program whose blocks need {} bytes of shared memory: at most {} are there",
              made.shared_bytes, kMostSharedBytes);
}

Result<std::uint32_t> blocks_at_once(const ProgramKernel& kernel, int device,
                                     std::uint32_t threads) {
  const auto processors = attribute(cudaDevAttrMultiProcessorCount, device);
  CCOLL_TRY(processors);
  int of_each = 0;
  CCOLL_TRY(
      cuda_status(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                      &of_each, kernel.function, static_cast<int>(threads), kernel.shared_bytes),
                  "asking how many blocks run at once"));
  return static_cast<std::uint32_t>(of_each * *processors);
}

Result<std::uint32_t> blocks_at_once(int device) {
  std::uint32_t least = kMostTeamBlocks;
  for (const Family family : kFamilies) {
    for (const bool by_words : {false, true}) {
      const auto blocks =
          blocks_at_once({kernel_of(family, by_words), kMostSharedBytes}, device, kFewestThreads);
      CCOLL_TRY(blocks);
      least = std::min(least, *blocks);
    }
  }
  return least;
}

Result<CountedBlocks> counted_blocks(int device, std::uint32_t ranks, std::uint32_t most_threads) {
  CountedBlocks counted{most_threads};
  for (;; counted.threads /= 2) {
    const ProgramKernel kernel{team_kernel_of_small_floats(false), 0};
    CCOLL_TRY(put(blocks_at_once(kernel, device, counted.threads), counted.at_once));
    const std::uint32_t room = BlockBudget().room(nullptr, device, counted.at_once);
    if (counted.threads <= kFewestThreads || room >= ranks * kBlocksOfRank) return counted;
  }
}

Status shape(ProgramPart& part, const ProgramKernel& kernel, const ProgramRoom& room, int device) {
  const std::uint32_t allowed = room.most_blocks == 0 ? kMostTeamBlocks : room.most_blocks;
  std::uint32_t most = 0;
  for (std::uint32_t threads = room.most_threads; threads >= kFewestThreads; threads /= 2) {
    if (threads > kFewestThreads && threads / 2 >= part.program.useful_threads) continue;
    const auto at_once = blocks_at_once(kernel, device, threads);
    CCOLL_TRY(at_once);
    const std::uint32_t here =
        std::min({kMostTeamBlocks, allowed, room.left ? room.left(*at_once) : *at_once});
    most = std::max(most, here);
    if (part.program.block_count > here) continue;
    part.threads = threads;
    part.at_once = *at_once;
    return {};
  }
  return fail(ErrorKind::unsupported,
              "a program has {} blocks that must run at once: GPU {} runs at most {}{}",
              part.program.block_count, device, most,
              most != 0 && most == room.most_blocks ? ", as the options say" : room.beside);
}

Result<std::byte*> ListMemory::take(std::size_t bytes) {
  const std::size_t aligned = (bytes + kTeamAlignment - 1) / kTeamAlignment * kTeamAlignment;
  if (aligned > left_) CCOLL_TRY(take_more(std::max(aligned, kPieceBytes)));
  left_ -= aligned;
  return std::exchange(next_, next_ + aligned);
}

Status ListMemory::take_more(std::size_t bytes) {
  DeviceMemory piece;
  CCOLL_TRY(put(allocate_on_device(bytes), piece));
  next_ = piece.get();
  left_ = bytes;
  bytes_ += bytes;
  pieces_.push_back(std::move(piece));
  return {};
}

Status upload(ProgramPart& part, const LoweredTeam& lowered, std::uint32_t number,
              ListMemory& memory, cudaStream_t stream) {
  Lists lists;
  const auto own = lowered.blocks_of(number);
  const std::size_t blocks = lists.add(own), steps = lists.add(lowered.steps),
                    ends = lists.add(lowered.ends), parts = lists.add(lowered.parts),
                    channels = lists.add(lowered.channels);
  const auto& bytes = lists.bytes();
  std::byte* there = nullptr;
  CCOLL_TRY(put(memory.take(bytes.size()), there));
  constexpr const char* kWhat = "copying a program to the GPU";
  CCOLL_TRY(cuda_status(
      cudaMemcpyAsync(there, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream), kWhat));
  CCOLL_TRY(cuda_status(cudaStreamSynchronize(stream), kWhat));
  part.program.blocks = reinterpret_cast<const TeamBlock*>(there + blocks);
  part.program.steps = reinterpret_cast<const TeamStep*>(there + steps);
  part.program.ends = reinterpret_cast<const TeamEnd*>(there + ends);
  part.program.parts = reinterpret_cast<const TeamPart*>(there + parts);
  part.program.channels = reinterpret_cast<const TeamChannel*>(there + channels);
  return {};
}

Status check_room(const LoweredTeam& lowered, const ProgramRoom& room) {
  const TeamProgram& program = lowered.program;
  if (lowered.workspace_bytes <= room.workspace_bytes && program.flag_count() <= kMostTeamFlags &&
      lowered.blocks.size() <= kMostTeamBlocks && program.workspace == 2 * room.ranks) {
    return {};
  }
  return fail(ErrorKind::unsupported,
              "a program of {} ranks that needs {} bytes of workspace, {} flags and {} blocks on "
              "all GPUs: this team has {} ranks, {} bytes, {} flags and {} blocks",
              program.workspace / 2, lowered.workspace_bytes, program.flag_count(),
              lowered.blocks.size(), room.ranks, room.workspace_bytes, kMostTeamFlags,
              kMostTeamBlocks);
}

Result<TeamTurns> TeamTurns::make(cudaStream_t stream) {
  constexpr const char* kWhat = "zeroing a team's tickets";
  TeamTurns made;
  CCOLL_TRY(put(allocate_on_device(bytes()), made.memory_));
  CCOLL_TRY(cuda_status(cudaMemsetAsync(made.memory_.get(), 0, bytes(), stream), kWhat));
  CCOLL_TRY(cuda_status(cudaStreamSynchronize(stream), kWhat));
  return made;
}

void TeamTurns::put_in(TeamState& state) const {
  state.claim = reinterpret_cast<TeamClaim*>(memory_.get());
  state.tickets = reinterpret_cast<TeamTicket*>(memory_.get() + kTicketsAt);
  state.ticket_count = kMostTeamBlocks;
}

std::string launching(const ProgramPart& part, int device) {
  return fmt::format("launching a team's {} blocks of {} threads on GPU {}",
                     part.program.block_count, part.threads, device);
}

std::string standing_blocks(std::span<const TeamBlock> blocks, const TeamProgress* progress) {
  std::vector<std::string> standing;
  for (std::size_t i = 0; i < blocks.size() && standing.size() < 4; ++i) {
    const TeamProgress& at = progress[blocks[i].number];
    if (static_cast<TeamEnding>(load_acquire(&at.ending)) == TeamEnding::finished) continue;
    // A lane that was told to end has the same words: another rank may have just done that.
    standing.push_back(fmt::format("rank {}'s lane {} not ended after {} steps of call {}",
                                   blocks[i].rank, blocks[i].lane, load_relaxed(&at.steps),
                                   load_relaxed(&at.call)));
  }
  return joined(standing);
}

}  // namespace ccoll::device

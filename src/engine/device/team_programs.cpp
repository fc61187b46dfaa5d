// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "engine/device/copy_engines.hpp"
#include "engine/device/team_device.hpp"
#include "kernels/device/combine.hpp"

namespace ccoll::device {
namespace {

/// What a kernel has without asking for more.
constexpr std::size_t kMostSharedBytes = 48 << 10;

constexpr std::string_view kBesideOthers =
    ", with room for two calls of each of the process's teams of several GPUs";

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

/// So many blocks of each rank there is to be room for in a team of several GPUs.
constexpr std::uint32_t kBlocksOfRank = 16;

/// How many the GPU runs, if there is nothing else.
Result<std::uint32_t> blocks_at_once(const void* kernel, int device, std::uint32_t threads,
                                     std::size_t shared_bytes) {
  const auto processors = attribute(cudaDevAttrMultiProcessorCount, device);
  CCOLL_TRY(processors);
  int of_each = 0;
  CCOLL_TRY(cuda_status(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                            &of_each, kernel, static_cast<int>(threads), shared_bytes),
                        "asking how many blocks run at once"));
  return static_cast<std::uint32_t>(of_each * *processors);
}

/// A program's lists one after another, as they are to lie on the device.
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

/// Loaded lazily, a kernel could wait at its first launch for one that spins.
Status Team::Device::load_kernels() {
  for (const Family family :
       {Family::bits, Family::integers, Family::floats, Family::small_floats}) {
    for (const bool by_words : {false, true}) {
      cudaFuncAttributes ignored = {};
      CCOLL_TRY(cuda_status(cudaFuncGetAttributes(&ignored, kernel_of(family, by_words)),
                            "loading a team's kernels"));
    }
  }
  return load_copy_kernels();
}

/// Where blocks of several teams are counted, those of which few run at once leave less room for
/// all: so no program has larger ones than leave enough for any other of the team.
Status Team::Device::choose_threads(Gpu& gpu) const {
  gpu.most_threads = options_.most_threads;
  if (!counts_blocks()) return {};
  const auto ranks = static_cast<std::uint32_t>(
      std::ranges::count(numbers_, static_cast<std::uint32_t>(&gpu - gpus_.data())));
  for (; gpu.most_threads > 32; gpu.most_threads /= 2) {
    const auto at_once =
        blocks_at_once(team_kernel_of_small_floats(false), gpu.device, gpu.most_threads, 0);
    CCOLL_TRY(at_once);
    if (BlockBudget().room(this, gpu.device, *at_once) >= ranks * kBlocksOfRank) break;
  }
  return {};
}

Result<LoadedProgram*> Team::Device::load(const LoweredTeam& lowered) {
  const TeamProgram& program = lowered.program;
  if (lowered.workspace_bytes > options_.workspace_bytes || program.flag_count() > kMostFlags ||
      program.workspace != 2 * options_.ranks) {
    return fail(ErrorKind::unsupported,
                "a program of {} ranks that needs {} bytes of workspace and {} flags: this team "
                "has {} ranks, {} bytes and {} flags",
                program.workspace / 2, lowered.workspace_bytes, program.flag_count(),
                options_.ranks, options_.workspace_bytes, kMostFlags);
  }
  for (const TeamBlock& block : lowered.blocks) {
    if (block.device == numbers_[block.rank]) continue;
    return fail(ErrorKind::invalid_argument,
                "a program that has rank {} on the team's GPU number {}: it is on number {}",
                block.rank, block.device, numbers_[block.rank]);
  }
  const BesideCaptures beside;
  auto loaded = std::make_unique<LoadedProgram>();
  loaded->parts.resize(gpus_.size());
  loaded->blocks = lowered.blocks;
  if (are_wanted(options_.copies, lowered.copies)) loaded->copies = lowered.copies;
  if (program.block_count != 0) {
    loaded->kernel = kernel_of(family_of(program.type, program.op), program.by_words);
    loaded->shared_bytes = program.shared_words() * sizeof(std::uint64_t);
    if (loaded->shared_bytes > kMostSharedBytes) {
      return fail(ErrorKind::unsupported,
                  "a program whose blocks need {} bytes of shared memory: at most {} are there",
                  loaded->shared_bytes, kMostSharedBytes);
    }
    // What is refused has taken no memory, which CUDA would take back only behind all streams.
    std::vector<BlockBudget::Need> needs;
    for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
      const CurrentDevice current(gpus_[number].device);
      CCOLL_TRY(current.status());
      LoadedProgram::Part& part = loaded->parts[number];
      part.program = program;
      part.program.block_count = static_cast<std::uint32_t>(lowered.blocks_of(number).size());
      CCOLL_TRY(put(shape(part, *loaded, gpus_[number]), needs.emplace_back()));
    }
    if (counts_blocks()) CCOLL_TRY(take_room(needs));
    for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
      const CurrentDevice current(gpus_[number].device);
      CCOLL_TRY(current.status());
      CCOLL_TRY(upload(loaded->parts[number], lowered, number));
    }
  }
  const std::lock_guard lock(mu_);
  return programs_.emplace_back(std::move(loaded)).get();
}

/// The most threads with which all blocks run at once, of those that have something to do.
Result<BlockBudget::Need> Team::Device::shape(LoadedProgram::Part& part,
                                              const LoadedProgram& loaded, const Gpu& gpu) const {
  const std::uint32_t allowed = options_.most_blocks == 0 ? kMostBlocks : options_.most_blocks;
  std::uint32_t most = 0;
  for (std::uint32_t threads = gpu.most_threads; threads >= 32; threads /= 2) {
    if (threads > 32 && threads / 2 >= part.program.useful_threads) continue;
    const auto at_once = blocks_at_once(loaded.kernel, gpu.device, threads, loaded.shared_bytes);
    CCOLL_TRY(at_once);
    const std::uint32_t room =
        counts_blocks() ? BlockBudget::of_process().room(this, gpu.device, *at_once) : *at_once;
    const std::uint32_t here = std::min({kMostBlocks, allowed, room});
    most = std::max(most, here);
    if (part.program.block_count > here) continue;
    part.threads = threads;
    return BlockBudget::Need{gpu.device, part.program.block_count, *at_once};
  }
  return fail(ErrorKind::unsupported,
              "a program of {} blocks, which have to run at once: GPU {} runs {} at most{}",
              part.program.block_count, gpu.device, most,
              most != 0 && most == options_.most_blocks ? ", as told"
              : counts_blocks()                         ? kBesideOthers
                                                        : "");
}

Status Team::Device::take_room(std::span<const BlockBudget::Need> needs) {
  if (!BlockBudget::of_process().take(this, needs)) {
    return fail(ErrorKind::unsupported,
                "a program whose blocks another one has taken the room of{}", kBesideOthers);
  }
  const std::lock_guard lock(mu_);
  needs_.insert(needs_.end(), needs.begin(), needs.end());
  return {};
}

bool Team::Device::take_room() {
  const std::lock_guard lock(mu_);
  for (const BlockBudget::Need& need : needs_) {
    if (BlockBudget::of_process().take(this, {&need, 1})) continue;
    give_room_back();
    return false;
  }
  return true;
}

Status Team::Device::upload(LoadedProgram::Part& part, const LoweredTeam& lowered,
                            std::uint32_t number) const {
  Lists lists;
  const auto own = lowered.blocks_of(number);
  const std::size_t blocks = lists.add(own), steps = lists.add(lowered.steps),
                    ends = lists.add(lowered.ends), parts = lists.add(lowered.parts),
                    channels = lists.add(lowered.channels);
  const auto& bytes = lists.bytes();
  CCOLL_TRY(put(allocate_on_device(bytes.size()), part.lists));
  std::byte* const there = part.lists.get();
  const cudaStream_t stream = gpus_[number].uploads.get();
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

}  // namespace ccoll::device

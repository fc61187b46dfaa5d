// SPDX-License-Identifier: Apache-2.0
// Calls as the team kernel: each rank has its own GPU, and launches its part by itself, in the
// caller's stream. Slots, flags and words, which other ranks write, lie in the memory that ranks
// share. The words that end kernels are in host memory that all ranks map.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/bytes.hpp"
#include "gpu/group/call_loans.hpp"
#include "gpu/group/group_calls.hpp"
#include "gpu/group/kernel_trial.hpp"
#include "gpu/program/block_budget.hpp"
#include "gpu/staging/leases.hpp"
#include "gpu/team/program_part.hpp"

namespace ccoll::device {
namespace {

constexpr std::string_view kNoneWaits = "GPUs run no kernels that wait for each other";

/// These flags lie behind those of programs: by them GPUs report to each other that a call has
/// ended.
constexpr std::uint32_t kEndedFlags = kMostTeamFlags;
constexpr std::uint64_t kFlagBytes =
    std::uint64_t{kEndedFlags + kMostTeamDevices} * kFlagWords * sizeof(std::uint64_t);
/// The words of tiny slices follow the flags, zeroed with them; then the programs' workspace.
constexpr std::uint64_t kWordBytes = kTeamWords * sizeof(std::uint64_t);
constexpr std::uint64_t kOwnBytes = kFlagBytes + kWordBytes;
static_assert(kOwnBytes % kTeamAlignment == 0);

struct KernelProgram final : GroupProgram {
  std::vector<TeamBlock> blocks;  ///< the rank's, for messages
  ProgramKernel kernel;
  ProgramPart part;
  BufferUse use;
};

class KernelCalls final : public GroupCalls {
 public:
  KernelCalls(const StreamGroupOptions& options, const SharedGroup& shared)
      : options_(options), shared_(shared) {}
  KernelCalls(const KernelCalls&) = delete;
  KernelCalls& operator=(const KernelCalls&) = delete;
  /// Keeps its memory, because CUDA may wait for any stream of the process, and so for other ranks,
  /// when memory is freed.
  ~KernelCalls() override {
    if (!has_) return;
    BlockBudget::of_process().give_back(has_.get());
    keep_until_no_calls_are_left(options_.device, std::move(has_));
  }

  Status open();
  /// Reserves blocks (BlockBudget): as many on all ranks, so that all refuse the same programs.
  Status exchange_limits(Exchange& exchange, Exchange::TimePoint deadline);
  /// May be called once kernels are known to work: from then on callers' buffers are lent.
  Status open_lending(Exchange& exchange, Exchange::TimePoint deadline) {
    return device::put(Lending::make(options_.rank, options_.size, options_.device, shared_.words(),
                                     exchange, deadline),
                       lending_);
  }
  /// For kernels that do not end: their blocks stay counted.
  void abandon() { keep_for_ever(std::exchange(has_, nullptr)); }
  Result<const GroupProgram*> load(const LoweredTeam& lowered) override;
  Status put(const GroupCall& call) override;
  std::string standing(const GroupProgram& last) const override {
    return standing_blocks(static_cast<const KernelProgram&>(last).blocks, progress());
  }
  std::uint64_t slot_bytes() const override { return slot_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t held_bytes() const override {
    return TeamTurns::bytes() + list_bytes_.load(std::memory_order_relaxed);
  }

 private:
  /// Resources on the GPU, or mapped there.
  struct Has {
    OwnStream uploads;
    TeamTurns turns;
    ListMemory lists;
    MappedMemory progress;  ///< by block
    std::vector<std::unique_ptr<KernelProgram>> programs;
  };

  Result<std::uint32_t> reserve_blocks();
  Status check_blocks(const LoweredTeam& lowered) const;
  TeamLaunch arguments(const KernelProgram& program, const GroupCall& call,
                       const CallLoans& loans) const;
  TeamLoans said_of(const CallLoans& loans) const;
  void count_slot_bytes(const BufferUse& use, const CallLoans& loans);
  TeamProgress* progress() const { return reinterpret_cast<TeamProgress*>(has_->progress.get()); }
  std::uint64_t* word(std::size_t at) const {
    return reinterpret_cast<std::uint64_t*>(shared_.word_on_device(at));
  }

  const StreamGroupOptions options_;
  const SharedGroup& shared_;
  std::shared_ptr<Has> has_ = std::make_shared<Has>();
  std::byte* progress_there_ = nullptr;  // immutable after open(); where the GPU sees it
  std::uint32_t at_once_ = 0;      // immutable after exchange_limits(); of any program's blocks
  std::uint32_t most_blocks_ = 0;  // immutable after exchange_limits(); of a program, on each rank
  std::shared_ptr<Lending> lending_;  // null before open_lending(), immutable after
  std::uint64_t launches_ = 0;
  std::atomic<std::uint64_t> slot_bytes_{0}, list_bytes_{0};
};

Status KernelCalls::open() {
  if (options_.size > kMostTeamDevices) {
    return fail(ErrorKind::unsupported, "a team of {} ranks with a GPU each: at most {}",
                options_.size, kMostTeamDevices);
  }
  CCOLL_TRY(load_team_kernels(options_.device));
  CCOLL_TRY(device::put(make_stream(), has_->uploads));
  CCOLL_TRY(device::put(TeamTurns::make(has_->uploads.get()), has_->turns));
  CCOLL_TRY(has_->lists.open());
  list_bytes_ = has_->lists.bytes();
  constexpr std::size_t kProgress = kMostTeamProgress * sizeof(TeamProgress);
  CCOLL_TRY(device::put(allocate_mapped(kProgress), has_->progress));
  std::memset(has_->progress.get(), 0, kProgress);
  CCOLL_TRY(device::put(on_device(has_->progress.get()), progress_there_));
  constexpr const char* kZeroing = "zeroing a team's flags and words";
  CCOLL_TRY(cuda_status(
      cudaMemsetAsync(shared_.memory(options_.rank), 0, kOwnBytes, has_->uploads.get()), kZeroing));
  return cuda_status(cudaStreamSynchronize(has_->uploads.get()), kZeroing);
}

Status KernelCalls::exchange_limits(Exchange& exchange, Exchange::TimePoint deadline) {
  const auto own = reserve_blocks();
  CCOLL_TRY(agree(exchange, own.map([](auto) {}), kNoneWaits, deadline));
  auto said = exchange.swap(net::Writer().number(*own).take(), {}, deadline);
  if (!said) return tl::unexpected(std::move(said.error()));
  most_blocks_ = *own;
  for (const Parcel& parcel : *said) {
    net::Reader reader(parcel.bytes);
    most_blocks_ = std::min(most_blocks_, reader.number<std::uint32_t>());
    if (!reader.complete())
      return fail(ErrorKind::corrupt, "the set-up message of a rank is invalid");
  }
  BlockBudget::of_process().limit(has_.get(), most_blocks_);
  return {};
}

/// Reserves blocks that any program can have, whatever shared memory it needs.
Result<std::uint32_t> KernelCalls::reserve_blocks() {
  const auto counted = counted_blocks(options_.device, 1, kMostTeamThreads);
  CCOLL_TRY(counted);
  const auto of_any = blocks_at_once(options_.device);
  CCOLL_TRY(of_any);
  at_once_ = std::min(counted->at_once, *of_any);
  const std::uint32_t wanted = options_.most_blocks != 0 ? options_.most_blocks : kBlocksOfRank;
  const std::uint32_t reserved =
      BlockBudget::of_process().reserve(has_.get(), {options_.device, wanted, at_once_});
  const std::uint32_t needed = std::min(wanted, kFewestGroupBlocks);
  if (reserved >= needed) return reserved;
  return fail(ErrorKind::unsupported, "GPU {} has room for {} blocks, {} are needed{}",
              options_.device, reserved, needed, kBesideOthers);
}

Status KernelCalls::check_blocks(const LoweredTeam& lowered) const {
  for (std::uint32_t rank = 0; rank < options_.size; ++rank) {
    const std::size_t blocks = lowered.blocks_of(rank).size();
    if (blocks <= most_blocks_) continue;
    return fail(ErrorKind::unsupported,
                "a program has {} blocks of rank {} that must run at once: all ranks' GPUs run at "
                "most {}{}",
                blocks, rank, most_blocks_,
                most_blocks_ == options_.most_blocks ? ", as the options say" : kBesideOthers);
  }
  return {};
}

Result<const GroupProgram*> KernelCalls::load(const LoweredTeam& lowered) {
  ProgramRoom room{options_.size, options_.shared_bytes};
  room.left = [this](std::uint32_t at_once) { return at_once < at_once_ ? 0 : most_blocks_; };
  CCOLL_TRY(check_room(lowered, room));
  const bool is_apart = std::ranges::all_of(
      lowered.blocks, [](const TeamBlock& block) { return block.device == block.rank; });
  if (!is_apart || lowered.reads_across()) {
    return fail(ErrorKind::invalid_argument,
                "the ranks of a program share GPUs or read each other's buffers: expected a GPU "
                "for each rank, and slots or words for all that others read");
  }
  // A rank does not know which other ranks have their buffers in place.
  if (lowered.program.by_words && !lowered.in_place) {
    return fail(ErrorKind::invalid_argument,
                "a program by words has ranks that are not in place: expected one lowered with all "
                "ranks in place, which serves every call");
  }
  const BesideCaptures beside;
  auto loaded = std::make_unique<KernelProgram>();
  if (lowered.program.block_count != 0) {
    const std::vector<TeamBlock> own = lowered.blocks_of(options_.rank);
    std::ranges::copy_if(lowered.blocks, std::back_inserter(loaded->blocks),
                         [this](const TeamBlock& block) { return block.rank == options_.rank; });
    loaded->part.program = lowered.program;
    loaded->part.program.block_count = static_cast<std::uint32_t>(own.size());
    loaded->part.program.lends_by_call = !lowered.program.by_words;
    loaded->use = use_of_buffers(lowered, options_.rank);
    CCOLL_TRY(device::put(kernel_for(loaded->part.program), loaded->kernel));
    CCOLL_TRY(check_blocks(lowered));
    CCOLL_TRY(shape(loaded->part, loaded->kernel, room, options_.device));
    CCOLL_TRY(upload(loaded->part, lowered, options_.rank, has_->lists, has_->uploads.get()));
    list_bytes_ = has_->lists.bytes();
  }
  return has_->programs.emplace_back(std::move(loaded)).get();
}

Status KernelCalls::put(const GroupCall& call) {
  const auto& program = static_cast<const KernelProgram&>(call.program);
  if (program.kernel.function == nullptr) return {};
  ++launches_;
  CallLoans loans;
  if (lending_ != nullptr) loans = find_loans(*lending_, program.use, call);
  count_slot_bytes(program.use, loans);
  TeamLaunch launch = arguments(program, call, loans);
  void* each[] = {&launch};
  const std::uint32_t blocks = program.part.program.block_count;
  return cuda_status(
      cudaLaunchCooperativeKernel(program.kernel.function, dim3(blocks), dim3(program.part.threads),
                                  each, program.kernel.shared_bytes, call.stream),
      [&] { return launching(program.part, options_.device); });
}

void KernelCalls::count_slot_bytes(const BufferUse& use, const CallLoans& loans) {
  for (const BufferUse::Sent& sent : use.sent) {
    const bool is_lent =
        sent.buffer < loans.of.size() && loans.lends(sent.buffer, sent.if_separate);
    if (!is_lent) slot_bytes_.fetch_add(sent.bytes, std::memory_order_relaxed);
  }
}

TeamLoans KernelCalls::said_of(const CallLoans& loans) const {
  TeamLoans said;
  for (std::uint32_t i = 0; i < loans.of.size(); ++i) {
    if (!loans.of[i]) continue;
    said.said |= TeamLoans::of_buffer(i, loans.said(i));
    said.begins[i] = loans.of[i]->offset;
  }
  const std::size_t places = shared_.words().places_at(options_.rank, 0);
  said.places = reinterpret_cast<const LoanPlace*>(shared_.word_on_device(places));
  return said;
}

TeamLaunch KernelCalls::arguments(const KernelProgram& program, const GroupCall& call,
                                  const CallLoans& loans) const {
  TeamLaunch launch;
  launch.program = program.part.program;
  launch.id = launches_;
  has_->turns.put_in(launch.state);
  launch.state.awaited_devices = options_.size;
  launch.state.ended = kEndedFlags;
  launch.loans = said_of(loans);
  // Blocks of this rank know other ranks' buffers only as far as these are lent.
  launch.buffers[2 * options_.rank] = call.input;
  launch.buffers[2 * options_.rank + 1] = call.output;
  for (std::uint32_t rank = 0; rank < options_.size; ++rank) {
    launch.state.flags[rank] = reinterpret_cast<std::uint64_t*>(shared_.memory(rank));
    launch.state.words[rank] = launch.state.flags[rank] + kFlagBytes / sizeof(std::uint64_t);
    launch.buffers[launch.program.workspace + rank] = shared_.memory(rank) + kOwnBytes;
  }
  launch.abort = word(GroupWords::ends_at());
  launch.busy = word(GroupWords::busy_at(options_.rank));
  launch.progress = reinterpret_cast<TeamProgress*>(progress_there_);
  return launch;
}

}  // namespace

std::uint64_t kernel_calls_bytes() { return kOwnBytes; }

Result<std::unique_ptr<GroupCalls>> make_kernel_calls(const StreamGroupOptions& options,
                                                      const SharedGroup& shared, Exchange& exchange,
                                                      Exchange::TimePoint deadline) {
  auto made = std::make_unique<KernelCalls>(options, shared);
  // Nobody may write flags or words before they are zeroed.
  CCOLL_TRY(agree(exchange, made->open(), kNoneWaits, deadline));
  CCOLL_TRY(made->exchange_limits(exchange, deadline));
  const KernelTrial trial = try_kernels(*made, options, shared, deadline);
  if (!trial.has_ended) {
    made->abandon();
    shared.abandon();
  }
  CCOLL_TRY(agree(exchange, trial.works, kNoneWaits, deadline));
  CCOLL_TRY(made->open_lending(exchange, deadline));
  return made;
}

}  // namespace ccoll::device

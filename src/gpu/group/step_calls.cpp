// SPDX-License-Identifier: Apache-2.0
// Calls as stream steps.
#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/cuda/driver.hpp"
#include "gpu/group/call_loans.hpp"
#include "gpu/group/group_calls.hpp"
#include "gpu/group/lending.hpp"
#include "gpu/program/rank_steps.hpp"
#include "gpu/way.hpp"
#include "kernels/device/launch.hpp"
#include "system/locks.hpp"

namespace ccoll::device {
namespace {

struct LoadedSteps final : GroupProgram {
  RankSteps of;
  BufferUse use;
  bool by_copies = false;  ///< its work is copies, without kernels
  /// The number of steps in the programs loaded before, so that a step's number identifies the
  /// program, too.
  std::uint32_t base = 0;
};

/// A block of a kernel has at least so much to do.
constexpr std::uint64_t kBytesPerBlock = 32 << 10;

/// The caller's buffers, in the order in which RankSteps counts them.
constexpr StepPlace::In kBuffers[] = {StepPlace::In::input, StepPlace::In::output};

/// CUDA copies from host to host before the function returns: that would wait for streams.
bool are_on_device(const GroupCall& call) {
  return device_of(call.input) && device_of(call.output);
}

std::size_t number_of(StepPlace::In buffer) { return buffer == kBuffers[0] ? 0 : 1; }

class StepCalls final : public GroupCalls {
 public:
  StepCalls(const StreamGroupOptions& options, const SharedGroup& shared, const Driver& driver)
      : options_(options), driver_(driver), shared_(shared), words_(shared.words()) {}

  Status open(Exchange& exchange, Exchange::TimePoint deadline) {
    return device::put(
        Lending::make(options_.rank, options_.size, options_.device, words_, exchange, deadline),
        lending_);
  }
  Result<const GroupProgram*> load(const LoweredTeam& lowered) override;
  Status put(const GroupCall& call) override;
  std::string standing(const GroupProgram& last) const override;
  std::uint64_t slot_bytes() const override { return slot_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Call {
    const RankSteps& steps;
    const std::array<std::byte*, 2> buffers;
    const cudaStream_t stream;
    const bool by_copies;
    const CallLoans loans;  ///< empty for copies: a reader at a fixed place finds nothing lent

    bool lends(const StepBuffer& buffer) const {
      return buffer.is_any() && loans.lends(number_of(buffer.in), buffer.if_separate);
    }
  };

  Status put_in(const LoadedSteps& steps, const Call& call);
  Status put_in_plain(const LoadedSteps& steps, const Call& call);
  Status put_step(const LoadedSteps& steps, std::uint32_t number, const Call& call);
  Status lend(const Call& call) const;
  Status take_back(const Call& call) const;
  Status fold(const Call& call, const StepFold& fold, LaunchWords words) const;
  Status copy(const Call& call, const StepFold& fold) const;
  Status write(const Call& call, std::size_t at, std::uint32_t value) const;
  std::byte* address(const Call& call, const StepPlace& place) const;
  CUdeviceptr on_device(std::size_t at) const {
    return reinterpret_cast<CUdeviceptr>(shared_.word_on_device(at));
  }
  std::string awaited(const RankSteps& steps, std::uint32_t from) const;

  const StreamGroupOptions options_;
  const Driver& driver_;
  const SharedGroup& shared_;
  const GroupWords words_;
  std::shared_ptr<Lending> lending_;  // immutable after open()
  Guarded<std::vector<std::unique_ptr<LoadedSteps>>> programs_;
  std::uint32_t plain_calls_ = 0;
  std::atomic<std::uint64_t> slot_bytes_{0};
};

Result<const GroupProgram*> StepCalls::load(const LoweredTeam& lowered) {
  auto loaded = std::make_unique<LoadedSteps>();
  CCOLL_TRY(device::put(steps_of(lowered, options_.rank), loaded->of));
  loaded->use = use_of_buffers(lowered, options_.rank);
  loaded->by_copies = options_.by_copies && !lowered.copies.empty();
  const RankSteps& steps = loaded->of;
  if (steps.size != options_.size || steps.shared_bytes > options_.shared_bytes ||
      steps.links > options_.links) {
    return fail(ErrorKind::unsupported,
                "a program of {} ranks that needs {} bytes of each and {} links from one to "
                "another: this group has {} ranks, {} bytes and {} links",
                steps.size, steps.shared_bytes, steps.links, options_.size, options_.shared_bytes,
                options_.links);
  }
  const auto programs = programs_.lock();
  if (!programs->empty()) {
    const LoadedSteps& before = *programs->back();
    loaded->base = before.base + static_cast<std::uint32_t>(before.of.steps.size());
  }
  return programs->emplace_back(std::move(loaded)).get();
}

Status StepCalls::put(const GroupCall& call) {
  const auto& steps = static_cast<const LoadedSteps&>(call.program);
  const Call made{.steps = steps.of,
                  .buffers = {call.input, call.output},
                  .stream = call.stream,
                  .by_copies = steps.by_copies && are_on_device(call),
                  .loans = steps.by_copies ? CallLoans{} : find_loans(*lending_, steps.use, call)};
  return call.is_captured ? put_in(steps, made) : put_in_plain(steps, made);
}

Status StepCalls::put_in(const LoadedSteps& steps, const Call& call) {
  CCOLL_TRY(lend(call));
  for (std::uint32_t i = 0; i < steps.of.steps.size(); ++i) CCOLL_TRY(put_step(steps, i, call));
  CCOLL_TRY(take_back(call));
  return write(call, GroupWords::begun_at(options_.rank), 0);
}

/// Tells where the call begins and ends: see GroupWords::plain_at.
Status StepCalls::put_in_plain(const LoadedSteps& steps, const Call& call) {
  const std::size_t words = GroupWords::plain_at(options_.rank);
  CCOLL_TRY(write(call, words, ++plain_calls_));
  CCOLL_TRY(put_in(steps, call));
  return write(call, words + 4, plain_calls_);
}

Status StepCalls::put_step(const LoadedSteps& steps, std::uint32_t number, const Call& call) {
  const RankSteps& of = steps.of;
  const RankStep& step = of.steps[number];
  for (std::uint32_t word = step.waits.begin; word < step.waits.end; ++word) {
    CCOLL_TRY(driver_.status(driver_.wait_value(call.stream, on_device(words_.at(of.words[word])),
                                                of.words[word].value, CU_STREAM_WAIT_VALUE_GEQ),
                             "cuStreamWaitValue32"));
  }
  const std::uint32_t begun = steps.base + number + 1;
  bool is_said = step.folds.begin == step.folds.end;
  for (std::uint32_t i = step.folds.begin; i < step.folds.end; ++i) {
    const StepFold& fold = of.folds[i];
    if (call.lends(fold.lent)) continue;
    if (fold.is_to_slot) slot_bytes_.fetch_add(fold.bytes, std::memory_order_relaxed);
    if (call.by_copies) {
      CCOLL_TRY(copy(call, fold));
      continue;
    }
    LaunchWords words;
    words.abort = shared_.word_on_device(GroupWords::abort_at());
    if (!std::exchange(is_said, true)) {
      words.begun = shared_.word_on_device(GroupWords::begun_at(options_.rank));
      words.number = begun;
    }
    CCOLL_TRY(this->fold(call, fold, words));
  }
  if (!is_said) CCOLL_TRY(write(call, GroupWords::begun_at(options_.rank), begun));
  for (std::uint32_t word = step.writes.begin; word < step.writes.end; ++word) {
    CCOLL_TRY(write(call, words_.at(of.words[word]), of.words[word].value));
  }
  return {};
}

/// Writes the number last: a reader that sees it sees the rest.
Status StepCalls::lend(const Call& call) const {
  for (std::size_t i = 0; i < call.loans.of.size(); ++i) {
    if (!call.loans.of[i]) continue;
    const std::uint64_t offset = call.loans.of[i]->offset;
    const std::size_t at = GroupWords::loans_at(options_.rank, i);
    CCOLL_TRY(write(call, at + 4, static_cast<std::uint32_t>(offset)));
    CCOLL_TRY(write(call, at + 8, static_cast<std::uint32_t>(offset >> 32)));
    CCOLL_TRY(write(call, at, call.loans.said(i)));
  }
  return {};
}

/// Follows the wait for all to have read.
Status StepCalls::take_back(const Call& call) const {
  for (std::size_t i = 0; i < call.loans.of.size(); ++i) {
    if (call.loans.of[i]) CCOLL_TRY(write(call, GroupWords::loans_at(options_.rank, i), 0));
  }
  return {};
}

Status StepCalls::write(const Call& call, std::size_t at, std::uint32_t value) const {
  return driver_.status(
      driver_.write_value(call.stream, on_device(at), value, CU_STREAM_WRITE_VALUE_DEFAULT),
      "cuStreamWriteValue32");
}

Status StepCalls::fold(const Call& call, const StepFold& fold, LaunchWords words) const {
  std::vector<const std::byte*> sources;
  std::vector<LentSource> lent;
  for (std::uint32_t i = fold.sources.begin; i < fold.sources.end; ++i) {
    const StepSource& source = call.steps.sources[i];
    sources.push_back(address(call, source.place));
    LentSource& other = lent.emplace_back();
    if (!source.lent.is_any()) continue;
    other.offset = source.lent_offset;
    other.lender = static_cast<std::uint16_t>(source.place.rank);
    other.buffer = static_cast<std::uint8_t>(number_of(source.lent.in));
    other.if_separate = source.lent.if_separate;
  }
  words.loans.said = shared_.word_on_device(GroupWords::loans_at(0, 0));
  words.loans.stride = GroupWords::loan_stride();
  words.loans.places = reinterpret_cast<const LoanPlace*>(
      shared_.word_on_device(words_.places_at(options_.rank, 0)));
  const std::uint64_t blocks = (fold.bytes + kBytesPerBlock - 1) / kBytesPerBlock;
  const LaunchShape shape{
      static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, options_.most_blocks)), 512};
  std::byte* const out = address(call, fold.out);
  // With one source, bits are copied.
  const bool copies = sources.size() == 1 && fold.divisor == 1;
  const DataType type = copies ? DataType::uint8 : call.steps.type;
  return launch_combine(type, copies ? ReduceOp::bit_or : call.steps.op, sources, out,
                        fold.bytes / size_of(type), fold.divisor, shape, call.stream, words, lent);
}

/// Copies the only source. After an abort the source may be incomplete: nobody uses the copy.
Status StepCalls::copy(const Call& call, const StepFold& fold) const {
  CCOLL_CHECK(fold.sources.end - fold.sources.begin == 1 && fold.divisor == 1);
  const std::byte* const from = address(call, call.steps.sources[fold.sources.begin].place);
  std::byte* const to = address(call, fold.out);
  if (from == to) return {};
  return cuda_status(cudaMemcpyAsync(to, from, fold.bytes, cudaMemcpyDefault, call.stream),
                     "copying between ranks' memory");
}

std::byte* StepCalls::address(const Call& call, const StepPlace& place) const {
  if (place.in == StepPlace::In::shared) return shared_.memory(place.rank) + place.offset;
  return call.buffers[number_of(place.in)] + place.offset;
}

/// The position in the program that the stream runs or, if it has begun none, in the program called
/// last.
std::string StepCalls::standing(const GroupProgram& last) const {
  const std::uint32_t begun = load_acquire(words_.word(GroupWords::begun_at(options_.rank)));
  const auto* at = static_cast<const LoadedSteps*>(&last);
  const auto programs = programs_.lock();
  for (const auto& each : *programs) {
    if (begun > each->base && begun <= each->base + each->of.steps.size()) at = each.get();
  }
  const std::uint32_t next = begun == 0 ? 0 : begun - at->base;
  return fmt::format("rank {} stands after {} of its {} steps{}", options_.rank, next,
                     at->of.steps.size(), awaited(at->of, next));
}

/// The first word that steps from `from` on still wait for.
std::string StepCalls::awaited(const RankSteps& steps, std::uint32_t from) const {
  for (std::uint32_t i = from; i < steps.steps.size(); ++i) {
    const RankStep& step = steps.steps[i];
    for (std::uint32_t at = step.waits.begin; at < step.waits.end; ++at) {
      const StepWord& word = steps.words[at];
      const std::uint32_t value = load_acquire(words_.word(words_.at(word)));
      if (value >= word.value) continue;
      return word.popped
                 ? fmt::format(", and waits for rank {} to have read slice {} (it has read {})",
                               word.to, word.value, value)
                 : fmt::format(", and waits for slice {} of rank {} (which has sent {})",
                               word.value, word.from, value);
    }
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<GroupCalls>> make_step_calls(const StreamGroupOptions& options,
                                                    const SharedGroup& shared, Exchange& exchange,
                                                    Exchange::TimePoint deadline) {
  const auto driver = find_driver();
  CCOLL_TRY(driver);
  auto made = std::make_unique<StepCalls>(options, shared, **driver);
  CCOLL_TRY(made->open(exchange, deadline));
  return made;
}

}  // namespace ccoll::device

// SPDX-License-Identifier: Apache-2.0
// Each rank does this, and after each step says whether it could (Exchange::swap):
//   makes memory, and rank 0 words
//   gives the descriptors to all, and maps what it is given
//   writes a pattern of its own
//   reads all patterns by a kernel
//   waits for and writes words in a stream
#include "gpu/group/shared_group.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/bytes.hpp"
#include "gpu/cuda/driver.hpp"
#include "gpu/cuda/trial.hpp"
#include "gpu/program/program.hpp"
#include "gpu/staging/leases.hpp"
#include "kernels/device/launch.hpp"

namespace ccoll::device {
namespace {

using Clock = std::chrono::steady_clock;

/// The version of the messages that ranks exchange at set-up.
constexpr std::uint32_t kVersion = 4;
constexpr std::size_t kMostReasonBytes = 1000;
constexpr std::string_view kNotShared = "GPU memory is not shared";

/// This rank's kernel reads each rank's memory, and must find that rank's pattern.
Status read_patterns(Trial& trial, const SharedGroup& group, std::uint32_t ranks,
                     Clock::time_point limit) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    CCOLL_TRY(launch_copy(group.memory(rank), trial.memory() + rank * kTrialBytes, kTrialBytes,
                          {1, 64}, trial.stream()));
  }
  CCOLL_TRY(trial.mark());
  CCOLL_TRY(trial.wait(limit, "reading other ranks' memory"));
  const auto wrong = trial.find_wrong(trial.memory(), 0, ranks, limit);
  CCOLL_TRY(wrong);
  if (!*wrong) return {};
  return fail(ErrorKind::unsupported, "reading the memory of rank {}'s GPU gives wrong data",
              **wrong);
}

/// This rank's stream waits for a word that the host of the rank before writes. Then it writes a
/// word that this host waits for.
Status pass_words(Trial& trial, const SharedGroup& group, const StreamGroupOptions& options,
                  Clock::time_point limit) {
  const auto found = find_driver();
  CCOLL_TRY(found);
  const Driver& cu = **found;
  const auto address = [&](std::size_t at) {
    return reinterpret_cast<CUdeviceptr>(group.word_on_device(at));
  };
  const std::size_t own = GroupWords::trial_at(options.rank);
  CCOLL_TRY(cu.status(cu.wait_value(trial.stream(), address(own), 1, CU_STREAM_WAIT_VALUE_GEQ),
                      "cuStreamWaitValue32"));
  CCOLL_TRY(
      cu.status(cu.write_value(trial.stream(), address(own + 4), 1, CU_STREAM_WRITE_VALUE_DEFAULT),
                "cuStreamWriteValue32"));
  CCOLL_TRY(trial.mark());
  // Rank r - 1 serves rank r's words.
  const std::uint32_t served = (options.rank + 1) % options.size;
  const std::size_t theirs = GroupWords::trial_at(served);
  const GroupWords words = group.words();
  store_release(words.word(theirs), 1);
  for (;;) {
    const auto ended = trial.has_ended();
    CCOLL_TRY(ended);
    const bool seen = load_acquire(words.word(theirs + 4)) == 1;
    if (*ended && seen) return {};
    if (Clock::now() >= limit) {
      return *ended ? fail(ErrorKind::timed_out, "a word that rank {}'s stream writes is not seen",
                           served)
                    : fail(ErrorKind::timed_out, "a stream does not see a word that rank {} writes",
                           (options.rank + options.size - 1) % options.size);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace

Exchange::TimePoint trial_limit(const StreamGroupOptions& options, Exchange::TimePoint deadline) {
  const auto now = Clock::now();
  return now + std::min<Clock::duration>(options.trial, (deadline - now) / 2);
}

Status agree(Exchange& exchange, const Status& own, std::string_view what,
             Exchange::TimePoint deadline) {
  net::Writer writer;
  writer.number(std::uint32_t{own ? 0U : 1U + static_cast<std::uint32_t>(own.error().kind)});
  writer.text(own ? std::string() : own.error().message.substr(0, kMostReasonBytes));
  auto said = exchange.swap(writer.bytes(), {}, deadline);
  if (!said) return tl::unexpected(std::move(said.error()));
  for (std::uint32_t rank = 0; rank < said->size(); ++rank) {
    net::Reader reader((*said)[rank].bytes);
    const auto kind = reader.number<std::uint32_t>();
    const auto text = reader.text();
    if (!reader.complete()) {
      return fail(ErrorKind::corrupt, "the set-up message of rank {} is invalid", rank);
    }
    if (kind != 0) {
      return fail(static_cast<ErrorKind>(kind - 1), "{}: rank {}: {}", what, rank, text);
    }
  }
  return {};
}

Result<std::unique_ptr<SharedGroup>> SharedGroup::make(const StreamGroupOptions& options,
                                                       Exchange& exchange, TimePoint deadline) {
  const CurrentDevice current(options.device);
  const BesideCaptures beside;
  std::unique_ptr<SharedGroup> made(new SharedGroup(options));
  // A rank that fails goes on as far as the others wait for it.
  Status own = made->check_options();
  if (own) own = current.status();
  if (own) own = made->make_own();
  CCOLL_TRY(agree(exchange, own, kNotShared, deadline));
  std::vector<int> files{made->memories_[options.rank]->file().number()};
  if (made->made_) files.push_back(made->made_->file().number());
  auto parcels = exchange.swap(made->introduction(), files, deadline);
  if (!parcels) return tl::unexpected(std::move(parcels.error()));
  own = made->map_all(std::move(*parcels));
  CCOLL_TRY(agree(exchange, own, kNotShared, deadline));
  CCOLL_TRY(made->try_out(exchange, deadline));
  return made;
}

Status SharedGroup::check_options() const {
  if (options_.size != 0 && options_.size <= kMostTeamRanks && options_.rank < options_.size &&
      options_.links != 0 && (options_.most_blocks != 0 || options_.by_kernels)) {
    return {};
  }
  return fail(ErrorKind::invalid_argument,
              "rank {} of {} with {} links and {} blocks: expected 1 to {} ranks, and at least one "
              "link and one block",
              options_.rank, options_.size, options_.links, options_.most_blocks, kMostTeamRanks);
}

Status SharedGroup::make_own() {
  memories_.resize(options_.size);
  // Kernels that load later might wait for all streams of the process, and so for other ranks.
  CCOLL_TRY(load_kernels());
  const std::uint64_t bytes = std::max<std::uint64_t>(options_.shared_bytes, kTrialBytes);
  CCOLL_TRY(put(SharedMemory::make(options_.device, bytes), memories_[options_.rank]));
  if (options_.rank != 0) return {};
  return put(Segment::make("ccoll gpu words", GroupWords::bytes(options_.size, options_.links)),
             made_);
}

std::string SharedGroup::introduction() const {
  const SharedMemory& memory = *memories_[options_.rank];
  return net::Writer()
      .number(kVersion)
      .number(options_.size)
      .number(options_.links)
      .number(options_.shared_bytes)
      .number(std::uint32_t{options_.by_copies})
      .number(memory.size())
      .number(memory.id())
      .take();
}

/// Maps what each rank has given.
Status SharedGroup::map_all(std::vector<Parcel> parcels) {
  for (std::uint32_t rank = 0; rank < options_.size; ++rank) {
    const Parcel& parcel = parcels[rank];
    net::Reader reader(parcel.bytes);
    const auto version = reader.number<std::uint32_t>(), size = reader.number<std::uint32_t>(),
               links = reader.number<std::uint32_t>();
    const auto shared = reader.number<std::uint64_t>();
    const bool by_copies = reader.number<std::uint32_t>() != 0;
    const auto bytes = reader.number<std::uint64_t>(), id = reader.number<std::uint64_t>();
    if (!reader.complete() || version != kVersion || size != options_.size ||
        links != options_.links || shared != options_.shared_bytes ||
        by_copies != options_.by_copies) {
      return fail(ErrorKind::mismatch,
                  "rank {} has version {}, {} ranks, {} links, {} bytes and copies {}: expected "
                  "{}, {}, {}, {} and {}",
                  rank, version, size, links, shared, by_copies, kVersion, options_.size,
                  options_.links, options_.shared_bytes, options_.by_copies);
    }
    if (rank == options_.rank) continue;
    if (parcel.files.size() != (rank == 0 ? 2U : 1U)) {
      return fail(ErrorKind::corrupt, "rank {} gave {} descriptors", rank, parcel.files.size());
    }
    if (rank == 0) {
      CCOLL_TRY(put(Segment::map(parcel.files[1], GroupWords::bytes(options_.size, options_.links)),
                    made_));
    }
    // Memory of the same process and GPU has the same address here.
    memories_[rank] = SharedMemory::find(id, options_.device);
    if (memories_[rank]) continue;
    auto mapped = SharedMemory::import(options_.device, parcel.files[0], bytes);
    if (!mapped) {
      mapped.error().message =
          fmt::format("mapping rank {}'s GPU memory: {}", rank, mapped.error().message);
    }
    CCOLL_TRY(put(std::move(mapped), memories_[rank]));
  }
  CCOLL_TRY(put(MappedSegment::map(made_), segment_));
  made_.reset();
  return {};
}

void SharedGroup::abandon() const {
  for (const auto& memory : memories_) keep_for_ever(memory);
  keep_for_ever(segment_);
}

/// Tries patterns before words, and each only once all ranks have had the one before. Otherwise a
/// rank that waits in vain could be taken for the cause.
Status SharedGroup::try_out(Exchange& exchange, TimePoint deadline) {
  std::shared_ptr<Trial> trial;
  const auto limit = [&] { return trial_limit(options_, deadline); };
  const auto heard = [&](Status works) {
    if (!works && works.error().kind == ErrorKind::timed_out) {
      // If data does not come in time, memory is not shared, whatever the reason.
      works.error().kind = ErrorKind::unsupported;
      keep_for_ever(std::move(trial));
      abandon();
    }
    return works;
  };
  Status works = Trial::make(options_.size).map([&](auto made) { trial = std::move(made); });
  if (works) works = trial->write(options_.rank, memory(options_.rank), limit());
  CCOLL_TRY(agree(exchange, heard(std::move(works)), kNotShared, deadline));
  works = heard(read_patterns(*trial, *this, options_.size, limit()));
  CCOLL_TRY(agree(exchange, works, kNotShared, deadline));
  works = heard(pass_words(*trial, *this, options_, limit()));
  // Freeing memory waits for all streams of the process: no rank may have called anything yet.
  trial.reset();
  return agree(exchange, works, kNotShared, deadline);
}

}  // namespace ccoll::device

// SPDX-License-Identifier: Apache-2.0
#include "gpu/team/team.hpp"

#include <algorithm>
#include <utility>

#include "gpu/team/team_device.hpp"

namespace ccoll::device {

Result<std::unique_ptr<Team>> Team::make(const TeamOptions& options) {
  if (options.ranks == 0 || options.ranks > kMostTeamRanks || options.most_threads < 32 ||
      options.most_threads > kMostTeamThreads || options.most_threads % 32 != 0) {
    return fail(ErrorKind::invalid_argument,
                "a team of {} ranks with {} threads per block: expected 1 to {} ranks, and a "
                "multiple of 32 threads up to {}",
                options.ranks, options.most_threads, kMostTeamRanks, kMostTeamThreads);
  }
  if (!options.devices.empty() && options.devices.size() != options.ranks) {
    return fail(
        ErrorKind::invalid_argument,
        "the GPUs of {} of a team's {} ranks are given: expected those of all ranks, or none",
        options.devices.size(), options.ranks);
  }
  auto device = std::make_unique<Device>(options);
  CCOLL_TRY(device->open());
  return std::unique_ptr<Team>(new Team(std::move(device), options.ranks));
}

Team::Team(std::unique_ptr<Device> device, std::uint32_t ranks)
    : ranks_(ranks),
      device_(std::move(device)),
      meeting_(std::make_unique<TeamMeeting>(ranks, *device_)) {}

Team::~Team() = default;

Status Team::arrive(const TeamCall& call) {
  (void)ended();
  return meeting_->arrive(call);
}

std::optional<Failure> Team::ended() const {
  if (device_->was_busy()) {
    meeting_->abort({ErrorKind::aborted,
                     "a call of a team found another one under way on the device: a graph must not "
                     "run beside another call of the same team",
                     std::nullopt});
  }
  return meeting_->ended();
}

std::string Team::standing() const { return device_->standing(); }

Result<const LoadedProgram*> Team::load(const LoweredTeam& lowered) {
  return device_->load(lowered);
}

Result<const LoadedProgram*> Team::load(const LoweredTeam& separate, const LoweredTeam& in_place,
                                        const LoweredTeam* lending_nothing) {
  auto loaded = device_->load(separate);
  if (!loaded) return tl::unexpected(std::move(loaded.error()));
  LoadedProgram* beside = nullptr;
  if (separate.program.by_words != in_place.program.by_words ||
      std::ranges::count(separate.steps, true, &TeamStep::lends) !=
          std::ranges::count(in_place.steps, true, &TeamStep::lends)) {
    CCOLL_TRY(put(device_->load(in_place), beside));
    (*loaded)->in_place = beside;
  }
  if (lending_nothing != nullptr) {
    LoadedProgram* shut = nullptr;
    CCOLL_TRY(put(device_->load(*lending_nothing), shut));
    if (separate.reads_across()) (*loaded)->lending_nothing = shut;
    if (beside != nullptr && in_place.reads_across()) beside->lending_nothing = shut;
  }
  return *loaded;
}

const std::vector<std::uint32_t>& Team::device_numbers() const { return device_->numbers(); }

std::uint64_t Team::held_bytes(std::uint32_t rank) const { return device_->held_bytes(rank); }

bool Team::has_ended() const {
  const auto ended = device_->ended_by(std::chrono::steady_clock::now());
  return ended && *ended && device_->is_even();
}

void Team::rest() {
  if (has_ended()) device_->give_room_back();
}

bool Team::renew() {
  if (!has_ended() || !device_->take_room()) return false;
  device_->forget_abort();
  meeting_ = std::make_unique<TeamMeeting>(ranks_, *device_);
  return true;
}

Status Team::wait(TimePoint deadline) {
  auto ended = device_->ended_by(deadline);
  if (!ended) {
    meeting_->abort(ended.error());
    return tl::unexpected(std::move(ended.error()));
  }
  if (*ended) return check(device_->launched());
  Failure late{ErrorKind::timed_out, "a team's calls have not ended in time", std::nullopt};
  if (const auto standing = device_->standing(); !standing.empty()) late.message += ": " + standing;
  meeting_->abort(late);
  ended = device_->ended_by(std::chrono::steady_clock::now() + kGrace);
  if (!ended || !*ended) {
    late.message += fmt::format(
        "; its kernels have not ended {} s after they were told to: buffers may still be written",
        kGrace.count());
  }
  return tl::unexpected(std::move(late));
}

Status Team::check(const LoadedProgram* program) const {
  const Status finished = device_->finished(program);
  (void)ended();
  if (finished) return {};
  if (auto cause = meeting_->broken()) return tl::unexpected(std::move(*cause));
  return finished;
}

}  // namespace ccoll::device

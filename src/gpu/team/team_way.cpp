// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator as a team: they find each other in this process, share one Team, and
// each uses its part of it as its way.
#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/device_way.hpp"
#include "gpu/team/device_stream_op.hpp"
#include "gpu/team/team.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll::device {
namespace {

struct TeamDeviceProgram final : DeviceProgram {
  explicit TeamDeviceProgram(const LoadedProgram* loaded) : program(loaded) {}
  const LoadedProgram* const program;
};

/// The state that the ranks share, and later those of another communicator.
class SharedTeam {
 public:
  static Result<std::unique_ptr<SharedTeam>> make(const TeamOptions& options) {
    std::unique_ptr<SharedTeam> made(new SharedTeam(options));
    CCOLL_TRY(put(Team::make(options), made->team_));
    return made;
  }
  SharedTeam(const SharedTeam&) = delete;
  SharedTeam& operator=(const SharedTeam&) = delete;
  ~SharedTeam() = default;

  Team& team() const { return *team_; }
  const TeamOptions& options() const { return options_; }
  /// Ends all calls under way with `why`, which is their outcome.
  void abort(const Failure& why) {
    cause_.with([&](auto& cause) {
      if (!cause) cause = why;
    });
    team_->abort(why);
  }
  /// Why calls under way are incomplete; empty if they are not. A team that breaks by itself ends
  /// its kernels before its communicator hears of it.
  std::optional<Failure> cause() const {
    const auto cause = cause_.lock();
    return *cause ? *cause : team_->ended();
  }
  bool is_aborted() const { return cause_.lock()->has_value(); }
  /// Prepares it for another communicator's ranks. False if work of the last one may still run, or
  /// its programs have no room.
  bool renew() {
    const auto cause = cause_.lock();
    const auto programs = programs_.lock();
    cause->reset();
    // There may be room for refused programs by this time.
    std::erase_if(*programs, [](const Loaded& loaded) { return !loaded.program; });
    return team_->renew();
  }
  /// Loads each program once: ranks ask for the same ones, and a refusal holds for all ranks.
  Result<std::shared_ptr<const DeviceProgram>> load(const ProgramRequest& request);

 private:
  struct Loaded {
    Problem problem;
    Choice choice;
    DataType type;
    ReduceOp op;
    Result<std::shared_ptr<const DeviceProgram>> program;
    bool is(const ProgramRequest& request) const {
      return choice == request.choice && type == request.type && op == request.op &&
             problem == request.problem;
    }
  };

  explicit SharedTeam(const TeamOptions& options) : options_(options) {}
  Result<std::shared_ptr<const DeviceProgram>> load_new(const ProgramRequest& request);

  const TeamOptions options_;
  std::unique_ptr<Team> team_;  // immutable after make()
  Guarded<std::optional<Failure>> cause_;  ///< why all has ended
  Guarded<std::vector<Loaded>> programs_;  ///< locked while one is loaded
};

Result<std::shared_ptr<const DeviceProgram>> SharedTeam::load(const ProgramRequest& request) {
  const auto programs = programs_.lock();
  const auto known =
      std::ranges::find_if(*programs, [&](const Loaded& loaded) { return loaded.is(request); });
  if (known != programs->end()) return known->program;
  auto loaded = load_new(request);
  // A temporary failure is not remembered.
  if (loaded || loaded.error().kind == ErrorKind::unsupported)
    programs->push_back({request.problem, request.choice, request.type, request.op, loaded});
  return loaded;
}

Result<std::shared_ptr<const DeviceProgram>> SharedTeam::load_new(const ProgramRequest& request) {
  auto lowering = lowering_of(request);
  lowering.devices = team_->device_numbers();
  const auto separate = lower(lowering);
  if (!separate) return tl::unexpected(separate.error());
  lowering.in_place.assign(request.problem.size, true);
  const auto in_place = lower(lowering);
  if (!in_place) return tl::unexpected(in_place.error());
  LoweredTeam lending_nothing;
  const bool needs_it = separate->reads_across() || in_place->reads_across();
  // A program that is right in place is right for separate buffers, too.
  lowering.lends = false;
  if (needs_it) CCOLL_TRY(put(lower(lowering), lending_nothing));
  const auto loaded = team_->load(*separate, *in_place, needs_it ? &lending_nothing : nullptr);
  if (!loaded) return tl::unexpected(loaded.error());
  return std::make_shared<const TeamDeviceProgram>(*loaded);
}

/// Teams that no communicator uses serve the next one, because CUDA may wait for any stream of the
/// process when memory is freed.
class TeamPool {
 public:
  TeamPool() {
    when_no_calls_are_left([this] { free_all(); });
  }

  Result<std::shared_ptr<SharedTeam>> take(const TeamOptions& options) {
    auto team = idle(options);
    if (!team) CCOLL_TRY(put(SharedTeam::make(options), team));
    return std::shared_ptr<SharedTeam>(
        team.release(), [this](SharedTeam* left) { idle_.lock()->emplace_back(left); });
  }

  /// Makes idle teams leave their blocks to others.
  void rest() {
    const std::lock_guard asking(asking_);
    Teams teams = all_idle();
    for (const auto& team : teams) team->team().rest();
    put_back(teams);
  }

 private:
  using Teams = std::list<std::unique_ptr<SharedTeam>>;

  Teams all_idle() { return std::exchange(*idle_.lock(), {}); }
  void put_back(Teams& teams) {
    const auto idle = idle_.lock();
    idle->splice(idle->begin(), teams);
  }
  std::unique_ptr<SharedTeam> idle(const TeamOptions& options) {
    const std::lock_guard asking(asking_);
    Teams teams = all_idle();
    const auto fits = [&](const std::unique_ptr<SharedTeam>& team) {
      const TeamOptions& its = team->options();
      return its.ranks == options.ranks && its.device == options.device &&
             its.devices == options.devices && its.workspace_bytes == options.workspace_bytes &&
             its.most_blocks == options.most_blocks && its.copies == options.copies &&
             team->renew();
    };
    std::unique_ptr<SharedTeam> team;
    if (const auto found = std::ranges::find_if(teams, fits); found != teams.end()) {
      team = std::move(*found);
      teams.erase(found);
    }
    put_back(teams);
    return team;
  }
  void free_all() { (void)all_idle(); }

  /// Orders the threads that ask CUDA about idle teams, which idle_ lacks meanwhile.
  ProcessMutex asking_;
  /// CUDA is not called under its lock, because CUDA's own threads take it.
  Guarded<Teams, ProcessMutex> idle_;
};

/// Where the ranks of a communicator find their team: the first to come makes it.
class TeamMeetingPlace {
 public:
  /// The place of one communicator; its team is set once.
  using Place = Guarded<std::optional<Result<std::shared_ptr<SharedTeam>>>>;

  static std::shared_ptr<Place> of(std::uint64_t communicator) {
    const auto places = Runtime::one<Guarded<Places, ProcessMutex>>().lock();
    auto& all = places->by_communicator;
    std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
    auto place = all[communicator].lock();
    if (!place) all[communicator] = place = std::make_shared<Place>();
    return place;
  }

 private:
  struct Places {
    std::map<std::uint64_t, std::weak_ptr<Place>> by_communicator;
  };
};

class TeamWay;

class TeamStreamOp final : public DeviceStreamOp {
 public:
  TeamStreamOp(std::shared_ptr<const TeamWay> way, std::shared_ptr<Leases> leases,
               const StreamOpRequest& request)
      : DeviceStreamOp(std::move(leases), request),
        way_(std::move(way)),
        program_(request.program),
        in_place_(request.in_place) {}

  Status enqueue(std::shared_ptr<StreamListener> listener) override;
  Result<Entry> enter(TimePoint until) override;
  Status outcome() const override;
  std::string standing() const override;

 private:
  const std::shared_ptr<const TeamWay> way_;
  const std::shared_ptr<const DeviceProgram> program_;
  const bool in_place_;
};

class TeamWay final : public DeviceWay, public std::enable_shared_from_this<TeamWay> {
 public:
  TeamWay(const TeamWayOptions& options, std::shared_ptr<TeamMeetingPlace::Place> place,
          std::shared_ptr<SharedTeam> team)
      : rank_(options.rank),
        leases_(options.staging->leases()),
        place_(std::move(place)),
        team_(std::move(team)) {}

  std::string_view name() const override { return "team"; }
  Result<std::shared_ptr<const DeviceProgram>> load(const ProgramRequest& request) override {
    rest_idle_teams();
    return team_->load(request);
  }
  Result<std::shared_ptr<StreamOp>> stream_op(const StreamOpRequest& request) override {
    const auto stream_op = std::make_shared<TeamStreamOp>(shared_from_this(), leases_, request);
    CCOLL_TRY(stream_op->take_lease(request));
    return stream_op;
  }
  bool is_entered_together() const override { return true; }
  void abort(const Failure& why) override { team_->abort(why); }
  bool is_aborted() const override { return team_->is_aborted(); }
  std::optional<Failure> cause() const override { return team_->cause(); }
  /// One graph has the parts of all ranks.
  bool has_graph_under_way() const override { return false; }
  std::uint64_t held_bytes() const override { return team().held_bytes(rank_); }

  std::uint32_t rank() const { return rank_; }
  Team& team() const { return team_->team(); }

 private:
  const std::uint32_t rank_;
  const std::shared_ptr<Leases> leases_;
  const std::shared_ptr<TeamMeetingPlace::Place> place_;
  const std::shared_ptr<SharedTeam> team_;  // last, so that it is destroyed while the leases exist
};

Status TeamStreamOp::enqueue(std::shared_ptr<StreamListener> listener) {
  const CurrentDevice current(device());
  CCOLL_TRY(current.status());
  if (is_captured()) {
    CCOLL_TRY(give_to_graph(
        stream(), std::make_unique<StreamHold>(shared_from_this(), marks(), std::move(listener))));
  }
  if (auto put = put_before(); !put) {
    put_off();
    return put;
  }
  TeamCall call;
  call.rank = way_->rank();
  call.program = static_cast<const TeamDeviceProgram&>(*program_).program;
  call.input = input() != nullptr ? input() : leases().barrier_bytes();
  call.output = output() != nullptr ? output() : leases().barrier_bytes() + kBarrierBytes / 2;
  call.in_place = in_place_;
  call.stream = stream();
  const auto arrived = way_->team().arrive(call);
  // enter() reports failures that break the team.
  if (arrived || arrived.error().kind != ErrorKind::invalid_argument) return {};
  put_off();
  return arrived;
}

Result<Entry> TeamStreamOp::enter(TimePoint until) {
  auto entry = way_->team().enter(way_->rank(), until);
  if (!entry || *entry == Entry::apart) put_off();
  if (!entry || *entry != Entry::entered) return entry;
  const CurrentDevice current(device());
  auto behind = current.status();
  if (behind) behind = put_behind();
  if (behind) return entry;
  // The stream's part of the call may still use the buffers.
  keep_for_ever(shared_from_this());
  return tl::unexpected(std::move(behind.error()));
}

Status TeamStreamOp::outcome() const {
  auto why = way_->cause();
  return why ? tl::unexpected(std::move(*why)) : Status();
}

std::string TeamStreamOp::standing() const { return way_->team().standing(); }

}  // namespace

void rest_idle_teams() { Runtime::one<TeamPool>().rest(); }

Result<std::shared_ptr<DeviceWay>> join_team(const TeamWayOptions& options) {
  TeamOptions team;
  team.ranks = options.size;
  const int own = options.staging->device();
  team.device = options.devices.empty() ? own : options.devices.front();
  team.devices = options.devices;
  team.workspace_bytes = options.workspace_bytes;
  team.most_blocks = options.most_blocks;
  team.copies = options.copies;
  auto place = TeamMeetingPlace::of(options.communicator);
  const auto found = place->lock();
  if (!*found) *found = Runtime::one<TeamPool>().take(team);
  auto& made = **found;
  if (!made) return tl::unexpected(made.error());
  const TeamOptions& its = (*made)->options();
  const int known_as = its.devices.empty() ? its.device : its.devices[options.rank];
  if (known_as != own) {
    return fail(ErrorKind::unsupported, "rank {} of a team is on GPU {}, not on GPU {}",
                options.rank, own, known_as);
  }
  return std::make_shared<TeamWay>(options, place, *made);
}

}  // namespace ccoll::device

// SPDX-License-Identifier: Apache-2.0
// One pool of processes on one GPU. Two of them measure a hand-over between processes, then groups
// of two, three and all make calls by stream steps. If there are enough GPUs, they also use one
// each, with the team kernel.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "core/bytes.hpp"
#include "gpu/cuda/driver.hpp"
#include "gpu/group/group_bench.hpp"
#include "gpu/program/rank_steps.hpp"
#include "gpu_check/children.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/disturbance.hpp"
#include "gpu_check/private_mps.hpp"
#include "gpu_check/watchdog.hpp"
#include "kernels/device/launch.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;
using device::cuda_status;
using test::GroupBench;
using test::TeamCase;
using test::TeamMemory;

constexpr Rank kProcesses = 8;
/// Runs in groups of two and of this many.
constexpr Rank kDisturbed = 3;
/// How long ranks outside of a group wait for it to end.
constexpr std::chrono::seconds kProcessPatience{90};
/// For a rank's call, and for everything between two of its reports.
const std::chrono::seconds kCallPatience{testing::by_effort(90, 15, 90)};
const std::chrono::seconds kStandsFor{testing::by_effort(120, 25, 120)};
constexpr int kHandOvers = 200;

/// A process's part, from its command line.
struct ProcessPart {
  Rank rank = 0;
  bool mps = false;
  bool disturbed = false;  ///< a few calls, with other work on the GPU
  std::uint64_t seed = 0;
  std::vector<int> sockets;  ///< to each rank; the own is -1
  std::string out;

  std::string text() const {
    std::string all = fmt::format("{},{},{},{}", rank, mps ? 1 : 0, disturbed ? 1 : 0, seed);
    for (const int socket : sockets) all += fmt::format(",{}", socket);
    return all + "," + out;
  }
  static ProcessPart from(const std::string& text) {
    std::size_t at = 0;
    const auto next = [&] {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      const std::string_view field = std::string_view(text).substr(at, comma - at);
      std::int64_t value = 0;
      std::from_chars(field.data(), field.data() + field.size(), value);
      at = std::min(comma + 1, text.size());
      return value;
    };
    ProcessPart part;
    part.rank = static_cast<Rank>(next());
    part.mps = next() != 0;
    part.disturbed = next() != 0;
    // Seeds have at most 32 bits here.
    part.seed = static_cast<std::uint64_t>(next());
    for (Rank rank = 0; rank < kProcesses; rank++) part.sockets.push_back(static_cast<int>(next()));
    part.out = text.substr(at);
    return part;
  }
};

Clock::time_point soon() { return Clock::now() + kProcessPatience; }

/// Connects the first `size` processes.
device::SocketExchange exchange_of(const ProcessPart& part, Rank size) {
  std::vector<FileDescriptor> sockets(size);
  for (Rank peer = 0; peer < size; peer++) {
    if (peer != part.rank)
      sockets[peer] = FileDescriptor(fcntl(part.sockets[peer], F_DUPFD_CLOEXEC, 0));
  }
  return {part.rank, std::move(sockets)};
}

/// Two processes that wait for each other's words, with a small kernel in between: the time of one
/// hand-over.
Result<double> time_hand_over(const ProcessPart& part) {
  constexpr std::size_t kBytes = 4096;
  auto exchange = exchange_of(part, 2);
  std::shared_ptr<Segment> segment;
  std::vector<int> files;
  if (part.rank == 0) {
    CCOLL_TRY(device::put(Segment::make("gpu-check words", kBytes), segment));
    files.push_back(segment->file().number());
  }
  auto parcels = exchange.swap("", files, soon());
  if (!parcels) return tl::unexpected(std::move(parcels.error()));
  if (part.rank == 1)
    CCOLL_TRY(device::put(Segment::map((*parcels)[0].files.at(0), kBytes), segment));
  std::shared_ptr<device::MappedSegment> words;
  device::OwnStream stream;
  device::DeviceMemory memory;
  CCOLL_TRY(device::put(device::MappedSegment::map(segment), words));
  CCOLL_TRY(device::put(device::make_stream(), stream));
  CCOLL_TRY(device::put(device::allocate_on_device(256), memory));
  CCOLL_TRY(device::load_kernels());
  const auto driver = device::find_driver();
  CCOLL_TRY(driver);
  const device::Driver& cu = **driver;
  const auto word = [&](Rank rank) {
    return reinterpret_cast<CUdeviceptr>(words->on_device() + 128 * rank);
  };
  // The host stores rank 0's word to begin.
  for (cuuint32_t i = 1; i <= kHandOvers; i++) {
    CCOLL_TRY(cu.status(cu.wait_value(stream.get(), word(part.rank), i, CU_STREAM_WAIT_VALUE_GEQ),
                        "cuStreamWaitValue32"));
    CCOLL_TRY(device::launch_copy(memory.get(), memory.get() + 128, 16, {1, 32}, stream.get()));
    CCOLL_TRY(cu.status(cu.write_value(stream.get(), word(1 - part.rank),
                                       part.rank == 0 ? i : i + 1, CU_STREAM_WRITE_VALUE_DEFAULT),
                        "cuStreamWriteValue32"));
  }
  // By now both queues hold all the work.
  if (auto ready = exchange.swap("", {}, soon()); !ready) return tl::unexpected(ready.error());
  const auto begin = Clock::now();
  if (part.rank == 0) device::store_release(reinterpret_cast<std::uint32_t*>(segment->data()), 1U);
  CCOLL_TRY(cuda_status(cudaStreamSynchronize(stream.get()), "handing over"));
  const std::chrono::duration<double> took = Clock::now() - begin;
  if (auto over = exchange.swap("", {}, soon()); !over) return tl::unexpected(over.error());
  return took.count() / (2 * kHandOvers);
}

/// A call of one window, so that its steps are the schedule's.
TeamCase timed_case(Rank size, std::uint64_t bytes) {
  return test::case_of(Kind::all_reduce, Algorithm::ring, size, bytes / 4, bytes / 4);
}

/// The median of several calls, and the steps of all ranks in one call.
struct Timed {
  double seconds = 0;
  std::size_t steps = 0;
};

Result<Timed> time_call(GroupBench& bench, device::Exchange& exchange, const TeamCase& made) {
  const auto program = test::lowered_for_streams(made);
  const auto loaded = bench.load(made);
  CCOLL_TRY(loaded);
  Timed timed;
  for (Rank rank = 0; rank < made.problem.size; rank++) {
    timed.steps += value_or_throw(device::steps_of(program, rank)).steps.size() - 1;
  }
  std::mt19937_64 random(1);
  TeamMemory memory(made, random);
  GroupBench::Trip trip(bench, 0, memory);
  std::vector<double> seconds;
  for (int i = 0; i < testing::by_effort(1, 21, 21); i++) {
    CCOLL_TRY(trip.go(bench.stream()));
    CCOLL_TRY(cuda_status(cudaStreamSynchronize(bench.stream()), "copying inputs"));
    if (auto ready = exchange.swap("", {}, soon()); !ready) return tl::unexpected(ready.error());
    const auto begin = Clock::now();
    CCOLL_TRY(bench.group().call(*loaded, trip.input(), trip.output(), bench.stream()));
    CCOLL_TRY(bench.group().wait(soon()));
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<long>(seconds.size() / 2));
  timed.seconds = seconds[seconds.size() / 2];
  return timed;
}

/// The work of one of the processes.
class Process {
 public:
  explicit Process(ProcessPart part)
      : part_(std::move(part)),
        records_(part_.out + "/results.jsonl"),
        context_{part_.disturbed ? "adversary" : "processes", records_, part_.seed},
        findings_(context_),
        watchdog_(context_, kStandsFor) {}

  int run() {
    if (part_.disturbed) return run_disturbed();
    double hand_over = 0;
    if (part_.rank < 2) {
      at("handing over");
      findings_.tried();
      const auto timed = time_hand_over(part_);
      if (!timed) {
        findings_.wrong("handing over: " + timed.error().message);
        return close();
      }
      hand_over = *timed;
    }
    int left = 3;
    for (const Rank size : {Rank{2}, Rank{3}, kProcesses}) {
      Until::here().begin_part(left--);
      if (part_.rank >= size) continue;
      if (const Status ran = run_group(size, hand_over); !ran) {
        findings_.wrong(fmt::format("rank {} of {}: {}", part_.rank, size, ran.error().message));
        return close();
      }
    }
    return run_on_gpus();
  }

 private:
  int run_on_gpus() {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess)
      findings_.wrong("CUDA does not say how many GPUs there are");
    for (const Rank size : {Rank{2}, Rank{3}, kProcesses}) {
      if (static_cast<int>(size) > gpus || part_.rank >= size) continue;
      if (const Status ran = run_kernels(size); !ran) {
        findings_.wrong(
            fmt::format("rank {} of {} GPUs: {}", part_.rank, size, ran.error().message));
        break;
      }
    }
    if (part_.rank == 0 && gpus == 1)
      std::printf("there is one GPU: processes with a GPU each were not checked\n");
    return close();
  }

  int run_disturbed() {
    if (part_.rank >= kDisturbed) return kPassed;
    // Groups allocate and free memory while others work, too.
    Disturbance disturbance;
    for (const Rank size : {Rank{2}, kDisturbed}) {
      if (part_.rank >= size) continue;
      if (const Status ran = run_group(size, std::nullopt); !ran) {
        findings_.wrong(fmt::format("rank {} of {}: {}", part_.rank, size, ran.error().message));
        break;
      }
    }
    for (const std::string& each : disturbance.end()) findings_.wrong(each);
    return close();
  }

  int close() const {
    if (part_.rank == 0) return findings_.close(part_.mps ? "calls by MPS" : "calls");
    return findings_.close(fmt::format("calls of rank {}", part_.rank));
  }

  /// If `hand_over` is given, calls are timed and compared with it.
  Status run_group(Rank size, std::optional<double> hand_over) {
    const Check check(findings_,
                      fmt::format("rank {} of {}{}", part_.rank, size, part_.mps ? " by MPS" : ""));
    auto exchange = exchange_of(part_, size);
    CCOLL_TRY(meet(exchange));
    at(fmt::format("making a group of {}", size));
    device::StreamGroupOptions options;
    options.rank = part_.rank;
    options.size = size;
    auto made = GroupBench::make(options, exchange, soon());
    if (!made) return tl::unexpected(std::move(made.error()));
    GroupBench& bench = **made;
    CCOLL_TRY(run_list(bench, exchange, size));
    for (const testing::MemoryKind kind : testing::kLentKinds)
      CCOLL_TRY(tell_lent(bench, size, kind));
    // All are done with their calls.
    if (auto over = exchange.swap("", {}, soon()); !over) return tl::unexpected(over.error());
    if (!hand_over) return {};
    for (const std::uint64_t bytes : {8, 64 << 10}) {
      const auto timed = time_call(bench, exchange, timed_case(size, bytes));
      CCOLL_TRY(timed);
      if (part_.rank == 0) record(size, bytes, *timed, *hand_over);
    }
    if (auto over = exchange.swap("", {}, soon()); !over) return tl::unexpected(over.error());
    return {};
  }

  /// Uses the team kernel, with a GPU for each rank.
  Status run_kernels(Rank size) {
    auto exchange = exchange_of(part_, size);
    device::StreamGroupOptions options;
    options.rank = part_.rank;
    options.size = size;
    options.device = static_cast<int>(part_.rank);
    options.by_kernels = true;
    options.most_blocks = 0;
    const Check check(findings_, fmt::format("rank {} of {} GPUs", part_.rank, size));
    CCOLL_TRY(meet(exchange));
    at(fmt::format("making a group of {} GPUs", size));
    CCOLL_TRY(cuda_status(cudaSetDevice(options.device), "using a GPU"));
    auto made = GroupBench::make(options, exchange, soon());
    if (!made) return tl::unexpected(std::move(made.error()));
    CCOLL_TRY(run_list(**made, exchange, size));
    for (const testing::MemoryKind kind : testing::kLentKinds)
      CCOLL_TRY(tell_lent(**made, size, kind));
    if (auto over = exchange.swap("", {}, soon()); !over) return tl::unexpected(over.error());
    for (const std::uint64_t bytes : {8, 64 << 10}) {
      const auto timed = time_call(**made, exchange, timed_case(size, bytes));
      CCOLL_TRY(timed);
      if (part_.rank != 0) continue;
      records_.add({{"phase", context_.name},
                    {"what", "all_reduce by ring, by kernels"},
                    {"ranks", size},
                    {"bytes", bytes},
                    {"seconds", timed->seconds}});
    }
    if (auto over = exchange.swap("", {}, soon()); !over) return tl::unexpected(over.error());
    return {};
  }

  /// All ranks run the same cases.
  Status run_list(GroupBench& bench, device::Exchange& exchange, Rank size) {
    std::mt19937_64 random(part_.seed + size);
    const auto cases = test::pairwise_cover(size, random);
    test::GroupTrials trials(bench, random, kCallPatience);
    const std::size_t stride = part_.mps         ? 8
                               : part_.disturbed ? testing::by_effort(60, 8, 4)
                                                 : testing::by_effort(30, 1, 1);
    for (std::size_t i = 0; i < cases.size(); i += stride) {
      const auto goes = goes_on(exchange);
      CCOLL_TRY(goes);
      if (!*goes) {
        findings_.leave_out(
            fmt::format("{} of {} calls of {}", cases.size() - i, cases.size(), size));
        return {};
      }
      at(fmt::format("call {} of {} ranks: {}", i, size, cases[i].text()));
      findings_.tried();
      const Status ran = trials.run(cases[i]);
      if (ran) continue;
      // If bits differ or a capture fails, everything else may still work; any other failure has
      // broken the group.
      if (ran.error().kind != ErrorKind::corrupt && ran.error().kind != ErrorKind::unsupported) {
        return fail(ran.error().kind, "{}: {}", cases[i].text(), ran.error().message);
      }
      findings_.wrong(fmt::format("{}: {}", cases[i].text(), ran.error().message));
    }
    // The first replays show how long more would take.
    for (const std::size_t launches :
         {std::size_t{30}, testing::by_effort<std::size_t>(0, 970, 970)}) {
      const auto goes = goes_on(exchange);
      CCOLL_TRY(goes);
      if (!*goes) findings_.leave_out(fmt::format("{} launches of a graph of {}", launches, size));
      if (!*goes || launches == 0) break;
      at(fmt::format("{} launches of a graph of {} ranks", launches, size));
      findings_.tried();
      CCOLL_TRY(trials.replay(timed_case(size, 256), launches));
    }
    return {};
  }

  /// Waits for ranks that may still be in a smaller group.
  Status meet(device::Exchange& exchange) {
    watchdog_.rest();
    const auto met = exchange.swap("", {}, soon());
    if (!met) return tl::unexpected(met.error());
    return {};
  }

  /// Whether rank 0 has time for more, which all ranks learn.
  Result<bool> goes_on(device::Exchange& exchange) const {
    const auto said = exchange.swap(is_late() ? "late" : "", {}, soon());
    if (!said) return tl::unexpected(said.error());
    return (*said)[0].bytes.empty();
  }

  /// Reports whether others read such memory in place; if they cannot, that is no defect of ours.
  Status tell_lent(GroupBench& bench, Rank size, testing::MemoryKind kind) const {
    const bool by_kernels = !bench.group().device_numbers().empty();
    std::mt19937_64 random(part_.seed + size);
    test::GroupTrials trials(bench, random, kCallPatience);
    TeamCase made = timed_case(size, 4096);
    made.problem.kind = Kind::all_gather;
    // This offers the memory; the others have a second to map it in each capture.
    CCOLL_TRY(trials.replay(made, 2, kind));
    const std::uint64_t before = bench.group().slot_bytes();
    CCOLL_TRY(trials.replay(made, 2, kind));
    const std::uint64_t bytes = bench.group().slot_bytes() - before;
    if (part_.rank != 0) return {};
    const bool is_registered = kind == testing::MemoryKind::registered;
    const char* const memory =
        is_registered ? "registered memory of cudaMalloc" : "memory of ccoll::allocate";
    records_.add({{"phase", context_.name},
                  {"what", "lent"},
                  {"memory", memory},
                  {"mps", part_.mps},
                  {"kernels", by_kernels},
                  {"ranks", size},
                  {"is_lent", bytes == 0}});
    std::printf("%u processes%s: %s is %s\n", size, by_kernels ? ", by kernels" : "", memory,
                bytes == 0 ? "read where it lies" : "copied: see what was said");
    std::fflush(stdout);
    return {};
  }

  /// Kernels of different processes take turns, so the steps of all ranks count.
  void record(Rank size, std::uint64_t bytes, const Timed& timed, double hand_over) const {
    const double bound = 1.5 * static_cast<double>(timed.steps + 1) * hand_over;
    records_.add({{"phase", context_.name},
                  {"what", "all_reduce by ring"},
                  {"mps", part_.mps},
                  {"ranks", size},
                  {"bytes", bytes},
                  {"steps_of_all", timed.steps},
                  {"hand_over_s", hand_over},
                  {"seconds", timed.seconds},
                  {"to_bound", timed.seconds / bound}});
    std::printf("%s\n",
                fmt::format("{}{} processes, {} B: {:.1f} us, {:.2f} of 1.5 x ({} steps + 1) x a "
                            "hand-over of {:.1f} us",
                            part_.mps ? "MPS: " : "", size, bytes, timed.seconds * 1e6,
                            timed.seconds / bound, timed.steps, hand_over * 1e6)
                    .c_str());
    std::fflush(stdout);
  }

  void at(const std::string& what) {
    watchdog_.at(fmt::format("rank {}{}: {}", part_.rank, part_.mps ? " by MPS" : "", what));
  }

  const ProcessPart part_;
  const Records records_;
  const PhaseContext context_;
  Findings findings_;
  Watchdog watchdog_;
};

/// For each rank, a socket to every other.
std::vector<std::vector<FileDescriptor>> make_sockets() {
  std::vector<std::vector<FileDescriptor>> sockets(kProcesses);
  for (auto& each : sockets) each.resize(kProcesses);
  for (Rank a = 0; a < kProcesses; a++) {
    for (Rank b = 0; b < a; b++) {
      int pair[2] = {};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        raise({ErrorKind::exhausted, "no socketpair", std::nullopt});
      }
      sockets[a][b] = FileDescriptor(pair[0]);
      sockets[b][a] = FileDescriptor(pair[1]);
    }
  }
  return sockets;
}

enum class Setting { alone, by_mps, disturbed };

pid_t start(const PhaseContext& context, Rank rank, Setting setting,
            const std::vector<FileDescriptor>& sockets) {
  ProcessPart part{rank,
                   setting == Setting::by_mps,
                   setting == Setting::disturbed,
                   context.seed & UINT32_MAX,
                   {},
                   context.out};
  for (const FileDescriptor& socket : sockets) part.sockets.push_back(socket.number());
  return start_peer("process", part.text(), sockets);
}

void run_pool(const PhaseContext& context, Setting setting, Findings& findings) {
  auto sockets = make_sockets();
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < kProcesses; rank++) {
    children.push_back(start(context, rank, setting, sockets[rank]));
  }
  sockets.clear();
  await_peers(children, findings, std::chrono::seconds(testing::by_effort(200, 65, 200)));
}

}  // namespace

int run_process(const std::string& handle) {
  // Its results go where the phase's do.
  return Process(ProcessPart::from(handle)).run();
}

void run_disturbed_processes(const PhaseContext& context, Findings& findings) {
  run_pool(context, Setting::disturbed, findings);
}

int run_processes(const PhaseContext& context) {
  Findings findings(context);
  run_pool(context, Setting::alone, findings);
  if (context.mps) {
    const PrivateMps mps(context.out);
    if (mps.runs()) {
      run_pool(context, Setting::by_mps, findings);
    } else {
      std::printf("MPS cannot be started here: it was not checked\n");
    }
    context.records.add({{"phase", context.name}, {"what", "mps"}, {"started", mps.runs()}});
  }
  return findings.close("processes");
}

}  // namespace ccoll::gpu_check

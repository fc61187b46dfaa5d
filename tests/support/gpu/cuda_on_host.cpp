// SPDX-License-Identifier: Apache-2.0

/// A GPU on the host: the part of CUDA's runtime that ccoll calls, and ccoll's kernels.
/// Programs linked with this run as on a device whose streams interleave in any order that events
/// allow. Queued work is kept and taken from streams at random when a caller waits. After the first
/// host function in a stream, a thread of the device takes it too. Memory is not zero at first;
/// memory shared by descriptor looks like words of tiny slices of the first calls.
/// Memory shared by descriptor and memory of cudaMalloc (shared by handle) are memfds, so processes
/// share them as on a device. Freeing what another process has open, which CUDA leaves undefined,
/// aborts with a message. Words that streams wait for are host memory. With CCOLL_WRONG_BITS=1, one
/// in 200 kernel outputs and device copies has a wrong bit.
/// CCOLL_GPU_COUNT sets the initial number of devices. Memory, streams and events belong to one
/// device. A kernel is refused in a stream of a device other than the current one, and so is an
/// event recorded in another device's stream. A kernel that is given unreachable memory ends with
/// an illegal address. A stream's clock advances by 1 ms per event with a time. Copies and waits
/// are not bound to the current device. Copies between devices need no peers (CUDA then goes
/// through the host). For mapped memory CUDA promises no such thing, so there a stream's device
/// copies only what it reaches.
/// CCOLL_GPU_FAULT: export or import (refused); later (imports after the first two are refused);
/// apart (an import yields other memory); handle (cudaMalloc memory has no handle); open (no handle
/// can be opened); elsewhere (opening yields other memory); endless (a kernel that reads opened
/// memory never ends); words (no stream sees the word it waits for); stale (one in three graph
/// launches moves no data); first (no kernel can be captured before its first launch); stall
/// (launching an adversary kernel stops the device); deaf (no kernel sees an abort); torn (one
/// block writes the halves of a word separately); full (a stream's queue holds 1,024 word writes,
/// and more wait for room); locked (full, and all other CUDA calls wait too); lonely (flags of a
/// team's kernel never reach other processes); garbled (one bit of what it writes for them is
/// wrong); mute (no words of tiny slices reach them); halved (only the half that names the call
/// reaches them); drift (everything takes longer and longer); old (the driver is for CUDA 12.4, too
/// old for the runtime).

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/measure/pattern_kernels.hpp"
#include "gpu/kernel/claim.hpp"
#include "gpu/kernel/team_kernel.hpp"
#include "gpu/team/word_hammer.hpp"
#include "gpu_check/figures/figure_kernels.hpp"
#include "gpu_check/phases/wayward_kernels.hpp"
#include "gpu_check/phases/word_kernels.hpp"
#include "kernels/device/combine.hpp"
#include "kernels/device/combine_kernel.hpp"
#include "kernels/device/ordered_copies.hpp"
#include "support/gpu/allocation_on_host.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/gpu/team_on_host.hpp"

struct Item;

/// How often something has begun and ended: once per launch of a graph.
struct Runs {
  std::atomic<std::size_t> begun = 0, ended = 0;
};

/// The work of a stream or a graph, in order.
using Queue = std::deque<Item>;
using Done = std::shared_ptr<std::atomic<bool>>;

/// Events in a graph have numbers, because each launch has its own events.
struct Item {
  enum { work, record, wait } what = work;
  std::function<void()> run;
  Done done;
  std::function<bool()> is_ready;  ///< set if the item waits for something other than an event
  std::size_t number = 0;
  bool moves_data = false;
};

struct CUgraph_st {
  std::map<CUstream_st*, Queue> queues;
  std::vector<std::shared_ptr<void>> objects;  ///< kept alive for the graph's makers
  std::size_t events = 0;
  std::size_t id = 0;
  CUstream_st* origin = nullptr;  ///< the stream where the capture began
  bool ended = false;
};

struct CUstream_st {
  int device = 0;
  Queue queue;
  std::shared_ptr<CUgraph_st> capture;
  bool is_blocking = false;  ///< used only for capturing
  int clock_ms = 0;          ///< the time of the last recorded event
};

struct CUevent_st {
  int device = 0;
  Done done = std::make_shared<std::atomic<bool>>(true);
  std::shared_ptr<CUgraph_st> capture;
  std::size_t number = 0;
  bool has_time = false;
  const CUstream_st* recorded_in = nullptr;  ///< null for events in captures; may dangle
  int time_ms = 0;
};

/// A launch keeps the parts it needs alive while it runs.
struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
};

namespace {

using namespace ccoll;
using namespace ccoll::device;

bool has_fault(const char* which) {
  const char* const fault = std::getenv("CCOLL_GPU_FAULT");
  return fault != nullptr && std::strcmp(fault, which) == 0;
}

/// Whether this thread runs a host function, which may not call CUDA.
thread_local bool in_host_function = false;

/// A recursive mutex that can be released for a moment at any depth.
class Mutex {
 public:
  void lock() {
    if (in_host_function) {
      std::fputs("CUDA was called in a function of the host that a stream runs\n", stderr);
      std::abort();
    }
    mutex_.lock();
    ++depth_;
  }
  void unlock() {
    --depth_;
    mutex_.unlock();
  }
  void rest() {
    const int depth = depth_;
    for (int i = 0; i < depth; ++i) unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    for (int i = 0; i < depth; ++i) lock();
  }

 private:
  std::recursive_mutex mutex_;
  int depth_ = 0;  // guarded by mutex_
};

Mutex mu;
std::mt19937_64 chance{std::random_device{}()};
// These are never destroyed: detached threads use them while the process ends.
auto& streams = *new std::set<CUstream_st*>;
auto& graphs = *new std::map<const CUgraph_st*, std::shared_ptr<CUgraph_st>>;
std::size_t captures = 0;
std::atomic<std::size_t> kernels_run = 0;
std::atomic<int> kernels_running = 0;

/// The sticky error of a broken device, on which nothing makes progress.
std::atomic<cudaError_t> broken_by{cudaSuccess};

/// Guarded by mu.
int device_count = [] {
  const char* const count = std::getenv("CCOLL_GPU_COUNT");
  return count != nullptr ? std::atoi(count) : 1;
}();
auto& contexts = *new std::set<int>;  // guarded by mu; the devices that have a context
auto& refusing = *new std::set<int>;  // guarded by mu; the devices that refuse to launch teams
thread_local int current_device = 0;

/// Calls of the driver need a current context and do not create one.
thread_local bool has_current_context = false;

/// Every runtime call that takes a stream, an event or memory creates the current device's context,
/// even if the object belongs to another device.
void use_current_device() {
  const std::lock_guard lock(mu);
  contexts.insert(current_device);
  has_current_context = true;
}

/// The stall is permanent, and no call reports it.
std::atomic<bool> is_stalled = false;

char combine_kernels[4], team_kernels[4][2], claim_kernels[2], pattern_kernels[2], ordered_copies,
    fresh_kernels[gpu_check::kFreshKernels];
/// Kernels without an effect.
char idle_kernels[7];
char hammer_of_words;

std::atomic<int> kernels_launched = 0, team_kernels_launched = 0, team_kernels_by_words = 0;
std::atomic<bool> holds_kernels = false, holds_graphs = false, holds_copies = false;
std::atomic<int> held_kernels = 0, held_copies = 0;

/// Acts as if some of the call's blocks were running, until told to end.
void hold(const TeamLaunch& call, const std::atomic<bool>& holds) {
  std::uint64_t* const owner = &call.state.claim->owner;
  while (!exchange_if(owner, 0, 2 * call.id)) relax();
  for (std::uint32_t i = 0; i < call.program.block_count; ++i)
    store_relaxed(&call.progress[call.program.blocks[i].number].ending, 0);
  ++held_kernels;
  while (holds && load_relaxed(call.abort) == 0) relax();
  --held_kernels;
  store_release(owner, 0);
}

/// A multiprocessor of each device runs this many threads at once, with 64 registers each.
constexpr unsigned kThreadsAtOnce = 1024;
std::atomic<int> multiprocessors = 16;

/// The blocks that occupy a device's multiprocessors until their kernel ends. Only kernels that
/// wait for others are counted, because all others end by themselves.
class Room {
 public:
  bool has(unsigned blocks, unsigned threads) {
    const std::lock_guard lock(mu_);
    unsigned all = 0;
    for (const unsigned taken : taken_of_each()) all += (kThreadsAtOnce - taken) / threads;
    return all >= blocks;
  }
  /// Returns the multiprocessor of each block, which is random as on a device.
  std::vector<std::size_t> take(unsigned blocks, unsigned threads) {
    const std::lock_guard lock(mu_);
    auto& taken = taken_of_each();
    std::vector<std::size_t> places;
    while (places.size() < blocks) {
      const std::size_t place = chance() % taken.size();
      if (kThreadsAtOnce - taken[place] < threads) continue;
      taken[place] += threads;
      places.push_back(place);
    }
    return places;
  }
  void give_back(const std::vector<std::size_t>& places, unsigned threads) {
    const std::lock_guard lock(mu_);
    for (const std::size_t place : places) taken_[place] -= threads;
  }
  static Room& of(int device) {
    static auto& all = *new std::map<int, Room>;  // guarded by mu
    return all[device];
  }

 private:
  std::vector<unsigned>& taken_of_each() {
    taken_.resize(static_cast<std::size_t>(multiprocessors));
    return taken_;
  }
  std::mutex mu_;
  std::vector<unsigned> taken_;  // guarded by mu_; threads on each multiprocessor
};
/// Whether another process launches the device's kernels.
bool is_others(const TeamLaunch& call, std::uint32_t device) {
  return call.state.awaited_devices != 0 && device != call.program.blocks[0].device;
}
using OfDevices = std::uint64_t* (&)[kMostTeamDevices];
void keep_from_others(const TeamLaunch& call, OfDevices what) {
  static auto& nowhere = *new std::vector<std::uint64_t>(kTeamWords);
  for (std::uint32_t i = 0; i < call.state.awaited_devices; ++i)
    if (is_others(call, i)) what[i] = nowhere.data();
}
/// Delivers only the half of each word that names the call; the half with data never arrives.
class Halved {
 public:
  explicit Halved(TeamLaunch& call) {
    for (std::uint32_t i = 0; i < call.state.awaited_devices; ++i) {
      if (!is_others(call, i)) continue;
      auto& from = kept_.emplace_back(kTeamWords);
      there_.push_back(std::exchange(call.state.words[i], from.data()));
    }
    bringing_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) bring();
      bring();
    });
  }

 private:
  void bring() {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      for (std::size_t word = 0; word < kTeamWords; ++word) {
        const std::uint64_t written = load_relaxed(&kept_[i][word]);
        auto* const halves = reinterpret_cast<std::uint32_t*>(&there_[i][word]);
        if (written != 0) store_relaxed(&halves[1], static_cast<std::uint32_t>(written >> 32));
      }
    }
  }
  std::vector<std::vector<std::uint64_t>> kept_;
  std::vector<std::uint64_t*> there_;
  std::jthread bringing_;
};
/// Corrupts one bit of its own output, as if it had written that bit wrong for others.
void garble(const TeamLaunch& call) {
  const std::uint32_t own = call.program.blocks[0].device;
  if (call.state.awaited_devices != 0) call.buffers[2 * own + 1][0] ^= std::byte{1};
}

void run_team(TeamLaunch call) {
  std::optional<Halved> halved;
  if (call.program.by_words && has_fault("halved")) halved.emplace(call);
  testing::run_on_host(call, 1);
}

/// Each device has a default stream of its own.
CUstream_st* legacy_of(int device) {
  static auto& all = *new std::map<int, CUstream_st*>;  // guarded by mu
  CUstream_st*& stream = all[device];
  if (stream == nullptr) {
    streams.insert(stream = new CUstream_st);
    stream->device = device;
  }
  return stream;
}

CUstream_st* known(cudaStream_t stream) {
  return stream == nullptr ? legacy_of(current_device) : stream;
}

/// A launched graph, whose queues make progress beside the streams.
struct RunningGraph {
  std::map<CUstream_st*, Queue> queues;
  Done ended;
  std::shared_ptr<const CUgraph_st> of;
};
auto& running = *new std::list<RunningGraph>;

std::vector<Queue*> all_queues() {
  std::vector<Queue*> queues;
  for (CUstream_st* stream : streams) queues.push_back(&stream->queue);
  for (RunningGraph& graph : running) {
    for (auto& [stream, queue] : graph.queues) queues.push_back(&queue);
  }
  return queues;
}

bool can_go_on(const Item& item) {
  return item.what != Item::wait || (item.is_ready ? item.is_ready() : item.done->load());
}

/// Runs one item of a queue that can make progress; false if there is none.
bool step_streams() {
  if (is_stalled) return false;
  std::vector<Queue*> ready;
  for (Queue* queue : all_queues()) {
    if (!queue->empty() && can_go_on(queue->front())) ready.push_back(queue);
  }
  if (ready.empty()) return false;
  Queue& queue = *ready[chance() % ready.size()];
  const Item item = std::move(queue.front());
  queue.pop_front();
  item.run();
  running.remove_if([](RunningGraph& graph) {
    for (const auto& [stream, queue] : graph.queues) {
      if (!queue.empty()) return false;
    }
    *graph.ended = true;
    return true;
  });
  return true;
}

/// Whether a queue waits for a word that another process may write.
bool waits_for_word() {
  for (const Queue* queue : all_queues()) {
    if (!queue->empty() && queue->front().what == Item::wait && queue->front().is_ready) {
      return true;
    }
  }
  return false;
}

void begin_graph(const std::shared_ptr<const CUgraph_st>& graph, const Done& ended) {
  RunningGraph& begun = running.emplace_back(graph->queues, ended, graph);
  static std::size_t launches = 0;
  const bool is_stale = ++launches % 3 == 0 && has_fault("stale");
  std::vector<Done> events;
  for (std::size_t i = 0; i < graph->events; ++i) {
    events.push_back(std::make_shared<std::atomic<bool>>(false));
  }
  for (auto& [stream, queue] : begun.queues) {
    for (Item& item : queue) {
      if (item.what == Item::record) item.run = [done = events[item.number]] { *done = true; };
      if (item.what == Item::wait && !item.is_ready) item.done = events[item.number];
      if (item.moves_data && is_stale) item.run = [] {};
    }
  }
}

/// Whether everything in a capture's streams comes before the end of its origin stream.
bool is_joined(const CUgraph_st& graph) {
  std::map<std::size_t, std::pair<CUstream_st*, std::size_t>> records;  // by number, where each is
  for (const auto& [stream, queue] : graph.queues)
    for (std::size_t i = 0; i < queue.size(); ++i)
      if (queue[i].what == Item::record) records[queue[i].number] = {stream, i};
  // For each stream, how many of its items come before that end.
  std::map<CUstream_st*, std::size_t> before;
  const std::function<void(CUstream_st*, std::size_t)> mark = [&](CUstream_st* stream,
                                                                  std::size_t count) {
    std::size_t& marked = before[stream];
    while (marked < count) {
      const Item& item = graph.queues.at(stream)[marked++];
      if (item.what != Item::wait || item.is_ready || item.done) continue;
      const auto& [on, place] = records.at(item.number);
      mark(on, place + 1);
    }
  };
  const auto first = graph.queues.find(graph.origin);
  if (first != graph.queues.end()) mark(graph.origin, first->second.size());
  return std::ranges::all_of(graph.queues, [&](const auto& each) {
    const auto& [stream, queue] = each;
    // Trailing events need no join, because they do nothing.
    std::size_t count = queue.size();
    while (count > 0 && queue[count - 1].what == Item::record) --count;
    return before[stream] >= count;
  });
}

cudaError_t drain(const std::function<bool()>& until) {
  while (!until()) {
    if (broken_by != cudaSuccess) return broken_by;
    if (step_streams()) continue;
    // Nothing here can make progress until a running kernel ends or a word is written.
    if (kernels_running == 0 && !is_stalled && !waits_for_word() && !step_streams()) {
      return until() ? cudaSuccess : cudaErrorLaunchTimeout;
    }
    mu.rest();
  }
  return cudaSuccess;
}

void put(cudaStream_t to, Item item) {
  CUstream_st* const stream = known(to);
  Queue& queue = stream->capture ? stream->capture->queues[stream] : stream->queue;
  queue.push_back(std::move(item));
}

cudaError_t put(cudaStream_t to, std::function<void()> run, bool moves_data = false) {
  Item item;
  item.run = std::move(run);
  item.moves_data = moves_data;
  put(to, std::move(item));
  return cudaSuccess;
}

cudaError_t put_data(cudaStream_t to, std::function<void()> run) {
  return put(to, std::move(run), true);
}

/// Adds a kernel that begins when there is room for all its blocks.
void put_when_there_is_room(cudaStream_t to, unsigned blocks, unsigned threads,
                            std::function<void()> run, bool moves_data = false) {
  Item item;
  item.what = Item::wait;
  item.run = std::move(run);
  item.is_ready = [&room = Room::of(known(to)->device), blocks, threads] {
    return room.has(blocks, threads);
  };
  item.moves_data = moves_data;
  put(to, std::move(item));
}

void maybe_spoil(std::byte* out, std::uint64_t bytes) {
  static const bool spoils = std::getenv("CCOLL_WRONG_BITS") != nullptr;
  if (spoils && bytes != 0 && ++kernels_run % 200 == 100) out[chance() % bytes] ^= std::byte{1};
}

/// Blocks the items behind it while copies are held.
void put_hold(cudaStream_t to) {
  put(to, [] { held_copies += holds_copies ? 1 : 0; });
  Item item;
  item.what = Item::wait;
  item.run = [] {};
  item.is_ready = [] { return !holds_copies; };
  put(to, std::move(item));
}

/// Blocks the items behind it until `done` is set.
void put_never(cudaStream_t to, const Done& done) {
  Item item;
  item.what = Item::wait;
  item.run = [] {};
  item.done = done;
  put(to, std::move(item));
}

bool may_launch(const void* kernel, cudaStream_t stream) {
  static std::set<const void*> launched;  // guarded by mu
  if (!known(stream)->capture) launched.insert(kernel);
  return launched.contains(kernel) || !has_fault("first");
}

bool leaves_nothing(const void* kernel) {
  return std::ranges::any_of(idle_kernels, [=](const char& each) { return kernel == &each; });
}

/// Like a kernel that is loaded at its first launch: it waits for all earlier work of the device.
cudaError_t launch_fresh(std::uint32_t number, void** arguments, cudaStream_t stream) {
  static std::set<std::uint32_t> loaded;  // guarded by mu
  is_stalled = is_stalled || has_fault("stall");
  if (loaded.insert(number).second) cudaDeviceSynchronize();
  auto* const words = *static_cast<std::uint32_t**>(arguments[0]);
  const auto count = *static_cast<const std::uint32_t*>(arguments[1]);
  return put_data(stream, [=] {
    for (std::uint32_t i = 0; i < count; ++i) words[i] += number + 1;
  });
}

/// Runs the blocks concurrently, as they only end together.
cudaError_t launch_hammer(std::uint32_t blocks, void** arguments, cudaStream_t stream) {
  return put_data(stream, [blocks, with = *static_cast<const test::WordHammer*>(arguments[0])] {
    std::vector<std::jthread> running;
    for (std::uint32_t number = 0; number < blocks; ++number) {
      running.emplace_back([&with, number] { test::hammer(LoneThread(), number, with); });
    }
    if (!has_fault("torn")) return;
    for (std::uint64_t round = 0; round < with.rounds; ++round) {
      auto* const halves = reinterpret_cast<std::uint32_t*>(with.words);
      const std::uint64_t word = test::hammered_word(round);
      store_relaxed(&halves[0], static_cast<std::uint32_t>(word));
      relax();
      store_relaxed(&halves[1], static_cast<std::uint32_t>(word >> 32));
    }
  });
}

bool is_capturing_any() {
  for (const CUstream_st* stream : streams) {
    if (stream->capture) return true;
  }
  return false;
}

thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;

/// Whether a capture of the global mode forbids the call.
bool is_forbidden() { return mode != cudaStreamCaptureModeRelaxed && is_capturing_any(); }

struct Stretch {
  std::size_t bytes = 0;
  int device = 0;
  /// Mapped memory (of pools and VMM allocations): the devices that may access it. Empty for other
  /// memory, which the device and its peers may access.
  std::optional<std::set<int>> open_to = std::nullopt;
  bool is_registered = false;  ///< the host's own memory, registered with CUDA
};

/// Stretches of memory, by first address.
using Stretches = std::map<const void*, Stretch>;
auto& on_device = *new Stretches;
auto& pinned = *new Stretches;
auto& peers = *new std::set<std::pair<int, int>>;  // guarded by mu; pairs with access
cuda_on_host_peers peering = kPeersWell;           // guarded by mu; which GPUs have access to which
Done peers_go_on = std::make_shared<std::atomic<bool>>(false);

const Stretch* find(const Stretches& stretches, const void* place) {
  const auto next = stretches.upper_bound(place);
  if (next == stretches.begin()) return nullptr;
  const auto& [begin, found] = *std::prev(next);
  return place < static_cast<const std::byte*>(begin) + found.bytes ? &found : nullptr;
}
bool contains(const Stretches& stretches, const void* place) {
  return find(stretches, place) != nullptr;
}

/// Whether the device's kernels may read and write at `place`.
bool reaches(int device, const void* place) {
  const Stretch* const there = find(on_device, place);
  if (there == nullptr || there->device == device) return true;
  return there->open_to ? there->open_to->contains(device)
                        : peers.contains({device, there->device});
}

/// An unreachable address breaks the device, as on a real one.
void check_reach(int device, const void* place) {
  if (place != nullptr && !reaches(device, place)) broken_by = cudaErrorIllegalAddress;
}

/// Checks all memory that a device's blocks of a team read and write.
void check_reach(int device, const TeamLaunch& call) {
  const TeamProgram& program = call.program;
  const auto check_parts = [&](Range parts) {
    for (std::uint32_t i = parts.begin; i < parts.end; ++i)
      check_reach(device, call.buffers[program.parts[i].buffer]);
  };
  const auto check_ends = [&](Range ends) {
    for (std::uint32_t i = ends.begin; i < ends.end; ++i) {
      const TeamChannel& channel = program.channels[program.ends[i].channel];
      check_parts(program.ends[i].lent);
      check_reach(device, call.buffers[program.workspace + channel.to]);
      check_reach(device, call.state.flags[channel.to]);
      check_reach(device, call.state.flags[channel.from]);
      check_reach(device, call.state.words[channel.to]);
    }
  };
  check_reach(device, call.state.tickets);
  // Buffers that other ranks may lend.
  for (std::uint32_t i = 0; i < call.state.awaited_devices * kLoanPlaces; ++i) {
    const LoanPlace* const place = call.loans.places + i;
    if (load_acquire(&place->number) != 0)
      check_reach(device, reinterpret_cast<const void*>(load_relaxed(&place->address)));
  }
  for (std::uint32_t i = 0; i < call.state.awaited_devices; ++i)
    check_reach(device, call.state.flags[i]);
  for (const void* list : std::initializer_list<const void*>{
           program.blocks, program.steps, program.ends, program.parts, program.channels})
    if (find(on_device, list) != nullptr && find(on_device, list)->device != device)
      broken_by = cudaErrorIllegalAddress;
  for (std::uint32_t number = 0; number < program.block_count; ++number) {
    const Range steps = program.blocks[number].steps;
    for (std::uint32_t i = steps.begin; i < steps.end; ++i) {
      check_parts(program.steps[i].local);
      check_parts(program.steps[i].store);
      check_ends(program.steps[i].receives);
      check_ends(program.steps[i].sends);
    }
  }
}

/// A copy from a device's memory to a device's memory, in a stream of any device.
class DeviceCopy {
 public:
  /// Empty if one side is host memory.
  static std::optional<DeviceCopy> of(int by, const void* to, const void* from) {
    if (find(on_device, to) == nullptr || find(on_device, from) == nullptr) return std::nullopt;
    return DeviceCopy(by, to, from);
  }
  /// Whether the device can access both sides; asked when the stream reaches the copy.
  bool may_begin() const {
    for (const void* place : {to_, from_})
      if (const Stretch* there = find(on_device, place); there != nullptr && there->open_to)
        check_reach(by_, place);
    return broken_by == cudaSuccess;
  }
  /// Counts a finished copy; `seen` is its destination as this process maps it.
  void end(std::byte* seen, std::uint64_t bytes) const {
    cuda_on_host_traffic& traffic = carried[{by_, from_device_, to_device_}];
    ++traffic.copies;
    traffic.bytes += bytes;
    if (peering == kCopiesWrong && to_device_ < from_device_) *seen ^= std::byte{1};
  }
  bool hangs() const { return peering == kCopiesHang && to_device_ > from_device_; }

  /// Guarded by mu; the key is the stream's device, the source's and the destination's.
  static inline auto& carried = *new std::map<std::tuple<int, int, int>, cuda_on_host_traffic>;

 private:
  DeviceCopy(int by, const void* to, const void* from)
      : by_(by),
        to_(to),
        from_(from),
        to_device_(find(on_device, to)->device),
        from_device_(find(on_device, from)->device) {}

  int by_;
  const void* to_;
  const void* from_;
  int to_device_, from_device_;
};

/// Whether the kernel reads or writes another device's memory.
bool crosses(const CombineArguments& arguments, int device) {
  const auto is_others = [device](const void* place) {
    const Stretch* const there = find(on_device, place);
    return there != nullptr && there->device != device;
  };
  bool does = is_others(arguments.out);
  for (std::uint32_t i = 0; i < arguments.source_count; ++i)
    does = does || is_others(arguments.sources[i]);
  return does;
}

void run_combine(const CombineArguments& arguments, int device) {
  if (!begin(arguments.words, true)) return;
  const std::byte* sources[kMostSources] = {};
  for (std::uint32_t i = 0; i < arguments.source_count; ++i)
    check_reach(device, sources[i] = source_of(arguments, i));
  check_reach(device, arguments.out);
  if (broken_by != cudaSuccess) return;
  combine(LoneThread(), arguments.type, arguments.op,
          {sources, arguments.source_count, arguments.out, arguments.bytes, arguments.divisor});
  maybe_spoil(arguments.out, arguments.bytes);
  if (peering == kPeersWrong && crosses(arguments, device)) arguments.out[0] ^= std::byte{1};
}

/// All its arguments must be memory that the device reaches, from the first byte to the last.
cudaError_t launch_pattern(bool fills, const bench::PatternRun& run, cudaStream_t stream) {
  return put_data(stream, [fills, run, device = current_device] {
    const auto check = [device](const void* first, std::uint64_t bytes) {
      const void* const last = static_cast<const std::byte*>(first) + bytes - 1;
      const Stretch* const there = find(on_device, first);
      if (there == nullptr || there != find(on_device, last) || !reaches(device, first))
        broken_by = cudaErrorIllegalAddress;
    };
    check(run.data, run.elems * run.elem_bytes);
    check(run.period, std::uint64_t{run.period_elems} * run.elem_bytes);
    check(run.wrong, sizeof *run.wrong);
    if (broken_by != cudaSuccess) return;
    fills ? bench::fill_part(LoneThread(), run) : bench::count_wrong_part(LoneThread(), run);
  });
}

/// The allocations of cudaMalloc, by first page.
using testing::AllocationOnHost;
auto& allocations = *new std::map<const std::byte*, std::unique_ptr<AllocationOnHost>>;
bool hides = false;                           // guarded by mu
bool exports = true;                          // guarded by mu
bool orders_writes = true, can_flush = true;  // guarded by mu
std::uint64_t flushes = 0;                    // guarded by mu
std::atomic<std::uint64_t> copied = 0, copies = 0;

/// The allocation whose pages contain `place`, or null.
AllocationOnHost* allocation_at(const void* place) {
  const auto* const at = static_cast<const std::byte*>(place);
  const auto next = allocations.upper_bound(at);
  if (next == allocations.begin()) return nullptr;
  AllocationOnHost& found = *std::prev(next)->second;
  return at < found.pages() + found.bytes_of_pages() ? &found : nullptr;
}

/// The address at which this process can access the device's memory at `place`.
template <typename T>
T* seen(T* place) {
  const auto* const at = reinterpret_cast<const std::byte*>(place);
  const AllocationOnHost* const allocation = allocation_at(at);
  return allocation == nullptr ? place : reinterpret_cast<T*>(allocation->seen(at));
}

/// Once it has begun, it is held like copies: it then copies what it has taken of its order.
void put_ordered_copies(cudaStream_t to, unsigned blocks, unsigned threads, const CopyOrder* order,
                        std::uint32_t number) {
  const auto taken = std::make_shared<TakenOrder>();
  Item item;
  item.what = Item::wait;
  item.is_ready = [=, &room = Room::of(known(to)->device)] {
    if (taken->count == 0) {
      if (!room.has(blocks, threads)) return false;
      take_order(LoneThread(), order, number, *taken);
      held_copies += holds_copies && taken->count > 0 ? 1 : 0;
    }
    return taken->count == 0 || !holds_copies;
  };
  item.run = [taken, device = known(to)->device] {
    // The order must be empty again when a graph is replayed.
    TakenOrder all = std::exchange(*taken, {});
    for (OrderedCopy& each : std::span(all.copies, all.count)) {
      check_reach(device, each.from);
      check_reach(device, each.to);
      each = {seen(each.from), seen(each.to), each.bytes};
      ++copies;
      copied += each.bytes;
    }
    if (broken_by != cudaSuccess) return;
    make_copies(LoneThread(), all);
    for (const OrderedCopy& each : std::span(all.copies, all.count))
      maybe_spoil(each.to, each.bytes);
  };
  item.moves_data = true;
  put(to, std::move(item));
}

/// Memory of another process that this one has opened, and the device it is opened for.
struct Opened {
  cudaIpcMemHandle_t handle;
  int device;
  std::unique_ptr<AllocationOnHost> memory;
  int times = 1;
};
auto& opened = *new std::map<const void*, Opened>;  // guarded by mu; by the returned address

/// Only for kernels whose sources are all known at launch.
bool reads_opened(const CombineArguments& arguments) {
  return std::ranges::any_of(std::span(arguments.sources, arguments.source_count),
                             [](const std::byte* source) { return opened.contains(source); });
}

/// The memory of a device, and of the host that backs it.
constexpr std::size_t kMostBytes = std::size_t{8} << 30;
thread_local bool is_full = false;
auto& of_another = *new Stretches;  // guarded by mu; memory said to belong to another GPU

cudaError_t allocate(void** memory, std::size_t bytes, Stretches& among) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  if (is_full || bytes > kMostBytes) return cudaErrorMemoryAllocation;
  if (&among == &on_device) {
    auto made = AllocationOnHost::make(bytes, current_device, hides);
    if (made == nullptr) return cudaErrorMemoryAllocation;
    *memory = made->begin();
    on_device[*memory] = {bytes, current_device};
    allocations[made->pages()] = std::move(made);
    return cudaSuccess;
  }
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*memory, 0xcd, bytes);
  among[*memory] = {bytes, current_device};
  return cudaSuccess;
}

/// Frees synchronise: all streams of the process, on every device, run empty first.
cudaError_t prepare_to_free() {
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  return drain([] {
    return std::ranges::all_of(streams,
                               [](const CUstream_st* stream) { return stream->queue.empty(); });
  });
}

/// Host functions that streams have reached.
auto& host_functions = *new std::deque<std::function<void()>>;  // guarded by mu

/// The device's own threads: one drives streams while no caller waits, the other runs host
/// functions, one after another.
class Motor {
 public:
  void start() {
    const std::lock_guard lock(mu);
    if (!threads_.empty()) return;
    for (const auto step : {&step_unless_broken, &run_host_function}) {
      threads_.emplace_back([step](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          if (!step()) std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
      });
    }
  }

 private:
  static bool step_unless_broken() {
    const std::lock_guard lock(mu);
    return broken_by == cudaSuccess && step_streams();
  }
  static bool run_host_function() {
    std::function<void()> function;
    {
      const std::lock_guard lock(mu);
      if (host_functions.empty()) return false;
      function = std::move(host_functions.front());
      host_functions.pop_front();
    }
    in_host_function = true;
    function();
    in_host_function = false;
    return true;
  }

  std::vector<std::jthread> threads_;  // guarded by mu
} motor;

/// An object that the captured graph owns and destroys with itself.
struct UserObject {
  void* what;
  cudaHostFn_t destroy;
};

// The driver's calls, by the names they are looked up by. A handle is a memfd; addresses are the
// host's.

constexpr std::size_t kUnit = 64 << 10;

CUresult error_string(CUresult /*error*/, const char** text) {
  *text = "an error of the host's GPU";
  return CUDA_SUCCESS;
}
CUresult device_attribute(int* value, CUdevice_attribute which, CUdevice /*device*/) {
  const std::lock_guard lock(mu);
  *value = 1;
  if (which == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) *value = exports ? 1 : 0;
  if (which == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) {
    *value = orders_writes ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
                           : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
  }
  if (which == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) {
    *value = can_flush ? CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS
                       : CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
  }
  return CUDA_SUCCESS;
}
CUresult context_state(CUdevice device, unsigned* /*flags*/, int* active) {
  *active = cuda_on_host_has_context(device) ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult granularity(std::size_t* unit, const CUmemAllocationProp* /*of*/,
                     CUmemAllocationGranularity_flags /*which*/) {
  *unit = kUnit;
  return CUDA_SUCCESS;
}
std::atomic<std::uint64_t> made_for_cards{0};

CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                const CUmemAllocationProp* of, unsigned long long /*flags*/) {
  if (bytes == 0 || bytes % kUnit != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kMostBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const int device = of == nullptr ? 0 : of->location.id;
  if (of != nullptr && of->allocFlags.gpuDirectRDMACapable != 0) made_for_cards += bytes;
  const int file = memfd_create(("GPU " + std::to_string(device)).c_str(), MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::vector<std::uint64_t> noise(kUnit / sizeof(std::uint64_t));
  std::random_device some;
  for (std::size_t at = 0; at < bytes; at += kUnit) {
    std::ranges::fill(noise, tiny_word(1 + some() % 8, 0xcdcdcdcd));
    if (pwrite(file, noise.data(), kUnit, static_cast<off_t>(at)) != static_cast<ssize_t>(kUnit)) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  *handle = static_cast<CUmemGenericAllocationHandle>(file);
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
  close(static_cast<int>(handle));
  return CUDA_SUCCESS;
}
CUresult export_handle(void* file, CUmemGenericAllocationHandle handle,
                       CUmemAllocationHandleType /*type*/, unsigned long long /*flags*/) {
  if (has_fault("export")) return CUDA_ERROR_NOT_SUPPORTED;
  const int copy = dup(static_cast<int>(handle));
  std::memcpy(file, &copy, sizeof copy);
  return copy < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult import_handle(CUmemGenericAllocationHandle* handle, void* file,
                       CUmemAllocationHandleType /*type*/) {
  static std::atomic<int> imports = 0;
  const bool is_refused = has_fault("import") || (has_fault("later") && ++imports > 2);
  if (is_refused) return CUDA_ERROR_NOT_SUPPORTED;
  const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(file));
  if (has_fault("apart")) {
    return create(handle, static_cast<std::size_t>(lseek(given, 0, SEEK_END)), nullptr, 0);
  }
  const int copy = dup(given);
  *handle = static_cast<CUmemGenericAllocationHandle>(copy);
  return copy < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* address, std::size_t bytes, std::size_t /*alignment*/,
                 CUdeviceptr /*wish*/, unsigned long long /*flags*/) {
  void* const place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(place);
  return CUDA_SUCCESS;
}
/// The memfd's name holds the device, even if another process created it.
int device_of(CUmemGenericAllocationHandle handle) {
  char name[64] = {};
  const auto link = "/proc/self/fd/" + std::to_string(handle);
  if (readlink(link.c_str(), name, sizeof name - 1) < 0) return 0;
  const char* const number = std::strstr(name, "GPU ");
  return number == nullptr ? 0 : std::atoi(number + 4);
}

CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t /*offset*/,
             CUmemGenericAllocationHandle handle, unsigned long long /*flags*/) {
  // CUDA maps memory without access at first.
  void* const place = mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                           MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0);
  const std::lock_guard lock(mu);
  on_device[reinterpret_cast<const void*>(address)] = {bytes, device_of(handle), std::set<int>()};
  return place == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                    std::size_t count) {
  const std::lock_guard lock(mu);
  Stretch& stretch = on_device[reinterpret_cast<const void*>(address)];
  for (std::size_t i = 0; i < count; ++i) {
    const int device = access[i].location.id;
    if (device != stretch.device && peering == kPeersApart) return CUDA_ERROR_NOT_SUPPORTED;
    stretch.open_to->insert(device);
  }
  const int error = mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  return error != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(mu);
  if (is_forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  on_device.erase(reinterpret_cast<const void*>(address));
  void* const place = mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return place == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult unreserve(CUdeviceptr address, std::size_t bytes) {
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}
/// Exports the pages of exactly one whole allocation.
CUresult export_range(void* handle, CUdeviceptr begin, std::size_t bytes, CUmemRangeHandleType type,
                      unsigned long long flags) {
  const std::lock_guard lock(mu);
  const AllocationOnHost* const found = allocation_at(reinterpret_cast<const void*>(begin));
  if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0 || found == nullptr ||
      !found->is_hidden() || reinterpret_cast<CUdeviceptr>(found->pages()) != begin ||
      found->bytes_of_pages() != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int file = dup(found->file());
  std::memcpy(handle, &file, sizeof file);
  return file < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult address_range(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr place) {
  const std::lock_guard lock(mu);
  if (!has_current_context) return CUDA_ERROR_INVALID_CONTEXT;
  const auto* const at = reinterpret_cast<const void*>(place);
  if (!contains(on_device, at)) return CUDA_ERROR_NOT_FOUND;
  const auto& [first, stretch] = *std::prev(on_device.upper_bound(at));
  if (begin != nullptr) *begin = reinterpret_cast<CUdeviceptr>(first);
  if (bytes != nullptr) *bytes = stretch.bytes;
  return CUDA_SUCCESS;
}
/// Waits while a queue of limited length is full; under "locked" it keeps the mutex meanwhile.
void wait_for_room(const CUstream_st& stream) {
  const bool is_locked = has_fault("locked");
  while (stream.queue.size() >= 1024 && (is_locked || has_fault("full")))
    if (!step_streams() && !is_locked) mu.rest();
}
CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const std::lock_guard lock(mu);
  if (!has_current_context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!known(stream)->capture) wait_for_room(*known(stream));
  if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) {
    if (!can_flush) return CUDA_ERROR_NOT_SUPPORTED;
    ++flushes;
    flags &= ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
  }
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_NOT_SUPPORTED;
  Item item;
  item.what = Item::wait;
  item.run = [] {};
  item.is_ready = [word = reinterpret_cast<const std::uint32_t*>(address), value] {
    // The comparison wraps around, as on a device.
    return static_cast<std::int32_t>(load_acquire(word) - value) >= 0 && !has_fault("words");
  };
  put(stream, std::move(item));
  return CUDA_SUCCESS;
}
CUresult write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const std::lock_guard lock(mu);
  if (!has_current_context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!known(stream)->capture) wait_for_room(*known(stream));
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_NOT_SUPPORTED;
  put(stream,
      [word = reinterpret_cast<std::uint32_t*>(address), value] { store_release(word, value); });
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                          CUdeviceptr place);

namespace {

const std::map<std::string, void*> driver_calls = {
    {"cuPointerGetAttribute", reinterpret_cast<void*>(&cuPointerGetAttribute)},
    {"cuGetErrorString", reinterpret_cast<void*>(&error_string)},
    {"cuDeviceGetAttribute", reinterpret_cast<void*>(&device_attribute)},
    {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(&context_state)},
    {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&granularity)},
    {"cuMemCreate", reinterpret_cast<void*>(&create)},
    {"cuMemRelease", reinterpret_cast<void*>(&release)},
    {"cuMemExportToShareableHandle", reinterpret_cast<void*>(&export_handle)},
    {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(&import_handle)},
    {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve)},
    {"cuMemAddressFree", reinterpret_cast<void*>(&unreserve)},
    {"cuMemMap", reinterpret_cast<void*>(&map)},
    {"cuMemUnmap", reinterpret_cast<void*>(&unmap)},
    {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)},
    {"cuMemGetAddressRange", reinterpret_cast<void*>(&address_range)},
    {"cuMemGetHandleForAddressRange", reinterpret_cast<void*>(&export_range)},
    {"cuStreamWaitValue32", reinterpret_cast<void*>(&wait_value)},
    {"cuStreamWriteValue32", reinterpret_cast<void*>(&write_value)},
};

}  // namespace

namespace ccoll::device {

const void* combine_kernel_of_bits() { return &combine_kernels[0]; }
const void* combine_kernel_of_floats() { return &combine_kernels[1]; }
const void* combine_kernel_of_integers() { return &combine_kernels[2]; }
const void* combine_kernel_of_small_floats() { return &combine_kernels[3]; }
const void* team_kernel_of_bits(bool by_words) { return &team_kernels[0][by_words ? 1 : 0]; }
const void* team_kernel_of_floats(bool by_words) { return &team_kernels[1][by_words ? 1 : 0]; }
const void* team_kernel_of_integers(bool by_words) { return &team_kernels[2][by_words ? 1 : 0]; }
const void* team_kernel_of_small_floats(bool by_words) {
  return &team_kernels[3][by_words ? 1 : 0];
}
const void* ordered_copies_kernel() { return &ordered_copies; }
const void* copies_begin_kernel() { return &claim_kernels[0]; }
const void* copies_end_kernel() { return &claim_kernels[1]; }

}  // namespace ccoll::device

namespace ccoll::bench {

const void* fill_kernel() { return &pattern_kernels[0]; }
const void* count_wrong_kernel() { return &pattern_kernels[1]; }

}  // namespace ccoll::bench

namespace ccoll::gpu_check {

const void* read_kernel() { return &idle_kernels[0]; }
const void* fan_kernel() { return &idle_kernels[3]; }
const void* empty_kernel() { return &idle_kernels[4]; }
const void* round_trip_kernel() { return &idle_kernels[5]; }
const void* fresh_kernel(std::uint32_t number) { return &fresh_kernels[number]; }
const void* kernel_out_of_bounds() { return &idle_kernels[1]; }
const void* kernel_beside_barrier() { return &idle_kernels[2]; }
const void* occupying_kernel() { return &idle_kernels[6]; }
const void* hammer_kernel() { return &hammer_of_words; }

}  // namespace ccoll::gpu_check

extern "C" {

// ccoll looks it up by name; programs linked with --export-dynamic provide it.
[[gnu::visibility("default")]] CUresult cuPointerGetAttribute(void* data,
                                                              CUpointer_attribute attribute,
                                                              CUdeviceptr place) {
  const std::lock_guard lock(mu);
  const auto* const at = reinterpret_cast<const void*>(place);
  const bool is_devices = contains(on_device, at);
  if (!is_devices && !contains(pinned, at)) return CUDA_ERROR_INVALID_VALUE;
  const auto tell = [data](auto value) { std::memcpy(data, &value, sizeof value); };
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      tell(is_devices ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      tell(0U);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      tell(contains(of_another, at) ? device_count : find(on_device, at)->device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      tell(reinterpret_cast<CUdeviceptr>(std::prev(on_device.upper_bound(at))->first));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      tell(std::prev(on_device.upper_bound(at))->second.bytes);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      tell(is_devices && !find(on_device, at)->open_to ? 1U : 0U);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      tell(reaches(current_device, at) ? 3U : 0U);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  const std::lock_guard lock(mu);
  *can = device != peer && peering != kPeersApart ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  const std::lock_guard lock(mu);
  if (peer < 0 || peer >= device_count || peer == current_device) return cudaErrorInvalidDevice;
  use_current_device();
  if (peering == kPeersApart) return cudaErrorPeerAccessUnsupported;
  if (peering == kPeersTooMany) return cudaErrorTooManyPeers;
  const bool is_new = peers.emplace(current_device, peer).second;
  return is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (has_fault("old")) return cudaErrorInsufficientDriver;
  const std::lock_guard lock(mu);
  *count = device_count;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(mu);
  if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
  current_device = device;
  use_current_device();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = has_fault("old") ? 12040 : CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const std::lock_guard lock(mu);
  if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device);
  properties->pciBusID = device;
  std::strcpy(properties->name, "a GPU on the host");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int /*device*/) {
  *value = which == cudaDevAttrMultiProcessorCount ? multiprocessors.load() : 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(mu);
  use_current_device();
  return drain([] {
    return std::ranges::all_of(streams, [](const CUstream_st* stream) {
      return stream->device != current_device || stream->queue.empty();
    });
  });
}
cudaError_t cudaGetLastError() { return broken_by; }
const char* cudaGetErrorString(cudaError_t /*error*/) { return "an error of the host's GPU"; }
const char* cudaGetErrorName(cudaError_t error) {
  static thread_local char name[32];
  std::snprintf(name, sizeof name, "%d", static_cast<int>(error));
  return name;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return allocate(memory, bytes, on_device);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  return allocate(memory, bytes, pinned);
}
cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(mu);
  if (const cudaError_t error = prepare_to_free(); error != cudaSuccess) return error;
  if (memory == nullptr) return cudaSuccess;
  const AllocationOnHost* const allocation = allocation_at(memory);
  if (allocation == nullptr || allocation->begin() != memory) return cudaErrorInvalidValue;
  if (allocation->is_open_elsewhere()) {
    std::fputs("memory was freed that another process has open: what then happens is undefined\n",
               stderr);
    std::abort();
  }
  on_device.erase(memory);
  allocations.erase(allocation->pages());
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(mu);
  if (const cudaError_t error = prepare_to_free(); error != cudaSuccess) return error;
  if (memory == nullptr) return cudaSuccess;
  const auto found = pinned.find(memory);
  if (found == pinned.end() || found->second.is_registered) return cudaErrorInvalidValue;
  pinned.erase(found);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** there, void* here, unsigned /*flags*/) {
  use_current_device();
  const std::lock_guard lock(mu);
  if (!pinned.contains(here)) return cudaErrorInvalidValue;
  *there = here;
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  use_current_device();
  if (width == 0 || height == 0) return cudaSuccess;
  if (to_pitch < width || from_pitch < width || to_pitch > INT32_MAX || from_pitch > INT32_MAX)
    return cudaErrorInvalidPitchValue;
  const std::lock_guard lock(mu);
  // CUDA requires each side to lie in one allocation: a device's on one side, the host's on the
  // CUDA requires one allocation on each side: a device's and the host's.
  const auto is_whole = [&](const Stretches& among, const void* place, std::size_t pitch) {
    if (!contains(among, place)) return false;
    const auto& [begin, whole] = *std::prev(among.upper_bound(place));
    return static_cast<const std::byte*>(place) + (height - 1) * pitch + width <=
           static_cast<const std::byte*>(begin) + whole.bytes;
  };
  const bool is_known = (is_whole(on_device, to, to_pitch) && is_whole(pinned, from, from_pitch)) ||
                        (is_whole(pinned, to, to_pitch) && is_whole(on_device, from, from_pitch));
  if (!is_known || kind != cudaMemcpyDefault) return cudaErrorInvalidValue;
  auto* const there = seen(static_cast<std::byte*>(to));
  const auto* const here = seen(static_cast<const std::byte*>(from));
  if (holds_copies && !known(stream)->capture) put_hold(stream);
  ++copies;
  return put_data(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(there + row * to_pitch, here + row * from_pitch, width);
      maybe_spoil(there + row * to_pitch, width);
    }
    copied += width * height;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  use_current_device();
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(mu);
  // The device itself copies memory that it knows, when the stream reaches the copy.
  const auto known = [](const void* place) {
    return contains(on_device, place) || contains(pinned, place);
  };
  const auto within_one = [&](const void* place) {
    if (!contains(on_device, place)) return true;
    const auto& [begin, whole] = *std::prev(on_device.upper_bound(place));
    return static_cast<const std::byte*>(place) + bytes <=
           static_cast<const std::byte*>(begin) + whole.bytes;
  };
  if (!within_one(to) || !within_one(from)) return cudaErrorInvalidValue;
  const auto crosses = [](const void* here, const void* there) {
    return contains(pinned, here) && contains(on_device, there);
  };
  const auto counted = crosses(to, from) || crosses(from, to) ? bytes : 0;
  copies += counted > 0 ? 1 : 0;
  const bool is_by_itself = kind == cudaMemcpyDefault && known(to) && known(from);
  if (kind == cudaMemcpyDefault && !known(to)) kind = cudaMemcpyDeviceToHost;
  // A copy within the host returns when it is done.
  const bool waits = contains(pinned, to) && contains(pinned, from) && !::known(stream)->capture;
  const auto of_devices = DeviceCopy::of(::known(stream)->device, to, from);
  to = seen(static_cast<std::byte*>(to));
  from = seen(static_cast<const std::byte*>(from));
  if (is_by_itself) {
    if (holds_copies && !::known(stream)->capture) put_hold(stream);
    if (of_devices && of_devices->hangs()) put_never(stream, peers_go_on);
    put_data(stream, [=] {
      if (of_devices && !of_devices->may_begin()) return;
      std::memcpy(to, from, bytes);
      maybe_spoil(static_cast<std::byte*>(to), bytes);
      copied += counted;
      if (of_devices) of_devices->end(static_cast<std::byte*>(to), bytes);
    });
    return waits ? cudaStreamSynchronize(stream) : cudaSuccess;
  }
  if (kind == cudaMemcpyDefault) return cudaErrorNotSupported;
  if (kind == cudaMemcpyHostToDevice) {
    const auto* const first = static_cast<const std::byte*>(from);
    return put_data(stream, [to, staged = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  }
  put_data(stream, [=] { std::memcpy(to, from, bytes); });
  // A copy to pageable memory is written before the call returns.
  return kind == cudaMemcpyDeviceToHost ? cudaStreamSynchronize(stream) : cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(mu);
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  return put(stream,
             [=, there = seen(static_cast<std::byte*>(memory)), device = known(stream)->device] {
               check_reach(device, memory);
               std::memset(there, value, bytes);
             });
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  streams.insert(*stream = new CUstream_st);
  (*stream)->device = current_device;
  (*stream)->is_blocking = flags != cudaStreamNonBlocking;
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const std::lock_guard lock(mu);
  use_current_device();
  *device = known(stream)->device;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  cudaStreamSynchronize(stream);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (known(stream)->capture) return cudaErrorStreamCaptureUnsupported;
  return drain([=] { return known(stream)->queue.empty(); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t to, cudaEvent_t event, unsigned /*flags*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  CUstream_st* const stream = known(to);
  Item item;
  item.what = Item::wait;
  item.run = [] {};
  if (!event->capture) {
    // A capture cannot wait for work outside of it.
    if (stream->capture) return cudaErrorStreamCaptureIsolation;
    item.done = event->done;
    stream->queue.push_back(std::move(item));
    return cudaSuccess;
  }
  if (event->capture->ended) return cudaErrorCapturedEvent;
  if (stream->capture && stream->capture != event->capture) return cudaErrorStreamCaptureMerge;
  stream->capture = event->capture;
  item.number = event->number;
  stream->capture->queues[stream].push_back(std::move(item));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const std::lock_guard lock(mu);
  use_current_device();
  *event = new CUevent_st;
  (*event)->device = current_device;
  (*event)->has_time = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(mu);
  use_current_device();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t on) {
  const std::lock_guard lock(mu);
  use_current_device();
  CUstream_st* const stream = known(on);
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  Item item;
  item.what = Item::record;
  event->capture = stream->capture;
  if (stream->capture) {
    event->number = item.number = stream->capture->events++;
    stream->capture->queues[stream].push_back(std::move(item));
    return cudaSuccess;
  }
  event->recorded_in = stream;
  if (event->has_time) event->time_ms = ++stream->clock_ms;
  event->done = std::make_shared<std::atomic<bool>>(false);
  item.run = [done = event->done] { *done = true; };
  stream->queue.push_back(std::move(item));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (broken_by != cudaSuccess) return broken_by;
  if (event->capture || is_forbidden()) return cudaErrorCapturedEvent;
  for (std::size_t i = chance() % 8; !*event->done && step_streams() && i > 0; --i) {
  }
  return *event->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mu);
  use_current_device();
  return drain([=] { return event->done->load(); });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(mu);
  use_current_device();
  for (const CUevent_st* event : {begin, end})
    if (!event->has_time || event->capture || event->recorded_in == nullptr)
      return cudaErrorInvalidResourceHandle;
  if (!*begin->done || !*end->done) return cudaErrorNotReady;
  if (begin->recorded_in != end->recorded_in) return cudaErrorNotSupported;  // the clocks differ
  static int asked = 0;
  *ms = static_cast<float>(has_fault("drift") ? ++asked : end->time_ms - begin->time_ms);
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* other) {
  std::swap(mode, *other);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (stream == nullptr || stream->capture) return cudaErrorStreamCaptureUnsupported;
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->id = ++captures;
  stream->capture->origin = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** /*dependencies*/,
                                     const cudaGraphEdgeData** /*edges*/, std::size_t* /*count*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  const auto is_in_its_way = [](auto* each) { return each->is_blocking && each->capture; };
  if (stream == nullptr && std::ranges::any_of(streams, is_in_its_way))
    return cudaErrorStreamCaptureImplicit;
  const auto& capture = known(stream)->capture;
  *status = capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (capture && id != nullptr) *id = capture->id;
  if (capture && graph != nullptr) *graph = capture.get();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mu);
  use_current_device();
  const auto capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (stream != capture->origin) return cudaErrorStreamCaptureUnmatched;
  capture->ended = true;
  for (CUstream_st* each : streams) {
    if (each->capture == capture) each->capture = nullptr;
  }
  *graph = nullptr;
  if (!is_joined(*capture)) return cudaErrorStreamCaptureUnjoined;
  *graph = capture.get();
  graphs[capture.get()] = capture;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *made = new CUgraphExec_st{std::make_shared<CUgraph_st>(*graph)};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  Item ended;
  ended.what = Item::wait;
  ended.run = [] {};
  ended.done = std::make_shared<std::atomic<bool>>(false);
  put(stream, [graph = graph->graph, done = ended.done] { begin_graph(graph, done); });
  known(stream)->queue.push_back(std::move(ended));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(mu);
  if (graph == nullptr) return cudaErrorInvalidValue;
  // Events recorded in it may still refer to it, but its objects are released.
  graph->objects.clear();
  graphs.erase(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  use_current_device();
  *attributes = {};
  return cudaSuccess;
}
/// Assumes that a block takes 64 registers per thread.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*kernel*/,
                                                          int threads, std::size_t /*shared*/) {
  use_current_device();
  *blocks = static_cast<int>(kThreadsAtOnce) / threads;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             std::size_t /*shared*/, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (known(stream)->device != current_device) return cudaErrorInvalidResourceHandle;
  if (!may_launch(kernel, stream)) return cudaErrorStreamCaptureUnsupported;
  ++kernels_launched;
  if (leaves_nothing(kernel)) return put(stream, [] {});
  for (std::uint32_t i = 0; i < gpu_check::kFreshKernels; ++i) {
    if (kernel == &fresh_kernels[i]) return launch_fresh(i, arguments, stream);
  }
  if (kernel == copies_begin_kernel() || kernel == copies_end_kernel()) {
    if (refusing.contains(current_device)) return cudaErrorLaunchOutOfResources;
    const auto& claim = *static_cast<const CopyClaim*>(arguments[0]);
    const bool begins = kernel == copies_begin_kernel();
    put_when_there_is_room(stream, grid.x, block.x,
                           [claim, begins] { begins ? begin_copies(claim) : end_copies(claim); });
    return cudaSuccess;
  }
  if (kernel == bench::fill_kernel() || kernel == bench::count_wrong_kernel()) {
    const auto& run = *static_cast<const bench::PatternRun*>(arguments[0]);
    return launch_pattern(kernel == bench::fill_kernel(), run, stream);
  }
  if (kernel == ordered_copies_kernel()) {
    const auto* const order = *static_cast<const CopyOrder* const*>(arguments[0]);
    const auto number = *static_cast<const std::uint32_t*>(arguments[1]);
    // There may be room for a single warp beside a team (gpu/program/block_budget.hpp).
    if (block.x > 32) return cudaErrorInvalidConfiguration;
    put_ordered_copies(stream, grid.x, block.x, order, number);
    return cudaSuccess;
  }
  if (kernel == &hammer_of_words) return launch_hammer(grid.x, arguments, stream);
  const auto& call = *static_cast<const CombineArguments*>(arguments[0]);
  const auto run = [call, device = current_device] { run_combine(call, device); };
  put_when_there_is_room(stream, 1, block.x, run, true);
  const bool hangs = has_fault("endless") && reads_opened(call);
  if (hangs || (peering == kPeersHang && crosses(call, current_device))) {
    put_never(stream, hangs ? std::make_shared<std::atomic<bool>>(false) : peers_go_on);
  }
  return cudaSuccess;
}
cudaError_t cudaLaunchCooperativeKernel(const void* kernel_of, dim3 grid, dim3 block,
                                        void** arguments, std::size_t shared, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (known(stream)->device != current_device) return cudaErrorInvalidResourceHandle;
  if (!may_launch(kernel_of, stream)) return cudaErrorStreamCaptureUnsupported;
  if (leaves_nothing(kernel_of)) return put(stream, [] {});
  if (refusing.contains(current_device)) return cudaErrorLaunchOutOfResources;
  const TeamLaunch& call = *static_cast<const TeamLaunch*>(arguments[0]);
  const auto number = static_cast<const char*>(kernel_of) - &team_kernels[0][0];
  if (number % 2 != (call.program.by_words ? 1 : 0)) return cudaErrorInvalidDeviceFunction;
  if (grid.x != call.program.block_count || shared != 8 * call.program.shared_words() ||
      grid.x > static_cast<unsigned>(multiprocessors) * (kThreadsAtOnce / block.x)) {
    return cudaErrorCooperativeLaunchTooLarge;
  }
  ++team_kernels_launched;
  if (call.program.by_words) ++team_kernels_by_words;
  TeamLaunch patient = call;
  patient.spins_per_look = 1;  // each look lets other threads run first
  static std::uint64_t never = 0;
  if (has_fault("deaf")) patient.abort = &never;
  if (has_fault("lonely")) keep_from_others(patient, patient.state.flags);
  if (has_fault("mute")) keep_from_others(patient, patient.state.words);
  // The host and other devices continue meanwhile: such a kernel may end only when told to.
  const auto runs = std::make_shared<Runs>();
  const auto run = [patient, runs, device = current_device, threads = block.x,
                    holds = known(stream)->capture == nullptr ? &holds_kernels : &holds_graphs] {
    check_reach(device, patient);
    if (broken_by != cudaSuccess) return;
    ++runs->begun;
    ++kernels_running;
    Room& room = Room::of(device);
    std::thread([patient, runs, holds, &room, threads,
                 places = room.take(patient.program.block_count, threads)] {
      if (*holds) hold(patient, *holds);
      run_team(patient);
      if (has_fault("garbled")) garble(patient);
      maybe_spoil(patient.buffers[1], 1);
      room.give_back(places, threads);
      ++runs->ended;
      --kernels_running;
    }).detach();
  };
  // All its blocks begin at once, when there is room for them.
  put_when_there_is_room(stream, grid.x, block.x, run, true);
  Item ended;
  ended.what = Item::wait;
  ended.run = [] {};
  ended.is_ready = [runs] { return runs->ended == runs->begun; };
  put(stream, std::move(ended));
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned /*flags*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  const Stretch registered{.bytes = bytes, .is_registered = true};
  return pinned.emplace(memory, registered).second ? cudaSuccess
                                                   : cudaErrorHostMemoryAlreadyRegistered;
}
cudaError_t cudaHostUnregister(void* memory) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  const auto found = pinned.find(memory);
  if (found == pinned.end() || !found->second.is_registered)
    return cudaErrorHostMemoryNotRegistered;
  pinned.erase(found);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  use_current_device();
  motor.start();
  const std::lock_guard lock(mu);
  const auto calls = std::make_shared<Runs>();
  put(stream, [=] {
    ++calls->begun;
    host_functions.emplace_back([=] {
      function(argument);
      ++calls->ended;
    });
  });
  Item ended;
  ended.what = Item::wait;
  ended.run = [] {};
  ended.is_ready = [calls] { return calls->ended == calls->begun; };
  put(stream, std::move(ended));
  return cudaSuccess;
}
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* what, cudaHostFn_t destroy,
                                 unsigned /*count*/, unsigned /*flags*/) {
  *object = reinterpret_cast<cudaUserObject_t>(new UserObject{what, destroy});
  return cudaSuccess;
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t given, unsigned /*count*/) {
  const std::unique_ptr<UserObject> object(reinterpret_cast<UserObject*>(given));
  object->destroy(object->what);
  return cudaSuccess;
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t given, unsigned /*count*/,
                                      unsigned /*flags*/) {
  const std::lock_guard lock(mu);
  const std::unique_ptr<UserObject> object(reinterpret_cast<UserObject*>(given));
  // The thread for host functions destroys it after the graph's last reference is gone.
  graph->objects.emplace_back(object->what, [destroy = object->destroy](void* what) {
    motor.start();
    const std::lock_guard last(mu);
    host_functions.emplace_back([destroy, what] { destroy(what); });
  });
  return cudaSuccess;
}
void cuda_on_host_fails(cudaError_t error) { broken_by = error; }
void cuda_on_host_is_full(bool is) { is_full = is; }
int cuda_on_host_kernels() { return kernels_launched; }
int cuda_on_host_team_kernels() { return team_kernels_launched; }
int cuda_on_host_team_kernels_by_words() { return team_kernels_by_words; }
void cuda_on_host_holds_kernels(bool holds) { holds_kernels = holds; }
void cuda_on_host_holds_graphs(bool holds) { holds_graphs = holds; }
int cuda_on_host_held_kernels() { return held_kernels; }
void cuda_on_host_holds_copies(bool holds) {
  const std::lock_guard lock(mu);
  holds_copies = holds;
  held_copies = 0;
}
int cuda_on_host_held_copies() { return held_copies; }
void cuda_on_host_moves(const void* memory, std::size_t bytes, bool is_there) {
  const std::lock_guard lock(mu);
  of_another.erase(memory);
  if (is_there) of_another[memory] = {bytes};
}
int cuda_on_host_runs_teams() { return kernels_running; }
void cuda_on_host_has_multiprocessors(int count) { multiprocessors = count; }
void cuda_on_host_refuses(int device, bool does) {
  const std::lock_guard lock(mu);
  does ? void(refusing.insert(device)) : void(refusing.erase(device));
}
void cuda_on_host_closes(const void* memory) {
  const std::lock_guard lock(mu);
  Stretch& stretch = on_device.at(memory);
  stretch.open_to = std::set{stretch.device};
}
void cuda_on_host_has_peers(cuda_on_host_peers how) {
  const std::lock_guard lock(mu);
  *peers_go_on = true;
  peers_go_on = std::make_shared<std::atomic<bool>>(false);
  peering = how;
}
cuda_on_host_traffic cuda_on_host_carried(int by, int from, int to) {
  const std::lock_guard lock(mu);
  return DeviceCopy::carried[{by, from, to}];
}
void cuda_on_host_hides_memory(bool does) {
  const std::lock_guard lock(mu);
  hides = does;
}
std::uint64_t cuda_on_host_copied() { return copied; }
std::uint64_t cuda_on_host_copies() { return copies; }
void cuda_on_host_exports(bool does) {
  const std::lock_guard lock(mu);
  exports = does;
}
void cuda_on_host_orders_writes(bool does, bool flush) {
  const std::lock_guard lock(mu);
  orders_writes = does;
  can_flush = flush;
}
std::uint64_t cuda_on_host_flushes() {
  const std::lock_guard lock(mu);
  return flushes;
}
void cuda_on_host_has(int devices) {
  const std::lock_guard lock(mu);
  device_count = devices;
  contexts.clear();
}
bool cuda_on_host_has_context(int device) {
  const std::lock_guard lock(mu);
  return contexts.contains(device);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** address, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  const auto known = driver_calls.find(name);
  *result = known == driver_calls.end() ? cudaDriverEntryPointSymbolNotFound
                                        : cudaDriverEntryPointSuccess;
  *address = known == driver_calls.end() ? nullptr : known->second;
  return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (has_fault("handle")) return cudaErrorNotSupported;
  const AllocationOnHost* const allocation = allocation_at(memory);
  if (allocation == nullptr || allocation->begin() != memory || on_device.at(memory).open_to)
    return cudaErrorInvalidValue;
  *handle = allocation->handle();
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned flags) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  if (has_fault("open")) return cudaErrorMapBufferObjectFailed;
  if (AllocationOnHost::is_of_this_process(handle)) return cudaErrorDeviceUninitialized;
  for (auto& [place, each] : opened) {
    if (each.device != current_device || std::memcmp(&each.handle, &handle, sizeof handle) != 0)
      continue;
    ++each.times;
    *memory = const_cast<void*>(place);
    return cudaSuccess;
  }
  auto made = AllocationOnHost::open(handle, has_fault("elsewhere"));
  if (made == nullptr) return cudaErrorInvalidResourceHandle;
  if (made->device() != current_device && peering == kPeersTooMany) return cudaErrorTooManyPeers;
  if (made->device() != current_device && peering == kPeersApart)
    return cudaErrorMapBufferObjectFailed;
  *memory = made->begin();
  on_device[*memory] = {made->bytes(), made->device(), std::set{made->device(), current_device}};
  opened[*memory] = {handle, current_device, std::move(made)};
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  const auto found = opened.find(memory);
  if (found == opened.end() || found->second.device != current_device) return cudaErrorInvalidValue;
  if (--found->second.times > 0) return cudaSuccess;
  on_device.erase(memory);
  opened.erase(found);
  return cudaSuccess;
}
std::size_t cuda_on_host_registered() {
  const std::lock_guard lock(mu);
  return static_cast<std::size_t>(
      std::ranges::count_if(pinned, [](const auto& each) { return each.second.is_registered; }));
}
std::uint64_t cuda_on_host_made_for_cards() { return made_for_cards; }
int cuda_on_host_opened() {
  const std::lock_guard lock(mu);
  int times = 0;
  for (const auto& [place, each] : opened) times += each.times;
  return times;
}

}  // extern "C"

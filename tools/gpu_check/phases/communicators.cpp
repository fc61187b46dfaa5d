// SPDX-License-Identifier: Apache-2.0
// Communicators whose ranks are all on one GPU, as threads of this process and as processes, in
// each way that their calls can take. Calls in streams must leave the same results as communicators
// without a GPU.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "ccoll/communicator.hpp"
#include "core/text.hpp"
#include "gpu/cuda/cuda.hpp"
#include "gpu_check/children.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/graph.hpp"
#include "schedule/problem.hpp"
#include "support/differences.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

using Bytes = std::vector<std::byte>;
using device::cuda_status;

constexpr int kProcesses = 8;
constexpr std::size_t kGuardBytes = 64;
/// In one buffer, which also limits sums over ranks.
constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kArena = 4 << 20;
constexpr std::size_t kMostTimed = 16 << 20;

/// One call, the same on all ranks.
struct Draw {
  Kind kind = Kind::all_reduce;
  DataType type = DataType::uint32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;

  std::size_t bytes(bool input, int size) const {
    if (kind == Kind::barrier) return 0;
    const bool many =
        kind == Kind::all_to_all || (input ? kind == Kind::reduce_scatter || kind == Kind::scatter
                                           : kind == Kind::all_gather || kind == Kind::gather);
    return count * size_of(type) * (many ? static_cast<std::size_t>(size) : 1);
  }
  std::string text() const {
    return fmt::format("{} of {} {} ({}), root {}{}", to_string(kind), count, to_string(type),
                       to_string(op), root, in_place ? ", in place" : "");
  }
  Work begin(Communicator& c, const void* input, void* output, const CallOptions& options) const;
};

Work Draw::begin(Communicator& c, const void* input, void* output,
                 const CallOptions& options) const {
  switch (kind) {
    case Kind::all_reduce:
      return c.all_reduce_async(ConstBlock(input, count, type), Block(output, count, type), op,
                                options);
    case Kind::reduce:
      return c.reduce_async(ConstBlock(input, count, type), Block(output, count, type), op, root,
                            options);
    case Kind::broadcast:
      return c.broadcast_async(ConstBlock(input, count, type), Block(output, count, type), root,
                               options);
    case Kind::all_gather:
      return c.all_gather_async(ConstBlock(input, count, type),
                                Block(output, c.size() * count, type), options);
    case Kind::reduce_scatter:
      return c.reduce_scatter_async(ConstBlock(input, c.size() * count, type),
                                    Block(output, count, type), op, options);
    case Kind::all_to_all:
      return c.all_to_all_async(ConstBlock(input, c.size() * count, type),
                                Block(output, c.size() * count, type), options);
    case Kind::gather:
      return c.gather_async(ConstBlock(input, count, type), Block(output, c.size() * count, type),
                            root, options);
    case Kind::scatter:
      return c.scatter_async(ConstBlock(input, c.size() * count, type), Block(output, count, type),
                             root, options);
    case Kind::barrier:
      break;
  }
  return c.barrier_async(options);
}

Draw random_draw(std::mt19937_64& same, int size) {
  constexpr Kind kKinds[] = {Kind::all_reduce,     Kind::reduce,     Kind::broadcast,
                             Kind::all_gather,     Kind::all_to_all, Kind::gather,
                             Kind::reduce_scatter, Kind::scatter,    Kind::barrier};
  constexpr DataType kTypes[] = {DataType::uint8, DataType::int32, DataType::float32,
                                 DataType::float64};
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max};
  constexpr std::size_t kCounts[] = {0, 1, 3, 100, 4097};
  Draw draw;
  draw.kind = kKinds[same() % std::size(kKinds)];
  draw.type = kTypes[same() % std::size(kTypes)];
  draw.op = kOps[same() % std::size(kOps)];
  draw.root = static_cast<int>(same() % static_cast<unsigned>(size));
  const bool has_in_place =
      draw.kind == Kind::all_reduce || draw.kind == Kind::reduce || draw.kind == Kind::broadcast;
  draw.in_place = has_in_place && same() % 3 == 0;
  const std::size_t most = kMostBytes / 8 / static_cast<std::size_t>(size);
  // Small and large sizes are equally frequent.
  const auto any = static_cast<std::size_t>(
      std::exp(std::log(most) * static_cast<double>(same() % 1000) / 1000));
  draw.count = same() % 2 == 0 ? kCounts[same() % std::size(kCounts)] : any;
  return draw;
}

/// Floats whose sums are exact in any order.
template <typename T>
void fill_with(std::byte* to, std::size_t bytes, std::mt19937_64& random) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    const T value = static_cast<T>(static_cast<int>(random() % 201) - 100);
    std::memcpy(to + i, &value, sizeof value);
  }
}

void fill(std::byte* to, std::size_t bytes, DataType type, std::mt19937_64& random) {
  if (type == DataType::float32) return fill_with<float>(to, bytes, random);
  if (type == DataType::float64) return fill_with<double>(to, bytes, random);
  for (std::size_t i = 0; i < bytes; i++) to[i] = static_cast<std::byte>(random());
}

/// Reports what a rank is doing when it hangs. By then its calls' own time limits have passed, so
/// its stream never continues, and only the phase's limit ends it.
class Watch {
 public:
  explicit Watch(std::function<void(const std::string&)> say)
      : say_(std::move(say)), thread_([this](const std::stop_token& stop) { look(stop); }) {}

  void at(std::string what) {
    const std::lock_guard lock(mu_);
    what_ = std::move(what);
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static inline const std::chrono::seconds kPatience{testing::by_effort(45, 15, 45)};

  void look(const std::stop_token& stop) {
    std::unique_lock lock(mu_);
    const auto is_late = [this] { return Clock::now() - since_ > kPatience; };
    while (!stop.stop_requested()) {
      if (is_late()) return say_(what_);
      bell_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    }
  }

  const std::function<void(const std::string&)> say_;
  std::mutex mu_;
  std::string what_ = "start-up";           // guarded by mu_
  Clock::time_point since_ = Clock::now();  // guarded by mu_
  std::condition_variable_any bell_;
  std::jthread thread_;  // last, because it uses all of the above
};

/// One rank's results, reported when all have ended.
struct RankReport {
  std::uint64_t tried = 0;
  std::vector<std::string> wrong;
  std::vector<std::string> left_out;  ///< for lack of time
  std::string failed;                 ///< the error that ended it early
  std::vector<nlohmann::json> figures;
};

/// A rank's work, the same on all ranks except for the places of its buffers.
class TriedRank {
 public:
  TriedRank(const std::shared_ptr<Store>& store, int rank, int size, std::string way,
            const PhaseContext& context, RankReport& report)
      : rank_(rank),
        size_(size),
        way_(std::move(way)),
        report_(report),
        watch_([this, &context](const std::string& what) {
          const auto said =
              fmt::format("rank {} of {}, by {}, stands in: {}", rank_, size_, way_, what);
          std::printf("%s\n", said.c_str());
          std::fflush(stdout);
          context.records.add({{"phase", context.name}, {"what", "stands"}, {"said", said}});
        }),
        same_(context.seed + static_cast<unsigned>(size)),
        own_(context.seed + 1000 * static_cast<unsigned>(size) + static_cast<unsigned>(rank)),
        store_(store),
        host_in_(kArena),
        host_out_(kArena) {}

  void run() {
    // Create the host's communicator and memory first: then all ranks have them before any call.
    // Waiting streams have queues of their own, so allocating waits for nobody.
    value_or_throw(make_memory());
    auto host = make("host", kHost, std::size_t{64} << 20);
    auto communicator = make("calls", 0, std::size_t{64} << 20);
    auto crowded = make("crowded", 0, std::size_t{64} << 10);
    const bool is_made_by_device = communicator.counters().device_workspace_bytes > 0;
    judge(is_made_by_device == (way_ != "host"), "calls are not made that way");
    graphs(communicator, host);
    trials(communicator, host);
    messages(communicator, host);
    crowd(crowded, host);
    if (size_ == 2) figures(communicator);
    // Freeing memory waits for all streams of the process, so all must be done first.
    watch_.at("the end");
    communicator.barrier();
  }

 private:
  Communicator make(const char* name, int device, std::size_t device_memory) {
    CommunicatorOptions options;
    options.name = name;
    options.device.ordinal = device;
    for (const auto way : {DeviceWay::team, DeviceWay::steps, DeviceWay::host})
      if (way_ == to_string(way)) options.device.way = way;
    options.device.staging_bytes = device_memory;
    options.timeout = std::chrono::seconds(testing::by_effort(30, 10, 30));
    options.start_timeout = std::chrono::seconds(testing::by_effort(60, 20, 60));
    return Communicator::create(make_prefix_store(store_, name), rank_, size_, options);
  }

  Status make_memory() {
    const std::size_t bytes = size_ == 2 ? kMostTimed : kArena;
    CCOLL_TRY(device::put(device::make_stream(), stream_));
    CCOLL_TRY(device::put(device::make_stream(), other_stream_));
    CCOLL_TRY(device::put(device::allocate_on_device(bytes), device_in_));
    CCOLL_TRY(device::put(device::allocate_on_device(bytes), device_out_));
    return device::put(device::allocate_mapped(bytes), pinned_);
  }

  CallOptions in(const device::OwnStream& stream) const {
    CallOptions options;
    options.stream = stream.get();
    return options;
  }
  void wait(const device::OwnStream& stream) const {
    check(cudaStreamSynchronize(stream.get()), "waiting for a stream");
  }
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) const {
    check(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "copying");
  }
  void expect_none(const Communicator& communicator) const {
    if (const auto error = communicator.error(); !error.empty())
      throw std::runtime_error("broken: " + error);
  }
  /// Whether rank 0 has time for more, which all ranks learn; if not, notes what is left out.
  bool goes_on(Communicator& host, const std::string& left_out) {
    std::uint8_t late = is_late() ? 1 : 0;
    host.broadcast(Block(&late, 1, DataType::uint8), 0);
    if (late != 0) report_.left_out.push_back(fmt::format("{} of {} by {}", left_out, size_, way_));
    return late == 0;
  }
  void judge(const Bytes& found, const Bytes& expected, const std::string& what) {
    judge(found == expected, what + ": " + testing::differences(found, expected));
  }
  void judge(bool right, const std::string& what) {
    report_.tried++;
    if (!right && report_.wrong.size() < 20)
      report_.wrong.push_back(fmt::format("rank {} of {}, by {}: {}", rank_, size_, way_, what));
  }

  void graphs(Communicator& communicator, Communicator& host);
  void trials(Communicator& communicator, Communicator& host);
  void trial(Communicator& communicator, Communicator& host, const Draw& draw);
  void make_call(Communicator& communicator, const Draw& draw, const void* input, void* output);
  void messages(Communicator& communicator, Communicator& host);
  void crowd(Communicator& communicator, Communicator& host);
  void figures(Communicator& communicator);
  void figure(Communicator& communicator, const char* call, std::size_t bytes,
              const std::function<void()>& make);
  double median_of(Communicator& communicator, const std::function<void()>& what) const;

  const int rank_;
  const int size_;
  const std::string way_;
  RankReport& report_;
  Watch watch_;
  std::mt19937_64 same_, own_;
  const std::shared_ptr<Store> store_;
  Bytes host_in_, host_out_;
  device::DeviceMemory device_in_, device_out_;
  device::MappedMemory pinned_;
  device::OwnStream stream_, other_stream_;
};

/// A graph captured before the communicator's first call; it runs a thousand times, with plain
/// calls in between.
void TriedRank::graphs(Communicator& communicator, Communicator& host) {
  constexpr std::size_t kCount = 1000, kShare = 100;
  constexpr int kLaunches = 5;
  const int rounds = testing::by_effort(8, 200, 1000);
  auto* const sums = reinterpret_cast<std::uint32_t*>(device_in_.get());
  auto* const gathered = reinterpret_cast<std::uint32_t*>(device_out_.get());
  const cudaStream_t streams[] = {stream_.get()};
  const Graph graph(streams, [&] {
    communicator.all_reduce(Block(sums, kCount, DataType::uint32), ReduceOp::sum, in(stream_));
    communicator.all_gather(ConstBlock(sums, kShare, DataType::uint32),
                            Block(gathered, communicator.size() * kShare, DataType::uint32),
                            in(stream_));
  });
  std::vector<std::uint32_t> values(kCount), got(kCount), parts(kShare);
  const auto size = static_cast<std::uint32_t>(size_);
  for (int round = 0; round < rounds; round++) {
    if (round % 10 == 9 && !goes_on(host, fmt::format("{} rounds of graphs", rounds - round)))
      return;
    watch_.at(
        fmt::format("a graph's launches {} to {}", kLaunches * round, kLaunches * (round + 1) - 1));
    const auto from = static_cast<std::uint32_t>(7 * round);
    std::iota(values.begin(), values.end(), from + static_cast<std::uint32_t>(rank_));
    copy(sums, values.data(), 4 * kCount, cudaMemcpyHostToDevice);
    for (int i = 0; i < kLaunches; i++) graph.launch(streams);
    communicator.all_reduce(Block(sums, kCount, DataType::uint32), ReduceOp::sum, in(stream_));
    copy(got.data(), sums, 4 * kCount, cudaMemcpyDeviceToHost);
    copy(parts.data(), gathered + (size - 1) * kShare, 4 * kShare, cudaMemcpyDeviceToHost);
    wait(stream_);
    expect_none(communicator);
    std::uint32_t factor = 1;  // of all but the first sum and the last
    for (int i = 0; i + 1 < kLaunches; i++) factor *= size;
    std::string wrong;
    const auto expect = [&](const char* what, std::uint32_t i, std::uint32_t found,
                            std::uint32_t expected) {
      if (found != expected && wrong.empty())
        wrong = fmt::format("element {} of {}: found {}, expected {}", i, what, found, expected);
    };
    for (std::uint32_t i = 0; i < kCount; i++) {
      const std::uint32_t sum = size * (from + i) + size * (size - 1) / 2;
      expect("the sums", i, got[i], sum * factor * size);
      if (i < kShare) expect("what was gathered last", i, parts[i], sum * factor);
    }
    judge(wrong.empty(),
          fmt::format("a graph, launched {} times: {}", kLaunches * (round + 1), wrong));
  }
}

void TriedRank::trials(Communicator& communicator, Communicator& host) {
  const int count = testing::by_effort(20, 400, 2000);
  for (int i = 0; i < count; i++) {
    if (i % 20 == 19 && !goes_on(host, fmt::format("{} calls", count - i))) return;
    trial(communicator, host, random_draw(same_, size_));
  }
}

/// Makes one call on the host, then in the stream on buffers in either memory.
void TriedRank::trial(Communicator& communicator, Communicator& host, const Draw& draw) {
  watch_.at(draw.text());
  const std::size_t input_bytes = draw.bytes(true, size_);
  const std::size_t output_bytes = draw.bytes(false, size_);
  Bytes input(input_bytes), before(output_bytes + 2 * kGuardBytes);
  fill(input.data(), input_bytes, draw.type, own_);
  fill(before.data(), before.size(), DataType::uint8, own_);
  if (draw.in_place) std::ranges::copy(input, before.begin() + kGuardBytes);
  Bytes expected = before;
  std::byte* const result = expected.data() + kGuardBytes;
  draw.begin(host, draw.in_place ? result : input.data(), result, {}).wait();

  const bool input_there = own_() % 4 != 0, output_there = own_() % 4 != 0;
  // Behind the offset and the guards there is room for the largest.
  std::byte* const from = (input_there ? device_in_.get() : host_in_.data()) + own_() % 256;
  std::byte* const to = (output_there ? device_out_.get() : host_out_.data()) + own_() % 256;
  const auto put = [&](bool there, std::byte* place, const Bytes& bytes) {
    if (there)
      copy(place, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
    else
      std::ranges::copy(bytes, place);
  };
  put(input_there, from, input);
  put(output_there, to, before);
  make_call(communicator, draw, draw.in_place ? to + kGuardBytes : from, to + kGuardBytes);
  const auto get = [&](bool there, const std::byte* place, Bytes& bytes) {
    if (there)
      copy(bytes.data(), place, bytes.size(), cudaMemcpyDeviceToHost);
    else
      std::copy_n(place, bytes.size(), bytes.data());
  };
  Bytes got(before.size()), kept(input_bytes);
  get(output_there, to, got);
  get(input_there, from, kept);
  wait(stream_);
  expect_none(communicator);
  judge(got, expected, draw.text());
  judge(kept, input, draw.text() + ": its input was written");
}

/// Makes the call in a random way and waits for it.
void TriedRank::make_call(Communicator& communicator, const Draw& draw, const void* input,
                          void* output) {
  const auto begin = [&] { return draw.begin(communicator, input, output, in(stream_)); };
  // All ranks replay graphs equally often, so that is drawn alike; how they wait may differ.
  if (same_() % 3 == 0) {
    const cudaStream_t streams[] = {stream_.get()};
    const Graph graph(streams, begin);
    const auto launches = draw.in_place ? 1 : 1 + same_() % 3;
    for (std::size_t i = 0; i < launches; i++) graph.launch(streams);
    wait(stream_);
    return;
  }
  auto work = begin();
  if (own_() % 2 == 0) return work.wait();
  wait(stream_);
}

/// To the next rank and from the one before, with lengths for whole copies and for pieces.
void TriedRank::messages(Communicator& communicator, Communicator& host) {
  const int to = (rank_ + 1) % size_, from = (rank_ + size_ - 1) % size_;
  const auto content = [](int i, int sender, std::size_t bytes) {
    std::mt19937_64 random(static_cast<std::uint64_t>(100 * i + sender));
    Bytes all(bytes);
    fill(all.data(), bytes, DataType::uint8, random);
    return all;
  };
  const int count = testing::by_effort(4, 60, 300);
  for (int i = 0; i < count; i++) {
    if (i % 10 == 9 && !goes_on(host, fmt::format("{} messages", count - i))) return;
    std::vector<std::size_t> lengths;  // by sender
    for (int rank = 0; rank < size_; rank++)
      lengths.push_back(same_() % (same_() % 2 == 0 ? std::size_t{300} << 10 : kArena - 256));
    const auto sent = lengths[static_cast<std::size_t>(rank_)];
    const auto received = lengths[static_cast<std::size_t>(from)];
    const auto text = fmt::format("message {}: {} bytes to rank {}, {} from rank {}", i, sent, to,
                                  received, from);
    watch_.at(text);
    std::byte* const out = device_in_.get() + own_() % 256;
    std::byte* const place = device_out_.get() + own_() % 256;
    const Bytes sent_bytes = content(i, rank_, sent);
    copy(out, sent_bytes.data(), sent, cudaMemcpyHostToDevice);
    wait(stream_);
    const auto exchange = [&] {
      return communicator.send_recv_async(ConstBlock(out, sent, DataType::uint8), to,
                                          Block(place, received, DataType::uint8), from, i,
                                          in(stream_));
    };
    if (same_() % 3 == 0) {
      const cudaStream_t streams[] = {stream_.get()};
      const Graph graph(streams, exchange);
      for (int launch = 0; launch < 2; launch++) graph.launch(streams);
      wait(stream_);
    } else {
      exchange().wait();
    }
    Bytes got(received);
    copy(got.data(), place, received, cudaMemcpyDeviceToHost);
    wait(stream_);
    expect_none(communicator);
    judge(got, content(i, from, received), text);
  }
}

/// More calls in two streams than there is memory for, one larger than all of it.
void TriedRank::crowd(Communicator& communicator, Communicator& host) {
  const int calls = testing::by_effort(30, 120, 120);
  const device::OwnStream* const streams[] = {&stream_, &other_stream_};
  const auto size = static_cast<std::uint32_t>(size_);
  auto* const all = reinterpret_cast<std::uint32_t*>(device_in_.get());
  for (int round = 0; round < testing::by_effort(1, 5, 20); round++) {
    if (!goes_on(host, fmt::format("crowds of {} calls", calls))) return;
    watch_.at(fmt::format("{} calls under way, round {}", calls, round));
    std::vector<std::uint32_t> values(kArena / 4);
    std::iota(values.begin(), values.end(), static_cast<std::uint32_t>(rank_));
    copy(all, values.data(), kArena, cudaMemcpyHostToDevice);
    wait(stream_);
    std::size_t end = 0;
    for (int i = 0; i < calls; i++) {
      const std::size_t count = i % 40 == 20 ? 40'000 : same_() % 6000;
      communicator.all_reduce(Block(all + end, count, DataType::uint32), ReduceOp::sum,
                              in(*streams[i % 2]));
      end += count;
    }
    for (const auto* stream : streams) wait(*stream);
    expect_none(communicator);
    std::vector<std::uint32_t> got(end);
    copy(got.data(), all, 4 * end, cudaMemcpyDeviceToHost);
    wait(stream_);
    std::vector<std::uint32_t> expected(end);
    for (std::uint32_t i = 0; i < end; i++) expected[i] = size * i + size * (size - 1) / 2;
    judge(got == expected, fmt::format("{} calls under way: {}", calls,
                                       testing::differences(std::as_bytes(std::span(got)),
                                                            std::as_bytes(std::span(expected)))));
  }
}

double TriedRank::median_of(Communicator& communicator, const std::function<void()>& what) const {
  std::vector<double> seconds;
  for (int i = 0; i < testing::by_effort(3, 31, 31); i++) {
    communicator.barrier();
    const auto begin = std::chrono::steady_clock::now();
    what();
    wait(stream_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds.push_back(took.count());
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void TriedRank::figures(Communicator& communicator) {
  const auto in_stream = in(stream_);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{64} << 10, kMostTimed})
    figure(communicator, "all_reduce", bytes, [&] {
      communicator.all_reduce(ConstBlock(device_in_.get(), bytes / 4, DataType::uint32),
                              Block(device_out_.get(), bytes / 4, DataType::uint32), ReduceOp::sum,
                              in_stream);
    });
  figure(communicator, "send_recv", kMostTimed, [&] {
    communicator.send_recv(ConstBlock(device_in_.get(), kMostTimed, DataType::uint8), 1 - rank_,
                           Block(device_out_.get(), kMostTimed, DataType::uint8), 1 - rank_, 0,
                           in_stream);
  });
}

/// Compares with the copies alone, which both ranks make at once, too.
void TriedRank::figure(Communicator& communicator, const char* call, std::size_t bytes,
                       const std::function<void()>& make) {
  watch_.at(fmt::format("timed calls of {}, {} bytes", call, bytes));
  const double seconds = median_of(communicator, make);
  expect_none(communicator);
  const double copies = median_of(communicator, [&] {
    check(cudaMemcpyAsync(pinned_.get(), device_in_.get(), bytes, cudaMemcpyDefault, stream_.get()),
          "copying to the host");
    check(
        cudaMemcpyAsync(device_out_.get(), pinned_.get(), bytes, cudaMemcpyDefault, stream_.get()),
        "copying to the GPU");
  });
  report_.figures.push_back({{"what", "a call in streams"},
                             {"call", call},
                             {"way", way_},
                             {"ranks", size_},
                             {"bytes", bytes},
                             {"seconds", seconds},
                             {"copies_s", copies}});
}

/// Runs everything; errors are in the report.
RankReport run_rank(const PhaseContext& context, const std::shared_ptr<Store>& store, int rank,
                    int size, const std::string& way) {
  RankReport report;
  try {
    TriedRank(store, rank, size, way, context, report).run();
  } catch (const std::exception& error) {
    report.failed = fmt::format("rank {} of {}, by {}: {}", rank, size, way, error.what());
  }
  return report;
}

void tell(const PhaseContext& context, const RankReport& report, int rank, const char* ranks_are,
          Findings& findings) {
  for (std::uint64_t i = 0; i < report.tried; i++) findings.tried();
  for (const std::string& each : report.wrong) findings.wrong(each);
  if (!report.failed.empty()) findings.wrong(report.failed);
  if (rank != 0) return;
  for (const std::string& each : report.left_out) findings.leave_out(each);
  for (nlohmann::json figure : report.figures) {
    figure.update({{"phase", context.name}, {"ranks_are", ranks_are}});
    context.records.add(figure);
    std::printf(
        "%s\n",
        fmt::format("2 {}, by {}, {} of {} B: {:.1f} us, the copies alone {:.1f}", ranks_are,
                    figure["way"].get<std::string>(), figure["call"].get<std::string>(),
                    figure["bytes"].get<std::size_t>(), figure["seconds"].get<double>() * 1e6,
                    figure["copies_s"].get<double>() * 1e6)
            .c_str());
  }
  std::fflush(stdout);
}

void run_threads(const PhaseContext& context, int size, const std::string& way,
                 Findings& findings) {
  const auto store = make_inproc_store();
  std::vector<RankReport> reports(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; rank++) {
      threads.emplace_back([&, rank] {
        reports[static_cast<std::size_t>(rank)] = run_rank(context, store, rank, size, way);
      });
    }
  }
  std::uint64_t tried = 0;
  for (int rank = 0; rank < size; rank++) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    tell(context, report, rank, "threads", findings);
    tried += report.tried;
  }
  context.records.add({{"phase", context.name},
                       {"what", "trials"},
                       {"ranks_are", "threads"},
                       {"way", way},
                       {"ranks", size},
                       {"seed", context.seed},
                       {"tried", tried}});
}

std::filesystem::path store_of(const std::string& out) { return out + "/communicators.store"; }

/// Runs the groups that this process belongs to, one after another. Their ranks begin each
/// together.
void run_groups(const PhaseContext& context, int rank, Findings& findings) {
  const auto store = make_file_store(store_of(context.out).string());
  int left = 6;
  for (const int size : {2, 4, kProcesses}) {
    for (const std::string way : {"steps", "host"}) {
      Until::here().begin_part(left--);
      if (rank >= size) continue;
      const Check check(findings, fmt::format("rank {} of {} processes by {}", rank, size, way));
      const auto report = run_rank(
          context, make_prefix_store(store, fmt::format("{} {}", way, size)), rank, size, way);
      tell(context, report, rank, "processes", findings);
      if (!report.failed.empty()) return;
    }
  }
}

}  // namespace

int run_communicator(const std::string& handle) {
  const PeerArguments arguments(handle);
  const Records records(arguments.out + "/results.jsonl");
  const bool is_process = arguments.kind == "process";
  const PhaseContext context{is_process ? "ways" : "communicators", records, arguments.seed,
                             arguments.out};
  Findings findings(context);
  if (!is_process) {
    run_threads(context, arguments.size, arguments.kind, findings);
    return findings.close(fmt::format("calls of {} threads by {}", arguments.size, arguments.kind));
  }
  run_groups(context, arguments.rank, findings);
  return findings.close(fmt::format("calls of rank {}", arguments.rank));
}

int run_communicators(const PhaseContext& context) {
  Findings findings(context);
  // A hanging group is ended before the phase is, so that the others are tried, too.
  const std::chrono::seconds patience(testing::by_effort(100, 25, 100));
  int left = 10;
  for (const int size : {2, 1, 4, 8, 3}) {
    for (const std::string way : {"team", "host"}) {
      Until::here().begin_part(left--);
      const Check check(findings, fmt::format("{} threads by {}", size, way));
      await_peers({start_peer("communicator", PeerArguments::text(way, size, 0, context))},
                  findings, patience);
    }
  }
  return findings.close("communicators");
}

int run_ways(const PhaseContext& context) {
  Findings findings(context);
  std::filesystem::remove(store_of(context.out));
  std::vector<pid_t> children;
  for (int rank = 0; rank < kProcesses; rank++) {
    children.push_back(
        start_peer("communicator", PeerArguments::text("process", kProcesses, rank, context)));
  }
  await_peers(children, findings, std::chrono::seconds(testing::by_effort(200, 55, 200)));
  std::filesystem::remove(store_of(context.out));
  return findings.close("processes");
}

}  // namespace ccoll::gpu_check

// SPDX-License-Identifier: Apache-2.0
#include "show/real/timed_calls.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "algorithms/algorithms.hpp"
#include "bench/command/names.hpp"
#include "bench/measure/measure.hpp"
#include "bench/report/text_file.hpp"
#include "ccoll/ccoll.hpp"
#include "run/launch.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::show {

namespace {

using Clock = std::chrono::steady_clock;

/// The time for one call's timing: more calls do not improve the median, and fewer give none.
constexpr double kTimedUs = 50'000;
constexpr double kFewestCalls = 9;
constexpr double kMostCalls = 270;
constexpr std::chrono::seconds kLimitOfTimedCalls{60};
constexpr std::size_t kMostListBytes = 1 << 20;

std::string list_text(std::span<const TimedCall> calls) {
  nlohmann::json list = nlohmann::json::array();
  for (const TimedCall& call : calls) {
    nlohmann::json one = {{"operation", call.operation->name},
                          {"algorithm", to_string(call.algorithm)},
                          {"bytes", call.bytes},
                          {"dtype", to_string(call.type)},
                          {"root", call.root}};
    if (call.median_us) one["median_us"] = *call.median_us;
    list.push_back(std::move(one));
  }
  return list.dump();
}

TimedCall call_in(const nlohmann::json& one) {
  TimedCall call;
  call.operation = bench::find_operation(one.at("operation").get<std::string>());
  const auto algorithm = parse_algorithm(one.at("algorithm").get<std::string>());
  const auto types = bench::parse_types(one.at("dtype").get<std::string>());
  call.bytes = one.at("bytes");
  call.root = one.at("root");
  if (call.operation == nullptr || !algorithm || !types)
    throw Error(ErrorKind::invalid_argument, "");
  call.algorithm = *algorithm;
  call.type = types->front();
  if (one.contains("median_us")) call.median_us = one["median_us"].get<double>();
  return call;
}

Result<std::vector<TimedCall>> calls_in(const std::string& path) {
  const auto text = bench::text_in(path, kMostListBytes);
  if (!text) return tl::unexpected(text.error());
  std::vector<TimedCall> calls;
  try {
    for (const auto& one : nlohmann::json::parse(*text)) calls.push_back(call_in(one));
  } catch (const std::exception&) {
    return fail(ErrorKind::invalid_argument, "{} {}: expected what cc-show has written itself",
                kAsRankOption, path);
  }
  return calls;
}

Status write_list(const std::string& path, std::span<const TimedCall> calls) {
  std::ofstream file(path, std::ios::trunc);
  file << list_text(calls) << std::flush;
  if (file) return {};
  return fail(ErrorKind::exhausted, "cannot write {}", path);
}

/// One rank's part in a call that is repeated.
class Caller {
 public:
  Caller(Communicator& communicator, const TimedCall& call)
      : communicator_(communicator), operation_(*call.operation) {
    const std::uint64_t count =
        bench::count_of(operation_, call.type, communicator.size(), call.bytes);
    const auto root = static_cast<int>(call.root);
    const bench::Layout layout = operation_.layout(
        {.size = communicator.size(), .rank = communicator.rank(), .root = root, .count = count});
    input_.resize(std::max<std::size_t>(1, layout.input_elems * size_of(call.type)));
    output_.resize(std::max<std::size_t>(1, layout.output_elems * size_of(call.type)));
    arguments_ = {.input = input_.data(),
                  .output = output_.data(),
                  .count = count,
                  .type = call.type,
                  .op = ReduceOp::sum,
                  .root = root,
                  .options = {}};
    arguments_.options.algorithm = to_string(call.algorithm);
  }

  void operator()() { operation_.call(communicator_, arguments_); }

 private:
  Communicator& communicator_;
  const bench::Operation& operation_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  bench::Arguments arguments_;
};

/// How often to make a call, according to rank 0's time for it; 0 if the time is over. All ranks
/// get rank 0's number.
std::uint64_t how_often(Communicator& communicator, Clock::time_point end, Caller& call) {
  std::uint64_t often = Clock::now() < end ? 1 : 0;
  communicator.broadcast(std::span(&often, 1), 0);
  if (often == 0) return 0;
  // The first call opens links.
  call();
  const auto begin = Clock::now();
  call();
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  often = static_cast<std::uint64_t>(
      std::clamp(kTimedUs / std::max(us, 1.0), kFewestCalls, kMostCalls));
  communicator.broadcast(std::span(&often, 1), 0);
  return often;
}

void time_all(Communicator& communicator, std::vector<TimedCall>& calls) {
  const auto end = Clock::now() + std::chrono::seconds(kMostSecondsTimed);
  for (TimedCall& each : calls) {
    Caller call(communicator, each);
    const std::uint64_t often = how_often(communicator, end, call);
    if (often == 0) return;
    each.median_us =
        bench::measure(communicator, {.iters = often, .warmup = 1}, [&] { call(); }).p50_us;
  }
}

}  // namespace

Status time_calls(Rank ranks, std::vector<TimedCall>& calls) {
  // It has no name, and disappears with this process however that ends.
  const FileDescriptor list(memfd_create("cc-show", MFD_CLOEXEC));
  if (!list.open())
    return fail(ErrorKind::exhausted, "cannot tell ranks what to do: memfd_create: {}",
                std::strerror(errno));
  const std::string path = fmt::format("/proc/{}/fd/{}", getpid(), list.number());
  CCOLL_TRY(write_list(path, calls));
  LaunchOptions job;
  job.ranks = static_cast<int>(ranks);
  job.command = {"/proc/self/exe", "simulate", kAsRankOption, path};
  job.prefix = false;
  job.name = "cc-show";
  const auto status = launch(job);
  if (!status) return tl::unexpected(status.error());
  if (*status != 0) return fail(ErrorKind::internal, "a rank ended with status {}", *status);
  auto timed = calls_in(path);
  CCOLL_TRY(timed);
  calls = std::move(*timed);
  return {};
}

Result<Output> time_as_rank(const std::string& path) {
  auto calls = calls_in(path);
  CCOLL_TRY(calls);
  try {
    CommunicatorOptions options = CommunicatorOptions::from_environment();
    options.transport = kTimedTransport;
    options.timeout = options.start_timeout = kLimitOfTimedCalls;
    auto communicator = Communicator::create(Environment::detect(), options);
    time_all(communicator, *calls);
    if (communicator.rank() == 0) CCOLL_TRY(write_list(path, *calls));
  } catch (const std::exception& error) {
    return fail(ErrorKind::internal, "{}", error.what());
  }
  return Output{};
}

}  // namespace ccoll::show

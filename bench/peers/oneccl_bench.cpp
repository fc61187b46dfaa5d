// SPDX-License-Identifier: Apache-2.0
// Times one of oneCCL's collectives on float32 in host memory, for bench/compare.
//
// Usage: mpiexec.hydra -n N oneccl_bench [--fresh] [--first] OP BYTES...
//   OP: all_reduce all_gather reduce_scatter all_to_all broadcast reduce send_recv barrier
//
// Sizes, medians, rows, --fresh and --first are those of mpi_bench.c. Before it is timed, each
// operation's result is compared with what it must be.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <oneapi/ccl.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

// oneCCL's static library reports to a profiler through these pointers, which the program must
// define. Null means that there is no profiler.
extern "C" {
void* __itt_domain_create_ptr__3_0 = nullptr;
void* __itt_event_create_ptr__3_0 = nullptr;
void* __itt_event_end_ptr__3_0 = nullptr;
void* __itt_event_start_ptr__3_0 = nullptr;
void* __itt_metadata_add_ptr__3_0 = nullptr;
void* __itt_string_handle_create_ptr__3_0 = nullptr;
void* __itt_task_begin_ptr__3_0 = nullptr;
void* __itt_task_end_ptr__3_0 = nullptr;
void* __itt_thread_set_name_ptr__3_0 = nullptr;
}

namespace {

using Clock = std::chrono::steady_clock;
using Call = std::function<void()>;
constexpr int kBatches = 9, kEarlyCalls = 20;
constexpr double kBatchSeconds = 0.05;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// An operation of one size, on one rank.
struct Point {
  const ccl::communicator& comm;
  std::string op;
  size_t count;  // of elements in the larger of input and output
  std::vector<float> in, out;

  int rank() const { return comm.rank(); }
  int size() const { return comm.size(); }
  size_t part() const { return count / size(); }
};

/// Small enough that every sum is exact.
float input(int rank, size_t index) { return static_cast<float>(rank + 1 + index % 13); }

/// Empty if there is no such operation.
Call call_of(Point& point) {
  const ccl::communicator& comm = point.comm;
  float *in = point.in.data(), *out = point.out.data();
  const size_t count = point.count, part = point.part();
  const int next = (point.rank() + 1) % point.size();
  const int last = (point.rank() + point.size() - 1) % point.size();
  constexpr auto sum = ccl::reduction::sum;
  const std::string& op = point.op;
  if (op == "all_reduce") return [=, &comm] { ccl::allreduce(in, out, count, sum, comm).wait(); };
  if (op == "reduce") return [=, &comm] { ccl::reduce(in, out, count, sum, 0, comm).wait(); };
  if (op == "reduce_scatter")
    return [=, &comm] { ccl::reduce_scatter(in, out, part, sum, comm).wait(); };
  if (op == "all_gather") return [=, &comm] { ccl::allgather(in, out, part, comm).wait(); };
  if (op == "all_to_all") return [=, &comm] { ccl::alltoall(in, out, part, comm).wait(); };
  if (op == "broadcast") return [=, &comm] { ccl::broadcast(in, count, 0, comm).wait(); };
  if (op == "send_recv")
    return [=, &comm] {
      ccl::event sent = ccl::send(in, count, next, comm);
      ccl::recv(out, count, last, comm).wait();
      sent.wait();
    };
  if (op == "barrier") return [&comm] { ccl::barrier(comm).wait(); };
  return {};
}

/// The expected result on this rank: in `out`, except for broadcast, which has one buffer.
std::vector<float> expected(const Point& point) {
  const size_t part = point.part(), first = part * point.rank();
  const int n = point.size();
  std::vector<float> result;
  const auto append = [&](size_t length, auto&& element) {
    for (size_t i = 0; i < length; i++) result.push_back(element(i));
  };
  const auto sum = [n](size_t index) {
    float total = 0;
    for (int r = 0; r < n; r++) total += input(r, index);
    return total;
  };
  const std::string& op = point.op;
  if (op == "all_reduce" || (op == "reduce" && point.rank() == 0)) append(point.count, sum);
  if (op == "reduce_scatter") append(part, [&](size_t i) { return sum(first + i); });
  if (op == "broadcast") append(point.count, [](size_t i) { return input(0, i); });
  if (op == "send_recv")
    append(point.count, [&](size_t i) { return input((point.rank() + n - 1) % n, i); });
  for (int r = 0; r < n; r++) {
    if (op == "all_gather") append(part, [r](size_t i) { return input(r, i); });
    if (op == "all_to_all") append(part, [=](size_t i) { return input(r, first + i); });
  }
  return result;
}

void check(const Point& point) {
  const std::vector<float>& found = point.op == "broadcast" ? point.in : point.out;
  const std::vector<float> wanted = expected(point);
  const auto wrong = std::mismatch(wanted.begin(), wanted.end(), found.begin());
  if (wrong.first == wanted.end()) return;
  throw std::runtime_error(point.op + ": element " + std::to_string(wrong.first - wanted.begin()) +
                           " is " + std::to_string(*wrong.second) + ", not " +
                           std::to_string(*wrong.first));
}

double slowest(const ccl::communicator& comm, double mine) {
  double result = 0;
  ccl::allreduce(&mine, &result, 1, ccl::reduction::max, comm).wait();
  return result;
}

bool fresh = false;  // from the command line, as the next
bool times_first = false;

void renew(Point& point) {
  if (point.op == "broadcast" && point.rank() != 0) return;
  for (size_t i = 0; i < point.count; i += 16) {
    volatile float& first_of_line = point.in[i];
    first_of_line = first_of_line;
  }
}

/// Seconds per call on this rank, over `iters` calls.
double seconds_here(Point& point, const Call& call, int iters) {
  auto start = Clock::now();
  double spent = 0;
  for (int i = 0; i < iters; i++) {
    if (fresh) renew(point), start = Clock::now();
    call();
    if (fresh) spent += seconds_since(start);
  }
  return (fresh ? spent : seconds_since(start)) / iters;
}

/// The same of the slowest rank, for calls that all begin together.
double seconds_of_batch(Point& point, const Call& call, int iters) {
  ccl::barrier(point.comm).wait();
  return slowest(point.comm, seconds_here(point, call, iters));
}

double seconds_per_call(Point& point, const Call& call) {
  const ccl::communicator& comm = point.comm;
  const auto start = Clock::now();
  for (int i = 0; i < 3; i++) call();
  const double estimate = slowest(comm, seconds_since(start) / 3);
  const int iters = std::clamp(static_cast<int>(kBatchSeconds / estimate), 3, 20000);
  std::vector<double> batches;
  for (int b = 0; b < kBatches; b++) batches.push_back(seconds_of_batch(point, call, iters));
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

void run(const ccl::communicator& comm, const std::string& op, size_t bytes) {
  const size_t count = bytes / sizeof(float);
  Point point{comm, op, count, std::vector<float>(count + 1), std::vector<float>(count + 1)};
  for (size_t i = 0; i < count; i++) point.in[i] = input(comm.rank(), i);
  const Call call = call_of(point);
  if (!call) throw std::runtime_error("no operation '" + op + "'");
  double first = 0, early = 0;
  if (times_first) {
    first = seconds_of_batch(point, call, 1);
    early = seconds_of_batch(point, call, kEarlyCalls - 1);
  }
  call();  // the first one sets up connections
  check(point);
  const double seconds = seconds_per_call(point, call);
  if (comm.rank() != 0) return;
  std::printf("%s,%d,%zu,%.3f", op.c_str(), comm.size(), bytes, seconds * 1e6);
  if (times_first) std::printf(",%.3f,%.3f", first * 1e6, early * 1e6);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  fresh = argc > 1 && std::string(argv[1]) == "--fresh";
  argv += fresh, argc -= fresh;
  times_first = argc > 1 && std::string(argv[1]) == "--first";
  argv += times_first, argc -= times_first;
  if (argc < 3) {
    std::fprintf(stderr, "usage: oneccl_bench [--fresh] [--first] OP BYTES...\n");
    return 2;
  }
  std::optional<ccl::communicator> comm;  // out here: its end waits for the other ranks
  try {
    ccl::init();
    comm.emplace(ccl::preview::create_communicator());  // of all mpiexec.hydra's ranks
    for (int i = 2; i < argc; i++) run(*comm, argv[1], std::strtoull(argv[i], nullptr, 10));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "oneccl_bench: %s\n", error.what());
    std::raise(SIGTERM);  // mpiexec.hydra ends the others only if a rank ends by a signal
  }
  return 0;
}

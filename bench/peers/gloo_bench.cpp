// SPDX-License-Identifier: Apache-2.0
// Times one of Gloo's TCP collectives on float32 in host memory, for bench/compare.
//
// Usage: gloo_bench [--fresh] [--first] OP RANKS BYTES...
//   OP: all_reduce all_gather reduce_scatter all_to_all broadcast reduce send_recv barrier
//
//   or start: one call, and then the time of the clock that counts from the machine's start
//
// Starts RANKS processes on this machine, joined over loopback TCP through a FileStore. Sizes,
// medians, rows, --fresh and --first are those of mpi_bench.c. What Gloo can prepare for many
// calls (options, registered buffers, algorithm objects) is prepared outside the timed calls.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using Context = std::shared_ptr<gloo::Context>;
using Clock = std::chrono::steady_clock;
using Call = std::function<void()>;
constexpr int kBatches = 9, kEarlyCalls = 20;
constexpr double kBatchSeconds = 0.05;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void sum(void* out, const void* a, const void* b, size_t n) { gloo::sum<float>(out, a, b, n); }
void max(void* out, const void* a, const void* b, size_t n) { gloo::max<double>(out, a, b, n); }

Call reduction(const std::string& op, const Context& ctx, float* in, float* out, size_t count) {
  if (op == "all_reduce") {
    auto options = std::make_shared<gloo::AllreduceOptions>(ctx);
    options->setInput(in, count);
    options->setOutput(out, count);
    options->setReduceFunction(sum);
    return [options] { gloo::allreduce(*options); };
  }
  if (op == "reduce") {
    auto options = std::make_shared<gloo::ReduceOptions>(ctx);
    options->setInput(in, count);
    options->setOutput(out, count);
    options->setRoot(0);
    options->setReduceFunction(sum);
    return [options] { gloo::reduce(*options); };
  }
  if (op == "reduce_scatter") {
    const int part = static_cast<int>(count / ctx->size);
    auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
        ctx, std::vector<float*>{in}, part * ctx->size, std::vector<int>(ctx->size, part));
    return [algorithm] { algorithm->run(); };
  }
  return {};
}

Call movement(const std::string& op, const Context& ctx, float* in, float* out, size_t count) {
  const int n = ctx->size;
  const size_t part = count / n;
  if (op == "all_gather") {
    auto options = std::make_shared<gloo::AllgatherOptions>(ctx);
    options->setInput(in, part);
    options->setOutput(out, part * n);
    return [options] { gloo::allgather(*options); };
  }
  if (op == "all_to_all") {
    auto options = std::make_shared<gloo::AlltoallOptions>(ctx);
    options->setInput(in, part * n);
    options->setOutput(out, part * n);
    return [options] { gloo::alltoall(*options); };
  }
  if (op == "broadcast") {
    auto options = std::make_shared<gloo::BroadcastOptions>(ctx);
    options->setOutput(in, count);
    options->setRoot(0);
    return [options] { gloo::broadcast(*options); };
  }
  if (op == "send_recv") {
    const auto bytes = count * sizeof(float);
    std::shared_ptr<gloo::transport::UnboundBuffer> send = ctx->createUnboundBuffer(in, bytes);
    std::shared_ptr<gloo::transport::UnboundBuffer> receive = ctx->createUnboundBuffer(out, bytes);
    return [send, receive, to = (ctx->rank + 1) % n, from = (ctx->rank + n - 1) % n] {
      send->send(to, 7);
      receive->recv(from, 7);
      send->waitSend();
      receive->waitRecv();
    };
  }
  if (op == "barrier") {
    auto options = std::make_shared<gloo::BarrierOptions>(ctx);
    return [options] { gloo::barrier(*options); };
  }
  return {};
}

double slowest(const Context& ctx, double t) {
  gloo::AllreduceOptions options(ctx);
  options.setOutput(&t, 1);
  options.setReduceFunction(max);
  gloo::allreduce(options);
  return t;
}

bool fresh = false;  // from the command line, as the next
bool times_first = false;

void renew(std::vector<float>& input) {
  for (size_t i = 0; i < input.size(); i += 16) {
    volatile float& first_of_line = input[i];
    first_of_line = first_of_line;
  }
}

/// Seconds per call on this rank, over `iters` calls.
double seconds_here(std::vector<float>& input, const Call& call, int iters) {
  auto start = Clock::now();
  double spent = 0;
  for (int i = 0; i < iters; i++) {
    if (fresh) renew(input), start = Clock::now();
    call();
    if (fresh) spent += seconds_since(start);
  }
  return (fresh ? spent : seconds_since(start)) / iters;
}

/// The same of the slowest rank, for calls that all begin together.
double seconds_of_batch(const Context& ctx, std::vector<float>& input, const Call& call,
                        int iters) {
  gloo::BarrierOptions barrier(ctx);
  gloo::barrier(barrier);
  return slowest(ctx, seconds_here(input, call, iters));
}

double seconds_per_call(const Context& ctx, std::vector<float>& input, const Call& call) {
  call();  // the first one allocates
  const auto start = Clock::now();
  for (int i = 0; i < 3; i++) call();
  const double estimate = slowest(ctx, seconds_since(start) / 3);
  const int iters = std::clamp(static_cast<int>(kBatchSeconds / estimate), 3, 20000);
  std::vector<double> batches;
  for (int b = 0; b < kBatches; b++) batches.push_back(seconds_of_batch(ctx, input, call, iters));
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

/// False if there is no such operation.
bool run(int rank, int ranks, const std::string& directory, const std::string& op,
         const std::vector<size_t>& sizes) {
  gloo::transport::tcp::attr attr;
  attr.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(directory);
  auto ctx = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  ctx->connectFullMesh(store, device);
  if (op == "start") {
    slowest(ctx, 0);
    const std::chrono::duration<double> now = Clock::now().time_since_epoch();
    if (rank == 0) std::printf("%.6f\n", now.count());
    std::fflush(stdout);
    return true;
  }
  for (const size_t bytes : sizes) {
    const size_t count = bytes / sizeof(float);
    std::vector<float> in(count + 1, 1.0f), out(count + 1, 0.0f);
    Call call = reduction(op, ctx, in.data(), out.data(), count);
    if (!call) call = movement(op, ctx, in.data(), out.data(), count);
    if (!call) return false;
    std::vector<float> none;  // for broadcast, the other ranks' buffers are outputs
    auto& renewed = op == "broadcast" && rank != 0 ? none : in;
    double first = 0, early = 0;
    if (times_first) {
      first = seconds_of_batch(ctx, renewed, call, 1);
      early = seconds_of_batch(ctx, renewed, call, kEarlyCalls - 1);
    }
    const double seconds = seconds_per_call(ctx, renewed, call);
    if (rank == 0) {
      std::printf("%s,%d,%zu,%.3f", op.c_str(), ranks, bytes, seconds * 1e6);
      if (times_first) std::printf(",%.3f,%.3f", first * 1e6, early * 1e6);
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  slowest(ctx, 0);  // no rank may leave while another needs it
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  fresh = argc > 1 && std::string(argv[1]) == "--fresh";
  argv += fresh, argc -= fresh;
  times_first = argc > 1 && std::string(argv[1]) == "--first";
  argv += times_first, argc -= times_first;
  if (argc < 4) {
    std::fprintf(stderr, "usage: gloo_bench [--fresh] [--first] OP RANKS BYTES...\n");
    return 2;
  }
  const std::string op = argv[1];
  const int ranks = std::atoi(argv[2]);
  std::vector<size_t> sizes;
  for (int i = 3; i < argc; i++) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  char directory[] = "/tmp/gloo_bench.XXXXXX";
  if (!mkdtemp(directory)) return 1;
  for (int rank = 0; rank < ranks; rank++) {
    if (fork() != 0) continue;
    const bool known = run(rank, ranks, directory, op, sizes);
    if (!known) std::fprintf(stderr, "gloo_bench: no operation '%s'\n", op.c_str());
    std::_Exit(known ? 0 : 2);
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  std::filesystem::remove_all(directory);
  return failed ? 1 : 0;
}

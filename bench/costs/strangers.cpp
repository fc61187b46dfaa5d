// SPDX-License-Identifier: Apache-2.0
/// The cost of strangers to a job: the same all_reduce alone and beside a process that scans or
/// attacks the ranks' listeners, in alternating periods.
///
///     cc-run -n 2 strangers
#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/costs/no_arguments.hpp"
#include "ccoll/ccoll.hpp"
#include "system/file_descriptor.hpp"
#include "system/variables.hpp"

namespace {

using ccoll::Communicator;
using ccoll::FileDescriptor;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kRounds = 7;
constexpr auto kPeriod = 300ms;
constexpr std::size_t kSizes[] = {8, 4 << 10, 1 << 20};
/// New connections per second.
constexpr int kPerSecond = 1000;
constexpr std::size_t kHalfOpen = 10000;

enum class Stranger : char { none = 'n', scan = 's', garbage = 'g', silent = 'h', slow = 'l' };
struct Kind {
  Stranger stranger;
  std::string_view name;
};
constexpr Kind kKinds[] = {
    {Stranger::none, "nobody (what chance does)"},
    {Stranger::scan, "scan, 1000 connections/s"},
    {Stranger::garbage, "garbage, 1000 connections/s"},
    {Stranger::silent, "10000 half-open, 1000 new/s"},
    {Stranger::slow, "1000 slow-loris"},
};

/// The ports on which this process listens.
std::vector<std::uint16_t> own_ports() {
  std::vector<std::uint16_t> ports;
  DIR* const directory = ::opendir("/proc/self/fd");
  while (const auto* entry = ::readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    int listens = 0;
    socklen_t size = sizeof listens;
    sockaddr_in name{};
    socklen_t name_size = sizeof name;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &name_size) == 0 &&
        name.sin_family == AF_INET)
      ports.push_back(ntohs(name.sin_port));
  }
  ::closedir(directory);
  return ports;
}

FileDescriptor connect_to(std::uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)!::connect(socket.number(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
  return socket;
}

/// A process that acts as ordered over a socket. It is forked before there are threads.
class StrangerProcess {
 public:
  StrangerProcess() {
    std::array<int, 2> ends;
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error("no socket pair");
    orders_ = FileDescriptor(ends[0]);
    const FileDescriptor orders(ends[1]);
    child_ = ::fork();
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    orders_ = FileDescriptor();
    serve(orders.number());
  }
  ~StrangerProcess() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  StrangerProcess(const StrangerProcess&) = delete;

  void aim_at(const std::vector<std::uint16_t>& ports) {
    const auto count = static_cast<std::uint32_t>(ports.size());
    tell(&count, sizeof count);
    tell(ports.data(), ports.size() * sizeof ports[0]);
  }
  /// Returns once it does so and holds its connections open.
  void be(Stranger stranger) {
    tell(&stranger, 1);
    (void)!::read(orders_.number(), &stranger, 1);
  }

 private:
  void tell(const void* data, std::size_t bytes) { (void)!::write(orders_.number(), data, bytes); }

  [[noreturn]] static void serve(int orders) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    std::uint32_t count = 0;
    if (::read(orders, &count, sizeof count) != sizeof count) ::_exit(0);
    std::vector<std::uint16_t> ports(count);
    if (::read(orders, ports.data(), count * sizeof ports[0]) <= 0) ::_exit(0);
    for (Stranger now = Stranger::none;;) {
      if (::read(orders, &now, 1) != 1) ::_exit(0);
      play(now, ports, orders);
    }
  }

  static bool is_told(int orders) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(orders, &set);
    timeval none{};
    return ::select(orders + 1, &set, nullptr, nullptr, &none) == 1;
  }

  /// Plays until the next order.
  static void play(Stranger stranger, const std::vector<std::uint16_t>& ports, int orders) {
    const std::size_t held = stranger == Stranger::silent ? kHalfOpen
                             : stranger == Stranger::slow ? std::size_t{1000}
                                                          : 0;
    std::deque<FileDescriptor> open;
    const std::string garbage(1000, 'x');
    while (open.size() < held) open.push_back(connect_to(ports[open.size() % ports.size()]));
    (void)!::write(orders, &stranger, 1);
    for (std::size_t i = 0; !is_told(orders); i++) {
      std::this_thread::sleep_for(std::chrono::microseconds(1000000 / kPerSecond));
      const bool comes = stranger == Stranger::scan || stranger == Stranger::garbage;
      const auto one = comes ? connect_to(ports[i % ports.size()]) : FileDescriptor();
      if (stranger == Stranger::garbage)
        (void)!::send(one.number(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
      // Opens new ones all the time, which push out others.
      if (stranger == Stranger::silent) open[i % held] = connect_to(ports[i % ports.size()]);
      // Sends a byte of a valid hello now and then, and reconnects after being thrown out.
      if (stranger == Stranger::slow && ::send(open[i % held].number(), "c", 1, MSG_NOSIGNAL) < 0)
        open[i % held] = connect_to(ports[i % ports.size()]);
    }
  }

  FileDescriptor orders_;
  pid_t child_ = -1;
};

/// Microseconds per call, on the slowest rank.
double time_period(Communicator& world, std::size_t bytes) {
  std::vector<float> in(bytes / sizeof(float), 1), out(in.size());
  const auto call = [&] { world.all_reduce(in, out); };
  call();
  world.barrier();
  const auto begin = Clock::now();
  double calls = 0;
  for (bool goes_on = true; goes_on; calls++) {
    call();
    // All ranks end after the same call.
    if (static_cast<std::uint64_t>(calls) % 64 != 63) continue;
    std::uint8_t more = Clock::now() - begin < kPeriod;
    world.broadcast(ccoll::Block(&more, 1, ccoll::DataType::uint8), 0);
    goes_on = more != 0;
  }
  double took = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  world.all_reduce(ccoll::Block(&took, 1, ccoll::DataType::float64), ccoll::ReduceOp::max);
  return took / calls;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double fastest(const std::vector<double>& values) { return *std::ranges::min_element(values); }

double percent(double ratio) { return 100 * (ratio - 1); }

/// On a shared machine the fastest periods are more meaningful than the median.
void measure(Communicator& world, StrangerProcess* process, const Kind& kind, std::size_t bytes) {
  std::vector<double> alone, beside, ratios;
  for (int round = 0; round < kRounds; round++) {
    if (process != nullptr) process->be(Stranger::none);
    std::this_thread::sleep_for(50ms);
    alone.push_back(time_period(world, bytes));
    if (process != nullptr) process->be(kind.stranger);
    std::this_thread::sleep_for(50ms);
    beside.push_back(time_period(world, bytes));
    ratios.push_back(beside.back() / alone.back());
  }
  if (world.rank() == 0)
    fmt::print("{:<30}{:>9}{:>10.2f}{:>11.2f}{:>8.1f} %{:>14.2f}{:>11.2f}{:>8.1f} %\n", kind.name,
               bytes, median(alone), median(beside), percent(median(ratios)), fastest(alone),
               fastest(beside), percent(fastest(beside) / fastest(alone)));
}

void run(StrangerProcess* process, Communicator& world) {
  auto ports = own_ports();
  std::vector<std::uint64_t> mine(8), all(mine.size() * static_cast<std::size_t>(world.size()));
  std::ranges::copy(ports.begin(), ports.begin() + std::min<std::ptrdiff_t>(8, std::ssize(ports)),
                    mine.begin());
  world.all_gather(mine, all);
  ports.clear();
  for (const auto port : all)
    if (port != 0) ports.push_back(static_cast<std::uint16_t>(port));
  if (process != nullptr) process->aim_at(ports);
  if (world.rank() == 0) {
    fmt::print(
        "all_reduce of float32, {} ranks with {} listeners, {} cores; {} rounds: the median and "
        "the fastest\n",
        world.size(), ports.size(), std::thread::hardware_concurrency(), kRounds);
    fmt::print("{:<30}{:>9}{:>10}{:>11}{:>10}{:>14}{:>11}{:>10}\n", "strangers", "bytes",
               "median us", "beside", "slower", "fastest us", "beside", "slower");
  }
  for (const auto& kind : kKinds)
    for (const std::size_t bytes : kSizes) measure(world, process, kind, bytes);
}

}  // namespace

int main(int count, char** values) {
  if (const auto status = ccoll::bench::not_to_run(count, values, "cc-run -n 2 strangers"))
    return *status;
  try {
    std::unique_ptr<StrangerProcess> process;
    // It is forked before a communicator starts threads, which a child would lack.
    if (ccoll::read_variable("CCOLL_RANK") == "0") process = std::make_unique<StrangerProcess>();
    auto world = Communicator::create();
    run(process.get(), world);
  } catch (const std::exception& error) {
    fmt::print(stderr, "strangers: {}\n", error.what());
    return 1;
  }
}

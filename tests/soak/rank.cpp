// SPDX-License-Identifier: Apache-2.0
// One process of a soak's round, with some of its ranks: they run random operations under faults,
// shrink after a failure, and go on. tools/soak starts it and judges its reports.
//   soak_rank ROUND PROCESS
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "ccoll/ccoll.hpp"
#include "faults/faults.hpp"
#include "soak/operations.hpp"
#include "soak/round.hpp"
#include "support/checked_call.hpp"
#include "support/held.hpp"
#include "support/open_devices.hpp"

using namespace std::chrono_literals;

namespace ccoll::testing::soak {

Round read_round(const std::string& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  Round round;
  round.directory = std::filesystem::path(path).parent_path().string();
  json.at("transport").get_to(round.transport);
  json.at("interface").get_to(round.interface);
  json.at("token").get_to(round.token);
  json.at("seed").get_to(round.seed);
  json.at("operations").get_to(round.operations);
  json.at("faults_at_start").get_to(round.faults_at_start);
  json.at("checksum").get_to(round.checksum);
  json.at("slow").get_to(round.slow);
  json.at("heartbeat_ms").get_to(round.heartbeat_ms);
  for (const auto& process : json.at("processes")) {
    round.processes.push_back(process.at("ranks"));
    round.faults.push_back(process.at("faults"));
    auto& death = round.deaths.emplace_back();
    if (process.contains("dies"))
      death = Death{process["dies"].at("generation"), process["dies"].at("microseconds"),
                    process["dies"].at("freezes")};
  }
  return round;
}

Report::Report(const std::string& path)
    : descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (descriptor_ < 0) throw std::runtime_error("cannot write " + path);
}

void Report::write(const nlohmann::json& line) {
  auto stamped = line;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  stamped["at"] = std::chrono::duration<double>(now).count();
  // A message may quote bytes that are not valid text.
  const auto text = stamped.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  (void)!::write(descriptor_, text.data(), text.size());
}

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

/// Connection attempts to dead ranks have been given up by then (transport/shm/visit.cpp), even on
/// a busy machine.
constexpr auto kLetGo = 20s;

/// Ranks stop here if every communicator fails because shared memory was requested and there is
/// none.
constexpr int kMostGenerations = 12;

/// Shared by the ranks of this process.
struct Process {
  Round round;
  std::size_t number = 0;
  Report report;
  faults::Plan plan;
  int fault_log = -1;
  std::once_flag is_armed;
  std::once_flag is_doomed;

  void arm() {
    std::call_once(is_armed, [this] { faults::arm(plan, fault_log); });
  }
  void die_in_time(int generation, const std::vector<int>& members) {
    const auto& death = round.deaths[number];
    if (!death || std::max(generation, *round.next_death(members)) < death->generation) return;
    std::call_once(is_doomed, [death] {
      std::thread([death = *death] {
        std::this_thread::sleep_for(std::chrono::microseconds(death.microseconds));
        ::raise(death.freezes ? SIGSTOP : SIGKILL);
      }).detach();
    });
  }
};

class Member {
 public:
  Member(Process& process, int rank) : process_(process), rank_(rank) {}

  void run() {
    auto& round = process_.round;
    if (round.faults_at_start) process_.arm();
    if (!begin()) return;
    for (; generation_ < kMostGenerations; generation_++) {
      process_.die_in_time(generation_, members(*ranks_));
      if (go_through_generation()) break;
      if (!shrink()) return;
    }
    if (generation_ == kMostGenerations)
      process_.report.write({{"event", "gave up"}, {"rank", rank_}});
    close();
  }

 private:
  bool begin() {
    since_ = Clock::now();
    CommunicatorOptions options;
    options.transport = process_.round.transport;
    options.interface = process_.round.interface;
    options.token = process_.round.token;
    options.checksum = process_.round.checksum;
    options.timeout = 20s;
    options.heartbeat = std::chrono::milliseconds(process_.round.heartbeat_ms);
    options.start_timeout = 20s;
    try {
      ranks_ = Communicator::create(make_file_store(process_.round.directory + "/store"), rank_,
                                    process_.round.size(), options);
      process_.arm();
      return true;
    } catch (const Error& error) {
      tell(nullptr, "create", error);
      return false;
    }
  }

  /// Whether it was the last: no rank is still to die, and all operations succeeded.
  bool go_through_generation() {
    Operations operations(*ranks_, process_.round.seed + static_cast<std::uint64_t>(generation_),
                          [this](Communicator& where, const std::string& what, const Error& error) {
                            tell(&where, what, error);
                          });
    bool well = false;
    std::string what;
    try {
      for (int done = 0; done < process_.round.operations || somebody_dies(); done++) {
        dawdle();
        since_ = Clock::now();
        operations.next();
      }
      since_ = Clock::now();
      what = "the last barrier";
      ranks_->barrier();
      well = true;
    } catch (const Error& error) {
      tell(&*ranks_, what.empty() ? operations.text() : what, error);
    } catch (const WrongResult& error) {
      wrong(operations.text() + ": " + error.what());
      throw;
    } catch (const PartFailed&) {
      // The ranks that had the failure have reported it.
    }
    process_.report.write({{"event", "calls"}, {"rank", rank_}, {"calls", operations.calls()}});
    return well;
  }

  bool shrink() {
    since_ = Clock::now();
    try {
      // The old one is replaced before it ends.
      auto next = ranks_->shrink();
      ranks_ = std::move(next);
      process_.report.write({{"event", "shrunk"},
                             {"rank", rank_},
                             {"generation", generation_},
                             {"members", members(*ranks_)},
                             {"seconds", seconds_since(since_)}});
      return true;
    } catch (const Error& error) {
      tell(&*ranks_, "shrink", error);
      return false;
    }
  }

  void close() {
    process_.report.write({{"event", "closing"}, {"rank", rank_}});
    since_ = Clock::now();
    try {
      ranks_->close();
    } catch (const Error& error) {
      tell(nullptr, "close", error);
    }
    process_.report.write(
        {{"event", "closed"}, {"rank", rank_}, {"seconds", seconds_since(since_)}});
  }

  bool somebody_dies() const { return process_.round.next_death(members(*ranks_)).has_value(); }
  void dawdle() const {
    const auto& slow = process_.round.slow;
    if (std::ranges::find(slow, rank_) != slow.end()) std::this_thread::sleep_for(5ms);
  }
  static std::vector<int> members(const Communicator& ranks) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks.size(); rank++) all.push_back(ranks.job_rank(rank));
    return all;
  }

  void tell(const Communicator* where, const std::string& what, const Error& error) {
    std::vector<int> all;
    if (where != nullptr)
      all = members(*where);
    else
      for (int rank = 0; rank < process_.round.size(); rank++) all.push_back(rank);
    process_.report.write({{"event", "error"},
                           {"rank", rank_},
                           {"generation", generation_},
                           {"what", what},
                           {"kind", to_string(error.kind())},
                           {"message", error.what()},
                           {"members", all},
                           {"seconds", seconds_since(since_)}});
    since_ = Clock::now();
  }
  void wrong(const std::string& what) {
    process_.report.write({{"event", "wrong"}, {"rank", rank_}, {"what", what}});
  }

  Process& process_;
  const int rank_;
  int generation_ = 0;
  Clock::time_point since_;
  std::optional<Communicator> ranks_;
};

std::size_t threads_now() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::vector<std::string> open_files() {
  std::vector<std::string> all;
  std::error_code closed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    all.push_back(std::filesystem::read_symlink(entry, closed).string());
  return all;
}

/// Whether nothing is left that was not there before.
bool is_let_go(Process& process, const Held& before, std::size_t threads_before) {
  const auto begun = Clock::now();
  for (;;) {
    const auto now = held_now();
    const auto threads = threads_now();
    if (now.no_more_than(before) && threads <= threads_before) return true;
    if (Clock::now() - begun > kLetGo) {
      process.report.write({{"event", "leak"},
                            {"before", before.text()},
                            {"after", now.text()},
                            {"open", open_files()},
                            {"threads_before", threads_before},
                            {"threads_after", threads}});
      return false;
    }
    std::this_thread::sleep_for(5ms);
  }
}

int be_process(const std::string& path, std::size_t number) {
  auto round = read_round(path);
  const auto base = round.directory + "/" + std::to_string(number);
  Process process{std::move(round), number, Report(base + ".events"), {}, -1, {}, {}};
  Report fault_log(base + ".faults");
  process.plan = faults::parse(process.round.faults[number]);
  process.fault_log = fault_log.descriptor();
  // The first connections may be cut later, so they are logged, too.
  faults::note_connections(process.fault_log);
  // Keeps the service thread, which would otherwise end with the last communicator.
  auto alone = Communicator::create(make_inproc_store(), 0, 1);
  open_devices();
  const auto before = held_now();
  const auto threads_before = threads_now();
  {
    std::vector<std::jthread> threads;
    for (const int rank : process.round.processes[number])
      threads.emplace_back([&process, rank] {
        try {
          Member(process, rank).run();
        } catch (const std::exception& error) {
          process.report.write({{"event", "thrown"}, {"rank", rank}, {"what", error.what()}});
        }
      });
  }
  faults::disarm();
  const bool clean = is_let_go(process, before, threads_before);
  process.report.write({{"event", "end"}});
  return clean ? 0 : 1;
}

}  // namespace
}  // namespace ccoll::testing::soak

int main(int count, char** arguments) try {
  if (count != 3) {
    std::cerr << "usage: soak_rank ROUND PROCESS (tools/soak starts it)\n";
    return 2;
  }
  return ccoll::testing::soak::be_process(arguments[1], std::stoul(arguments[2]));
} catch (const std::exception& error) {
  std::cerr << "soak_rank: " << error.what() << "\n";
  return 1;
}

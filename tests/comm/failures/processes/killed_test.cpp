// SPDX-License-Identifier: Apache-2.0
// Ranks that are killed: the others report it in time, name the rank, shrink and go on with right
// results. Each rank is a process; this program starts itself as each of them:
//   killed_test [--seed S] [--seconds T]  random cases, also ranks that die while others shrink
//   killed_test --sweep [--size N] [--transport T] [--count C] [--part K/N]
//                                         every rank at every step of every collective, or the
//                                         K-th of N parts of about equal size; with --list it
//                                         only lists them
// CCOLL_TEST_FULL=1 is --sweep, after random cases.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "comm/failures/processes/killed.hpp"
#include "support/effort.hpp"
#include "support/eventually.hpp"

using namespace std::chrono_literals;

namespace ccoll::testing {

std::string to_words(const Case& each) {
  std::ostringstream out;
  out << each.transport << ' ' << each.size << ' ' << each.at_step.has_value();
  if (each.at_step) {
    const auto& [victim, before, steps, call] = *each.at_step;
    out << ' ' << victim << ' ' << before << ' ' << steps << ' ' << static_cast<int>(call.kind)
        << ' ' << call.ragged << ' ' << static_cast<int>(call.algorithm) << ' ' << call.count;
  }
  for (const auto& death : each.deaths)
    out << ' ' << (death ? death->round : -1) << ' ' << (death ? death->microseconds : 0);
  return out.str();
}

Case from_words(const std::string& words) {
  std::istringstream in(words);
  Case each;
  bool at_step = false;
  in >> each.transport >> each.size >> at_step;
  if (at_step) {
    AtStep when;
    int kind = 0, algorithm = 0;
    in >> when.victim >> when.calls_before >> when.steps >> kind >> when.call.ragged >> algorithm >>
        when.call.count;
    when.call.kind = static_cast<Kind>(kind);
    when.call.algorithm = static_cast<Algorithm>(algorithm);
    each.at_step = when;
  }
  for (Death death; in >> death.round >> death.microseconds;)
    each.deaths.push_back(death.round < 0 ? std::nullopt : std::optional(death));
  return each;
}

std::string Case::text() const {
  std::ostringstream out;
  out << transport << ", " << size << " ranks: ";
  if (at_step) {
    out << "rank " << at_step->victim << " dies after " << at_step->steps << " steps of "
        << at_step->call.text() << ", call " << at_step->calls_before + 1;
  } else {
    for (int rank = 0; rank < size; rank++)
      if (const auto& death = deaths[static_cast<std::size_t>(rank)])
        out << "rank " << rank << " dies " << death->microseconds << " us after the start of round "
            << death->round << "; ";
  }
  return out.str();
}

namespace {

using Clock = std::chrono::steady_clock;

/// The directory where the ranks of each case meet.
class Directory {
 public:
  Directory()
      : path_(std::filesystem::temp_directory_path() /
              ("ccoll_killed_" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string next() { return (path_ / std::to_string(number_++)).string(); }

 private:
  const std::filesystem::path path_;
  std::atomic<int> number_{0};
};

/// `not_reached`: passed, but the victim's call had fewer steps, so it died afterwards.
enum class End { passed, failed, not_reached };

pid_t start(const Case& each, const std::string& store, int rank) {
  const auto words = to_words(each);
  const auto number = std::to_string(rank);
  const char* const arguments[] = {"killed_test",  "rank",        store.c_str(),
                                   number.c_str(), words.c_str(), nullptr};
  pid_t child = -1;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments),
                  environ) != 0)
    throw std::runtime_error("a process does not start");
  return child;
}

/// Waits for all and kills those that hang. Returns waitpid's status by rank; none for the latter.
std::vector<std::optional<int>> wait_for(const std::vector<pid_t>& children) {
  std::vector<std::optional<int>> ends(children.size());
  const auto all_have_ended = [&] {
    for (std::size_t i = 0; i < children.size(); i++) {
      int status = 0;
      if (!ends[i] && waitpid(children[i], &status, WNOHANG) == children[i]) ends[i] = status;
    }
    return std::ranges::all_of(ends, [](const auto& end) { return end.has_value(); });
  };
  if (eventually(all_have_ended)) return ends;
  for (std::size_t i = 0; i < children.size(); i++) {
    if (ends[i]) continue;
    kill(children[i], SIGKILL);
    waitpid(children[i], nullptr, 0);
  }
  return ends;
}

std::string end_text(const std::optional<int>& status) {
  if (!status) return "hangs";
  if (WIFSIGNALED(*status)) return "was ended by signal " + std::to_string(WTERMSIG(*status));
  return "ended with status " + std::to_string(WEXITSTATUS(*status));
}

End run(const Case& each, Directory& directory) {
  const auto store = directory.next();
  std::vector<pid_t> children;
  for (int rank = 0; rank < each.size; rank++) children.push_back(start(each, store, rank));
  const auto ends = wait_for(children);
  std::filesystem::remove_all(store);
  std::string wrong;
  bool not_reached = false;
  for (int rank = 0; rank < each.size; rank++) {
    const auto& end = ends[static_cast<std::size_t>(rank)];
    const bool dies_late = each.at_step && each.dies(rank) && end == kNotReached << 8;
    not_reached |= dies_late;
    const bool killed = end && WIFSIGNALED(*end) && WTERMSIG(*end) == SIGKILL;
    const bool well = each.dies(rank) ? killed || dies_late : end == 0;
    if (!well) wrong += " rank " + std::to_string(rank) + " " + end_text(end) + ";";
  }
  if (wrong.empty()) return not_reached ? End::not_reached : End::passed;
  std::cout << "failed:" + wrong + " in: " + each.text() + "\n" << std::flush;
  return End::failed;
}

/// All collectives with all algorithms. Those that know about hosts use two transports, so they are
/// listed for only one.
std::vector<Collective> collectives(const std::string& transport, std::size_t count) {
  std::vector<Collective> all;
  for (const auto& entry : catalogue()) {
    if (entry.by_host && transport != "shm") continue;
    all.push_back({entry.kind, false, entry.algorithm, count});
    if (entry.ragged) all.push_back({entry.kind, true, entry.algorithm, count});
  }
  return all;
}

struct Totals {
  std::mutex mutex;
  std::map<std::string, std::array<int, 2>> by_name;  ///< cases that passed, failed
  int failed = 0;

  void add(const std::string& name, End end) {
    std::lock_guard lock(mutex);
    by_name[name][end == End::failed]++;
    failed += end == End::failed;
  }
  void print() const {
    for (const auto& [name, counts] : by_name)
      std::cout << name << ": " << counts[0] << " cases passed, " << counts[1] << " failed\n";
  }
};

/// Runs several threads, as each case mostly waits.
void side_by_side(const std::function<void()>& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; i++) threads.emplace_back(body);
}

/// Part `number` of the `of` parts of a sweep.
struct Part {
  std::size_t number = 1, of = 1;
};

/// "2/5".
bool lexical_cast(const std::string& text, Part& part) {
  std::istringstream in(text);
  char slash = 0;
  return in >> part.number >> slash >> part.of && slash == '/' && in.peek() == EOF &&
         part.number >= 1 && part.number <= part.of;
}

struct Asked {
  bool sweep = false;
  bool list = false;
  Part part;
  std::optional<unsigned> seed;
  int seconds = 15;
  std::vector<int> sizes = {2, 3, 4, 5};
  std::vector<std::string> transports = {"shm", "tcp"};
  std::vector<std::size_t> counts = {3, 30'000};
};

/// The first case for each victim in each call, within the requested part.
std::vector<Case> sweep_begins(const Asked& asked) {
  std::vector<Case> begins;
  std::size_t number = 0;
  for (const auto& transport : asked.transports)
    for (const int size : asked.sizes)
      for (const auto count : asked.counts)
        for (const auto& call : collectives(transport, count))
          for (int victim = 0; victim < size; victim++)
            if (number++ % asked.part.of == asked.part.number - 1)
              begins.push_back({transport, size, AtStep{victim, 0, 0, call}, {}});
  return begins;
}

void sweep(const Asked& asked, Directory& directory, Totals& totals) {
  const auto begins = sweep_begins(asked);
  std::atomic<std::size_t> next{0};
  side_by_side([&] {
    for (std::size_t i; (i = next.fetch_add(1)) < begins.size();) {
      auto each = begins[i];
      const auto name = fmt::format("{}, {} ranks, blocks of {}", each.transport, each.size,
                                    each.at_step->call.count);
      for (auto end = End::passed; end == End::passed; each.at_step->steps++) {
        // The first call, in a duplicate, opens links as it goes; the second finds them open.
        each.at_step->calls_before = each.at_step->steps % 2;
        end = run(each, directory);
        totals.add(name, end);
      }
    }
  });
}

/// Draws random cases.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int from(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  Case at_step() {
    const std::string transport = from(0, 1) == 0 ? "shm" : "tcp";
    const auto all = collectives(transport, from(0, 1) == 0 ? 3 : 30'000);
    const int size = from(2, 5);
    const auto& call = all[static_cast<std::size_t>(from(0, static_cast<int>(all.size()) - 1))];
    return {transport, size, AtStep{from(0, size - 1), from(0, 1), from(0, 5), call}, {}};
  }
  /// One or several die per round, some while the others shrink already.
  Case deaths() {
    Case each{from(0, 1) == 0 ? "shm" : "tcp", from(2, 6), {}, {}};
    each.deaths.resize(static_cast<std::size_t>(each.size));
    std::vector<int> order(static_cast<std::size_t>(each.size));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random_);
    order.resize(static_cast<std::size_t>(from(1, each.size - 1)));
    const bool at_once = from(0, 1) == 0;
    const int about = from(0, 20'000);
    int round = 0;
    for (const int rank : order)
      each.deaths[static_cast<std::size_t>(rank)] =
          Death{at_once ? 0 : round++, about + from(0, 3000)};
    return each;
  }

 private:
  std::mt19937 random_;
};

void sample(const Asked& asked, Directory& directory, Totals& totals) {
  const unsigned seed = asked.seed.value_or(std::random_device{}());
  std::cout << "seed " << seed << std::endl;
  std::mutex mutex;
  Draw draw(seed);
  const auto until = Clock::now() + std::chrono::seconds(asked.seconds);
  side_by_side([&] {
    while (Clock::now() < until) {
      std::unique_lock lock(mutex);
      const bool at_step = draw.from(0, 2) != 0;
      const auto each = at_step ? draw.at_step() : draw.deaths();
      lock.unlock();
      totals.add(at_step ? "at a step" : "at a time", run(each, directory));
    }
  });
}

int test(const Asked& asked) {
  if (asked.list) {
    for (const auto& each : sweep_begins(asked)) std::cout << each.text() << '\n';
    return 0;
  }
  Directory directory;
  Totals totals;
  if (!asked.sweep || full()) sample(asked, directory, totals);
  if (asked.sweep || full()) sweep(asked, directory, totals);
  totals.print();
  return totals.failed == 0 && !totals.by_name.empty() ? 0 : 1;
}

}  // namespace
}  // namespace ccoll::testing

int main(int count, char** arguments) {
  using namespace ccoll::testing;
  if (count == 5 && arguments[1] == std::string("rank"))
    return be_rank(from_words(arguments[4]), arguments[2], std::atoi(arguments[3]));
  Asked asked;
  CLI::App app("kills ranks, and looks what the others make of it");
  app.add_flag("--sweep", asked.sweep, "every rank at every step of every collective");
  app.add_option("--seed", asked.seed, "of the random cases");
  app.add_option("--seconds", asked.seconds, "for random cases");
  app.add_option("--size", asked.sizes, "ranks, in the sweep");
  app.add_option("--transport", asked.transports, "shm, tcp or verbs, in the sweep");
  app.add_option("--count", asked.counts, "elements of a block, in the sweep");
  app.add_option("--part", asked.part, "K/N: the K-th of N parts of the sweep");
  app.add_flag("--list", asked.list, "the first case of each victim in each call of the sweep");
  CLI11_PARSE(app, count, arguments);
  return test(asked);
}

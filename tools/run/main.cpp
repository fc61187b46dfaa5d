// SPDX-License-Identifier: Apache-2.0
// cc-run: starts the ranks of a job on this host, or runs a store for ranks started elsewhere.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "ccoll/store.hpp"
#include "ccoll/version.hpp"
#include "core/text.hpp"
#include "rendezvous/identity.hpp"
#include "rendezvous/open_store.hpp"
#include "run/diagnosis.hpp"
#include "run/launch.hpp"
#include "run/nccl_library.hpp"
#include "run/which_nccl.hpp"
#include "system/variables.hpp"
#include "system/write_all.hpp"

namespace {

constexpr int kMisused = 2;
constexpr int kNotStarted = 127;
/// Programs use signals with names for themselves.
constexpr const char* kDumpSignal = "RTMIN+7";

constexpr const char* kExamples = R"(
Examples:
  cc-run -n 4 ./my_program --size 1M       four ranks, each with its output behind "[rank] "
  cc-run -n cpu ./my_program               one rank for each core that may be used here
  cc-run -n 4 --nodes 2 --node 0 --store 10.0.0.1:29500 --token-file token ./my_program
                                           ranks 0-3 of 8; on the second host the same command with
                                           --node 1 starts ranks 4-7. 10.0.0.1 is a host name or
                                           address of node 0, which serves the store there; token
                                           is a file with the same secret on both hosts, readable by
                                           you only: (umask 077; openssl rand -hex 32 >token)
  cc-run --store 10.0.0.1:29500 --token-file token
                                           only a store, for ranks that Slurm, mpirun or torchrun
                                           start on several hosts with
                                           CCOLL_STORE=tcp://10.0.0.1:29500 CCOLL_TOKEN_FILE=token
  cc-run --nccl torchrun --nproc-per-node 4 train.py
                                           a program made for NCCL, which runs on ccoll instead
                                           (docs/nccl.md); with -n 4 cc-run starts the ranks itself
  cc-run --nccl --which 4711               which libnccl process 4711 calls

The program's Communicator::create() finds rank, size and store in the environment. Slurm, mpirun
and torchrun start ranks on many hosts by one command; ccoll reads their environment.

The exit status:
  0      all ranks here ended with 0, or what was asked for is done
  1      --which found no such process, or no libnccl in it; or the help could not be printed
  2      the command line, a variable or the store's address is wrong: nothing was started
  127    the ranks could not be started: no such program, no such token file, no directory in TMPDIR
         for the job's files, none for --dumps, or too few descriptors or processes
  128+N  signal N killed the first rank that failed here, or signal N ended cc-run
  other  the status of the first rank that failed here. Then a few lines say what the ranks did
         last, and who waited for whom
)";

constexpr const char* kFirstSteps =
    "cc-run starts the ranks of a job on this host. Try:\n\n"
    "  cc-run -n 4 PROGRAM ARGS...\n\n"
    "cc-run --help says more.\n";

/// CLI11's own usage line omits the program that follows.
class Help final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: cc-run -n RANKS|cpu [OPTIONS] PROGRAM [ARGS...]\n"
           "       cc-run -n RANKS --nodes N --node I --store HOST:PORT [OPTIONS] PROGRAM "
           "[ARGS...]\n"
           "       cc-run --store [HOST:PORT] [--token-file FILE]\n"
           "       cc-run --nccl [-n RANKS|cpu] PROGRAM [ARGS...]\n"
           "       cc-run --nccl --which PID\n";
  }
};

struct Arguments {
  std::string ranks;
  std::string on_failure = "end";
  double grace_s = 10;
  std::string token_file;
  std::string dumps;
  std::string store;
  bool has_store = false;
  std::optional<int> nodes;
  std::optional<int> node;
  bool no_prefix = false;
  bool nccl = false;
  std::optional<pid_t> which;
  std::vector<std::string> command;
};

int misused(const std::string& what) {
  fmt::print(stderr, "cc-run: {}\n", what);
  return kMisused;
}

/// Returns 0 if the text is neither a number of ranks nor "cpu".
int rank_count(const std::string& text) {
  if (text == "cpu") return ccoll::usable_cores();
  int count = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, count);
  const bool good = error == std::errc() && stopped == end && ccoll::check_rank_count(count);
  return good ? count : 0;
}

/// Runs a store until a signal ends it.
int run_store(const Arguments& arguments) {
  std::string token;
  if (!arguments.token_file.empty()) {
    token = ccoll::value_or_throw(ccoll::read_token_file(arguments.token_file, "--token-file"));
  }
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, signal);
  // The server's thread inherits the mask, so it must be set before.
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const auto server = ccoll::serve_tcp_store(arguments.store, token);
  fmt::print("tcp://{}\n", server->address());
  std::fflush(stdout);
  int signal = 0;
  ::sigwait(&ends, &signal);
  const auto statistics = server->statistics();
  fmt::print(stderr, "cc-run: the store served {} requests and refused {} connections\n",
             statistics.requests, statistics.rejected);
  return 0;
}

ccoll::Result<ccoll::LaunchOptions> launch_options(const Arguments& arguments) {
  using ccoll::ErrorKind, ccoll::fail;
  ccoll::LaunchOptions options;
  options.ranks = rank_count(arguments.ranks);
  if (options.ranks == 0) {
    return fail(ErrorKind::invalid_argument,
                "-n {}: expected a number of ranks from 1 to {}, or cpu for one per usable core",
                arguments.ranks, ccoll::kMostLocalRanks);
  }
  if (arguments.nodes.has_value() != arguments.node.has_value()) {
    return fail(ErrorKind::invalid_argument,
                "{}: give both, the number of hosts and this one's number from 0",
                arguments.nodes ? "--nodes without --node" : "--node without --nodes");
  }
  options.nodes = arguments.nodes.value_or(1);
  options.node = arguments.node.value_or(0);
  options.store = arguments.store;
  options.command = arguments.command;
  options.on_failure = arguments.on_failure == "end" ? ccoll::LaunchOptions::OnFailure::end
                                                     : ccoll::LaunchOptions::OnFailure::go_on;
  options.grace_time =
      std::chrono::milliseconds(static_cast<std::int64_t>(arguments.grace_s * 1000));
  options.prefix = !arguments.no_prefix;
  options.token_file = arguments.token_file;
  options.dumps = arguments.dumps;
  if (arguments.nccl) {
    const auto preload = ccoll::nccl_preload();
    if (!preload) return tl::unexpected(preload.error());
    options.variables.emplace_back("LD_PRELOAD", *preload);
  }
  CCOLL_TRY(ccoll::check(options));
  return options;
}

int run_ranks(const Arguments& arguments) {
  auto options = launch_options(arguments);
  if (!options) return misused(options.error().message);
  // Check once here instead of in every rank.
  if (const auto valid = ccoll::check_variables(); !valid) return misused(valid.error().message);
  const auto started = std::chrono::system_clock::now();
  const auto say = [](const std::vector<std::string>& lines) {
    if (ccoll::is_output_unread()) return;
    for (const auto& line : lines) fmt::print(stderr, "cc-run: {}\n", line);
  };
  bool interrupted = false;
  options->at_interrupt = [&](const std::string& dumps, const auto& running) {
    interrupted = true;
    say(ccoll::diagnosis_of_running(dumps, running, started));
  };
  options->at_end = [&](const std::string& dumps, const auto& ends) {
    // Ranks' reports on each other as they are ended are no news.
    if (!interrupted) say(ccoll::diagnosis(dumps, ends, started));
  };
  if (const auto limit = ccoll::read_time("CCOLL_START_TIMEOUT"); limit && *limit)
    options->node_time = **limit;
  options->dump_signal = ccoll::read_variable("CCOLL_DUMP_SIGNAL").value_or(kDumpSignal);
  const auto status = ccoll::launch(*options);
  if (status) return *status;
  fmt::print(stderr, "cc-run: {}\n", status.error().message);
  return kNotStarted;
}

/// Prints which libnccl a process calls.
int tell_which(pid_t process) {
  const auto use = ccoll::nccl_of(process);
  if (!use) {
    fmt::print(stderr, "cc-run: {}\n", use.error().message);
    return 1;
  }
  fmt::print("{}", ccoll::text(process, *use));
  return 0;
}

/// Runs programs made for NCCL; without a number of ranks, they start their own.
int run_nccl_program(const Arguments& arguments) {
  if (arguments.which) {
    if (!arguments.command.empty()) return misused("--which asks of a process: give no program");
    return tell_which(*arguments.which);
  }
  if (arguments.command.empty())
    return misused("no program to start: cc-run --nccl PROGRAM ARGS...");
  if (!arguments.ranks.empty()) return run_ranks(arguments);
  if (arguments.nodes || arguments.node || arguments.has_store) {
    return misused("--nccl without -n starts one program: give neither --nodes nor --store");
  }
  const auto failed = ccoll::become_nccl_program(arguments.command);
  fmt::print(stderr, "cc-run: {}\n", failed.error().message);
  return kNotStarted;
}

int run(const Arguments& arguments) {
  if (!arguments.command.empty() && arguments.command[0].starts_with('-')) {
    return misused(fmt::format("unknown option {}; see cc-run --help", arguments.command[0]));
  }
  if (arguments.nccl) return run_nccl_program(arguments);
  if (arguments.which) return misused("--which without --nccl");
  const bool several = arguments.nodes || arguments.node;
  if (arguments.has_store && !several) {
    if (!arguments.command.empty() || !arguments.ranks.empty()) {
      return misused(
          "--store alone runs only a store: give neither -n nor a program, or for ranks on several "
          "hosts --nodes and --node as well");
    }
    return run_store(arguments);
  }
  if (arguments.command.empty()) return misused("no program to start: cc-run -n 4 PROGRAM ARGS...");
  if (arguments.ranks.empty()) {
    return misused(fmt::format("how many ranks? cc-run -n 4 {} ...", arguments.command[0]));
  }
  return run_ranks(arguments);
}

}  // namespace

int main(int count, char** values) {
  ccoll::open_missing_streams();
  if (count == 1) {
    fmt::print(stderr, "{}", kFirstSteps);
    return kMisused;
  }
  Arguments arguments;
  CLI::App app("Starts the ranks of a job on this host, or runs a store for ranks elsewhere.");
  app.formatter(std::make_shared<Help>());
  app.set_version_flag("--version", fmt::format("cc-run {}", ccoll::version()));
  app.footer(kExamples);
  app.prefix_command();
  app.add_option("-n,--ranks", arguments.ranks,
                 "How many ranks to start here; cpu: one per usable core");
  app.add_option("--nodes", arguments.nodes, "Hosts of the job; cc-run is started on each")
      ->check(CLI::Range(1, ccoll::kMostNodes));
  app.add_option("--node", arguments.node, "This host's number among them, from 0")
      ->check(CLI::Range(0, ccoll::kMostNodes - 1));
  app.add_option("--on-failure", arguments.on_failure,
                 "When a rank fails: \"end\" the others after 5 s, or let them \"continue\"")
      ->check(CLI::IsMember({"end", "continue"}))
      ->capture_default_str();
  app.add_option("--grace", arguments.grace_s,
                 "Seconds from a signal that cc-run gets and forwards until it kills ranks that "
                 "have not ended, from 0.1 to 86400; so long it also leaves those alone that are "
                 "stopped (SIGSTOP) when all others have ended")
      ->check(CLI::Validator(
          [](const std::string& given) {
            // CLI::Range takes nan.
            const double seconds = std::strtod(given.c_str(), nullptr);
            const bool is_in_range = seconds >= 0.1 && seconds <= 86400;
            return is_in_range ? "" : "Value " + given + " not in range 0.1 to 86400";
          },
          "FLOAT in [0.1 - 86400]"))
      ->capture_default_str();
  app.add_option("--token-file", arguments.token_file,
                 "File with the job's token, readable by you only (default: a fresh token; with "
                 "--nodes none, which only a loopback --store can do without)")
      ->check(ccoll::path_problem);
  const auto* store =
      app.add_option("--store", arguments.store,
                     "With --nodes: where node 0 serves the store. Alone: run only a store at "
                     "HOST:PORT (default: loopback, any free port) until a signal ends it; prints "
                     "its address")
          ->expected(0, 1);
  app.add_option("--dumps", arguments.dumps,
                 "Directory for what each rank did last, when a communicator fails; they are kept "
                 "(default: CCOLL_DUMP's, or one that is removed after the diagnosis)")
      ->check(ccoll::path_problem);
  app.add_flag("--no-prefix", arguments.no_prefix,
               "Ranks write to this terminal themselves, without their numbers");
  app.add_flag("--nccl", arguments.nccl,
               "Programs made for NCCL run on ccoll: its libnccl.so.2 is loaded before all others "
               "(LD_PRELOAD). Without -n one program is started as it is, which may be a launcher");
  app.add_option("--which", arguments.which,
                 "With --nccl: print which libnccl the process with this number calls")
      ->type_name("PID")
      ->check(CLI::Range(1, std::numeric_limits<pid_t>::max()));
  try {
    app.parse(count, values);
    arguments.has_store = store->count() > 0;
    arguments.command = app.remaining();
    if (!arguments.command.empty() && arguments.command[0] == "--") {
      arguments.command.erase(arguments.command.begin());
    }
    return run(arguments);
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app.exit(asked, text, std::cerr);
    const auto printed = ccoll::print_whole(text.str());
    if (printed) return 0;
    fmt::print(stderr, "cc-run: {}\n", printed.error().message);
    return 1;
  } catch (const CLI::ParseError& error) {
    return misused(fmt::format("{}; see cc-run --help", error.what()));
  } catch (const std::exception& error) {
    return misused(error.what());
  }
}

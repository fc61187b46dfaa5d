// SPDX-License-Identifier: Apache-2.0
#include "run/launch.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ccoll/store.hpp"
#include "core/os_error.hpp"
#include "rendezvous/most_ranks.hpp"
#include "rendezvous/open_store.hpp"
#include "run/nodes.hpp"
#include "run/supervisor.hpp"
#include "system/random.hpp"
#include "system/variables.hpp"
#include "system/write_all.hpp"

namespace ccoll {
namespace {

/// The signals that the launcher receives by a descriptor; they are blocked while this lives.
class TakenSignals {
 public:
  TakenSignals() {
    ::sigemptyset(&taken_);
    ::sigaddset(&taken_, SIGCHLD);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      // Under nohup, or in the background of a script, the ranks must continue.
      if (action.sa_handler != SIG_IGN) ::sigaddset(&taken_, signal);
    }
    ::signal(SIGCHLD, SIG_DFL);
    pipe_before_ = ::signal(SIGPIPE, SIG_IGN);
    ::pthread_sigmask(SIG_BLOCK, &taken_, &before_);
    descriptor_ = FileDescriptor(::signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  TakenSignals(const TakenSignals&) = delete;
  TakenSignals& operator=(const TakenSignals&) = delete;
  ~TakenSignals() {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    ::signal(SIGPIPE, pipe_before_);
  }

  int descriptor() const { return descriptor_.number(); }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t taken_{};
  sigset_t before_{};
  sighandler_t pipe_before_ = SIG_DFL;
  FileDescriptor descriptor_;
};

/// Two pipes per rank may exceed the soft limit of descriptors, and so may the ranks' own needs,
/// which inherit this limit. The library leaves a program's own limit alone.
class RaisedFileLimit {
 public:
  RaisedFileLimit() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit raised = before_;
    raised.rlim_cur = raised.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &raised);
  }
  RaisedFileLimit(const RaisedFileLimit&) = delete;
  RaisedFileLimit& operator=(const RaisedFileLimit&) = delete;
  ~RaisedFileLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// A directory for the job's files, readable by its user only; removed at the end.
class PrivateDirectory {
 public:
  static Result<PrivateDirectory> make() {
    const auto given = read_variable("TMPDIR");
    std::string path = fmt::format("{}/ccoll-XXXXXX", given.value_or("/tmp"));
    if (::mkdtemp(path.data()) != nullptr) return PrivateDirectory(std::move(path));  // mode 0700
    return fail(ErrorKind::exhausted, "{}: cannot make a directory there for the job's token: {}",
                given ? "TMPDIR=" + *given : "/tmp", os_error(errno));
  }
  PrivateDirectory(PrivateDirectory&& other) noexcept
      : path_(std::exchange(other.path_, std::string())) {}
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;
  ~PrivateDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit PrivateDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// The job's token: the user's file, a new secret in our own file, or none.
struct Token {
  std::string path;
  std::string secret;
};

Result<Token> fresh_token(const std::string& directory) {
  std::array<std::byte, 32> random;
  CCOLL_TRY(fill_random(random));
  Token token{directory + "/token", {}};
  for (const auto byte : random)
    token.secret += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  if (auto written = write_file(token.path, token.secret); !written)
    return fail(ErrorKind::exhausted, "the job's token: {}", written.error().message);
  return token;
}

Result<Token> token_for(const LaunchOptions& options, const std::string& directory) {
  const std::string& given = options.token_file;
  if (given.empty() && options.nodes > 1) return Token{};
  if (given.empty()) return fresh_token(directory);
  auto secret = read_token_file(given, "--token-file");
  if (!secret) return tl::unexpected(secret.error());
  // The path must be absolute, because a rank may start in another directory.
  return Token{std::filesystem::absolute(given).string(), std::move(*secret)};
}

/// The directory of the ranks' dumps; empty: as in the environment.
std::string dumps_for(const LaunchOptions& options, const std::string& directory) {
  if (!options.dumps.empty()) return std::filesystem::absolute(options.dumps).string();
  if (!options.at_end) return "";
  const auto given = read_variable("CCOLL_DUMP");
  return given ? std::filesystem::absolute(*given).string() : directory + "/dumps";
}

/// Checks early that files can be created there, instead of after a job has failed.
Status check_dumps(const std::string& dumps, std::string_view setting) {
  if (dumps.empty()) return {};
  std::error_code ignored;
  std::vector<std::filesystem::path> made;
  for (std::filesystem::path at = dumps; !at.empty() && !std::filesystem::exists(at, ignored);
       at = at.parent_path())
    made.push_back(at);
  const auto probe = fmt::format("{}/.ccoll-{}", dumps, ::getpid());
  if (const auto written = write_file(probe, ""); !written)
    return fail(ErrorKind::invalid_argument, "{}dumps at {}: {}", setting, dumps,
                written.error().message);
  std::filesystem::remove(probe, ignored);
  for (const auto& each : made) std::filesystem::remove(each, ignored);
  return {};
}

using Assignments = std::vector<std::pair<std::string, std::string>>;

/// This process's environment, overridden by `variables`.
std::vector<std::string> environment_with(const Assignments& variables) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const auto name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(variables.begin(), variables.end(),
                                      [&](const auto& variable) { return variable.first == name; });
    if (!replaced) result.emplace_back(text);
  }
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

Assignments variables_of(const LaunchOptions& options, int local_rank, const std::string& store,
                         const std::string& token_file) {
  Assignments variables = {{"CCOLL_RANK", std::to_string(options.first_rank() + local_rank)},
                           {"CCOLL_SIZE", std::to_string(options.nodes * options.ranks)},
                           {"CCOLL_LOCAL_RANK", std::to_string(local_rank)},
                           {"CCOLL_LOCAL_SIZE", std::to_string(options.ranks)},
                           {"CCOLL_STORE", "tcp://" + store},
                           {"CCOLL_SERVE_STORE", "0"},
                           {"CCOLL_TOKEN_FILE", token_file}};
  variables.insert(variables.end(), options.variables.begin(), options.variables.end());
  return variables;
}

/// The rank's ends of its output pipes, open until it has started.
struct OutputEnds {
  FileDescriptor output;
  FileDescriptor error;
};

Result<OutputEnds> pipe_output(RankProcess& process, int rank) {
  OutputEnds ends;
  for (const int to : {STDOUT_FILENO, STDERR_FILENO}) {
    auto pipe = make_pipe();
    if (!pipe) return tl::unexpected(pipe.error());
    process.streams.push_back(
        {std::move(pipe->reading), to, LinePrefixer(fmt::format("[{}] ", rank))});
    (to == STDOUT_FILENO ? ends.output : ends.error) = std::move(pipe->writing);
  }
  return ends;
}

Result<RankProcess> start_rank(const LaunchOptions& options, int local_rank, ProcessPlan plan) {
  RankProcess process;
  OutputEnds ends;
  if (options.prefix) {
    auto piped = pipe_output(process, options.first_rank() + local_rank);
    if (!piped) return tl::unexpected(piped.error());
    ends = std::move(*piped);
    plan.output = ends.output.number();
    plan.error = ends.error.number();
  }
  const auto pid = start_process(plan);
  if (!pid) return tl::unexpected(pid.error());
  process.pid = *pid;
  return process;
}

/// Only at node 0; null elsewhere.
Result<std::unique_ptr<StoreServer>> serve_store(const LaunchOptions& options,
                                                 const std::string& token) {
  if (options.node != 0) return nullptr;
  return caught([&]() -> Result<std::unique_ptr<StoreServer>> {
    return serve_tcp_store(options.store, token);
  });
}

}  // namespace

Status check_rank_count(int ranks) {
  if (ranks >= 1 && ranks <= kMostLocalRanks) return {};
  return fail(ErrorKind::invalid_argument, "-n {}: expected a number of ranks from 1 to {}", ranks,
              kMostLocalRanks);
}

Status check(const LaunchOptions& options) {
  if (options.command.empty()) {
    return fail(ErrorKind::invalid_argument, "no program to start");
  }
  if (options.nodes < 1 || options.nodes > kMostNodes) {
    return fail(ErrorKind::invalid_argument, "--nodes {}: expected a number of hosts from 1 to {}",
                options.nodes, kMostNodes);
  }
  if (options.node < 0 || options.node >= options.nodes) {
    return fail(ErrorKind::invalid_argument,
                "--node {}: the hosts of --nodes {} have the numbers 0 to {}", options.node,
                options.nodes, options.nodes - 1);
  }
  if (options.nodes > 1 && (options.store.empty() || options.store.ends_with(":0"))) {
    return fail(ErrorKind::invalid_argument,
                "{} nodes need --store HOST:PORT: an address of node 0 that all nodes can reach, "
                "with a port that is free there",
                options.nodes);
  }
  CCOLL_TRY(check_rank_count(options.ranks));
  if (options.ranks > kMostRanksOfJob / options.nodes)
    return fail(ErrorKind::invalid_argument, "--nodes {} with -n {}: expected {} ranks at most",
                options.nodes, options.ranks, kMostRanksOfJob);
  return {};
}

Result<int> launch(const LaunchOptions& options) {
  CCOLL_TRY(check(options));
  const RaisedFileLimit files;
  const TakenSignals signals;
  if (signals.descriptor() < 0)
    return fail(ErrorKind::exhausted, "no descriptor for signals: {}", os_error(errno));
  const auto directory = PrivateDirectory::make();
  if (!directory) return tl::unexpected(directory.error());
  const auto token = token_for(options, directory->path());
  if (!token) return tl::unexpected(token.error());
  const auto dumps = dumps_for(options, directory->path());
  const bool is_variables = options.dumps.empty() && read_variable("CCOLL_DUMP");
  CCOLL_TRY(check_dumps(dumps, is_variables ? "CCOLL_DUMP: " : ""));
  // Before the store's thread runs: forking a single-threaded process is safe.
  auto guard = Guard::start(directory->path(), options.ranks);
  if (!guard) return tl::unexpected(guard.error());
  const auto server = serve_store(options, token->secret);
  if (!server) return tl::unexpected(server.error());
  if (options.nodes > 1) {
    const auto signal = agree_with_nodes(options, token->secret, signals.descriptor());
    if (!signal) return tl::unexpected(signal.error());
    if (*signal != 0) return 128 + *signal;
  }
  const std::string address = options.nodes > 1 ? options.store : (*server)->address();

  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing.open()) return fail(ErrorKind::exhausted, "/dev/null: {}", os_error(errno));
  Supervisor supervisor(options, signals.descriptor(), dumps);
  for (int rank = 0; rank < options.ranks; ++rank) {
    ProcessPlan plan;
    plan.command = options.command;
    auto variables = variables_of(options, rank, address, token->path);
    if (!dumps.empty()) variables.emplace_back("CCOLL_DUMP", dumps);
    if (!options.dump_signal.empty())
      variables.emplace_back("CCOLL_DUMP_SIGNAL", options.dump_signal);
    plan.environment = environment_with(variables);
    // A rank is not in the terminal's foreground group, so reading from it would stop the rank.
    const bool reads =
        options.first_rank() + rank == 0 && ::isatty(STDIN_FILENO) == 0 && ::fcntl(0, F_GETFD) >= 0;
    plan.input = reads ? STDIN_FILENO : nothing.number();
    plan.signal_mask = signals.before();
    auto process = start_rank(options, rank, std::move(plan));
    if (!process) return tl::unexpected(process.error());
    guard->watch(process->pid);
    supervisor.add(std::move(*process));
  }
  const int status = supervisor.run();
  if (options.at_end) options.at_end(dumps, supervisor.ends());
  return status;
}

}  // namespace ccoll

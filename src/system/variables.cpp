// SPDX-License-Identifier: Apache-2.0
#include "system/variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>

#include "core/deadline.hpp"
#include "core/result.hpp"
#include "core/text.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/port_range.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

constexpr std::string_view kOurs = "CCOLL_";
/// Variables of the project's own tests, which read them themselves.
constexpr std::string_view kTests = "CCOLL_TEST_";

// These words belong to other layers; tests/comm/api/start_up_test.cpp compares them.
constexpr std::string_view kTransports[] = {"shm", "verbs", "tcp", "inproc"};
constexpr std::string_view kAlgorithms[] = {
    "ring",          "tree",          "double_tree",       "recursive_doubling",
    "one_shot",      "two_shot",      "pairwise",          "linear",
    "binomial",      "dissemination", "recursive_halving", "bruck",
    "root_collects", "leaders",       "two_level"};
constexpr std::string_view kDeviceWays[] = {"team", "steps", "host"};
constexpr std::string_view kDeviceCopies[] = {"always", "never"};
constexpr std::string_view kFamilies[] = {"ipv4", "ipv6"};
constexpr std::string_view kTlsModes[] = {"off", "psk", "cert"};
constexpr std::string_view kTorchNames[] = {"gloo", "nccl"};
constexpr std::string_view kTorchWays[] = {"c++", "python"};

constexpr Values one_of(std::span<const std::string_view> words) { return {.words = words}; }
constexpr Values some_of(std::span<const std::string_view> words) {
  return {.words = words, .is_list = true};
}
constexpr Values number(long least, long most) { return {.least = least, .most = most}; }
constexpr Values kSwitch = number(0, 1);
constexpr Values time(std::chrono::milliseconds shortest, std::chrono::milliseconds longest,
                      std::string_view endless) {
  return {.shortest = shortest, .longest = longest, .endless = endless};
}
constexpr Values kTimeLimit =
    time(std::chrono::milliseconds(1), std::chrono::hours(24 * 365), "none");

// The order is that of docs/environment.md; tests/system/variables_test.cpp compares the two.

constexpr Variable kSettings[] = {
    {"CCOLL_STORE", "the launcher's address",
     "where ranks meet: `tcp://host:port`, `file:///path`, or `env://` for `MASTER_ADDR` and "
     "`MASTER_PORT`"},
    {"CCOLL_PORT", "`MASTER_PORT`",
     "the port of rank 0's store at `MASTER_ADDR`; needed where "
     "`TORCHELASTIC_USE_AGENT_STORE=True`"},
    {"CCOLL_SERVE_STORE", "1", "0: rank 0 does not serve the store, for one runs there already"},
    {"CCOLL_JOB", "the launcher's name of the job",
     "the job's name: it separates jobs that share a store, or that were given one address by "
     "mistake; the same on all ranks of a job"},
    {"CCOLL_TOKEN_FILE", "none",
     "the file with the job's secret, readable by its owner only; needed for every address that is "
     "not loopback"},
    {"CCOLL_TLS", "`off`",
     "TLS 1.3 on connections to the store and between control paths: `psk`, with a key from the "
     "job's token, or `cert`, with certificates; the same on all ranks and the store. Data is not "
     "encrypted",
     one_of(kTlsModes)},
    {"CCOLL_TLS_CERT", "none",
     "with `cert`: the file with this process's certificate and those between it and the "
     "authority, PEM"},
    {"CCOLL_TLS_KEY", "none",
     "with `cert`: the file with its private key, PEM, readable by its owner only"},
    {"CCOLL_TLS_CA", "none",
     "with `cert`: the file with the authorities that have signed the peers' certificates, PEM"},
    {"CCOLL_TLS_NAME", "any that the authority has signed",
     "with `cert`: the DNS name that every peer's certificate must be for"},
    {"CCOLL_SOCKET_IFNAME", "the route to the store; loopback for one without an address",
     "interfaces for connections by prefix: `eth,ib`; `=eth0` exactly; `^docker` all but these"},
    {"CCOLL_SOCKET_FAMILY", "that of the route to the store",
     "`ipv4` or `ipv6`: which addresses of this host connections use", one_of(kFamilies)},
    {"CCOLL_PORT_RANGE", "any free port",
     "the ports on which ccoll may listen if none is named, as `20000-20100`: one for each rank of "
     "a host and one for the store"},
    {"CCOLL_TIMEOUT", "300",
     "how many seconds a call without a time limit of its own may take, as `0.5`; `none`: no limit",
     kTimeLimit},
    {"CCOLL_START_TIMEOUT", "60",
     "how many seconds start-up may take, until all ranks have connected; `none`: no limit",
     kTimeLimit},
    {"CCOLL_HEARTBEAT", "10",
     "after so many seconds of silence, as `2.5`, a rank counts as lost that was stopped, or whose "
     "host or network has gone; 0: never, for debuggers",
     time(std::chrono::milliseconds(100), std::chrono::hours(24), "0")},
    {"CCOLL_WARN_AFTER", "60",
     "after so many seconds without progress, ccoll warns once of a call or message and names the "
     "ranks that it waits for. Start-up warns of missing ranks after at most 10 s, and then at "
     "this interval. `0`: never",
     time(std::chrono::milliseconds(1), std::chrono::hours(24 * 365), "0")},
    {"CCOLL_TRANSPORT", "the best that both ends have",
     "`tcp`, `verbs`, `shm` or `inproc`, for every pair of ranks; `shm,tcp`: one of these; "
     "`^verbs`: none of these",
     some_of(kTransports)},
    {"CCOLL_ALGO", "by cost",
     "an algorithm for every operation that has it: `ring`, `double_tree`, …", one_of(kAlgorithms)},
    {"CCOLL_LANES", "by cost", "the maximum number of copies of an algorithm's lanes, 1 to 1024",
     number(1, kMaxLanes)},
    {"CCOLL_DEVICE_WAY", "what the ranks' places allow",
     "how GPUs execute collectives if every rank has one: `team`, `steps` or, not at all, `host`",
     one_of(kDeviceWays)},
    {"CCOLL_DEVICE_BLOCKS",
     "as many as run at once; 16 of each rank by kernels of several processes, 32 by steps",
     "how many blocks of threads at most a GPU runs for a collective that it makes; 0: as where "
     "not set; the least of all ranks counts",
     number(0, 1 << 16)},
    {"CCOLL_DEVICE_COPIES", "where they are large",
     "`always` or `never`: whether all_gather and all_to_all of a team, and with `always` by "
     "steps, are copies, without a kernel",
     one_of(kDeviceCopies)},
    {"CCOLL_GPU_DIRECT", "0",
     "1: messages in streams go over RDMA from and to memory of GPUs without a copy on the host, "
     "where both ends can; no hardware has run it yet",
     kSwitch},
    {"CCOLL_DETERMINISTIC", "0",
     "1: the result of reducing floats depends on the contributions alone, not on the algorithm, "
     "the size of the call or the transport",
     kSwitch},
    {"CCOLL_CHECKSUM", "0",
     "1: data over TCP or RDMA carry a CRC32C; a flipped bit ends the call with an error that "
     "names the link",
     kSwitch},
    {"CCOLL_EAGER_LIMIT", "65536",
     "messages up to so many bytes are sent without waiting for their receive; at most 131072",
     number(0, 128 << 10)},
    {"CCOLL_STRICT_SENDS", "0",
     "1: every send waits for its receive; finds programs that work only while messages are small",
     kSwitch},
    {"CCOLL_SLOT_MEMORY", "256",
     "how many MiB the slots of a rank's links in shared memory may take, and as much those over "
     "RDMA. Of the last quarter links take 28 KiB in place of 512. Links for which nothing is left "
     "use TCP",
     number(1, 1 << 20)},
    {"CCOLL_SINGLE_COPY", "1",
     "0: data between ranks of a host always go through shared slots; they are never read from the "
     "sender's own memory by process_vm_readv(2)",
     kSwitch},
    {"CCOLL_HUGE_PAGES", "1",
     "0: memory that is read again and again in this way, or is registered, stays as it is; "
     "otherwise madvise(2) combines its pages into huge pages",
     kSwitch},
    {"CCOLL_IB_HCA", "every RDMA device",
     "ports for `verbs` by prefix: `mlx5_0:1,rxe`; `=mlx5_0` exactly; `^mlx5_1` all but these"},
    {"CCOLL_IB_GID_INDEX", "by the route to the peer",
     "the entry of a port's GID table that is its address (`show_gids`, `cc-bench info`); -1: as "
     "where not set",
     number(-1, 1023)},
    {"CCOLL_IB_TC", "0", "traffic class of RoCE packets, 0 to 255", number(0, 255)},
    {"CCOLL_IB_SL", "0", "service level, 0 to 15", number(0, 15)},
    {"CCOLL_IB_TIMEOUT", "18",
     "1 to 31: an RDMA packet without an acknowledgement is sent again after 4.096 µs times 2 to "
     "this "
     "power",
     number(1, 31)},
    {"CCOLL_IB_RETRY_CNT", "6",
     "how often a packet is sent again before the path counts as broken, 0 to 7; some devices take "
     "7 as no limit",
     number(0, 7)},
    {"CCOLL_TUNE_FILE", "this host's file in the user's cache directory, `ccoll/HOST.tune`",
     "the costs of links here, by `cc-bench tune`; rank 0's file counts for all ranks. "
     "`/dev/null`: "
     "the estimates; a file that is not there: the same, and a warning. Where it is set, "
     "`HOST.copies` is not used"},
    {"CCOLL_HOST_ID", "the kernel's boot, network and IPC namespace",
     "any text: ranks with the same one are taken to share a host, and try shared memory"},
    {"CCOLL_TRACE", "nothing is recorded",
     "a directory: every rank records there what it does and waits for; `cc-show trace` reads it"},
    {"CCOLL_DUMP", "none; cc-run's own for its ranks",
     "a directory: when a communicator fails, every rank writes there what it did last, as JSON"},
    {"CCOLL_DUMP_SIGNAL", "none; cc-run's own for its ranks",
     "`USR1`, `USR2`, `QUIT` or `RTMIN+3`: at that signal, too, a process writes there, also while "
     "it is stuck"},
    {"CCOLL_TORCH_AS", "none",
     "`gloo` or `nccl`: in Python, ccoll serves this backend's name of torch.distributed, and "
     "programs written for it run unchanged",
     one_of(kTorchNames)},
    {"CCOLL_TORCH_WAY", "the faster",
     "`c++` or `python`: in Python, which backend serves torch.distributed", one_of(kTorchWays)},
    {"CCOLL_LOG", "`warn`",
     "how much ccoll logs on standard error: `warn`, `info` (once: ranks, hosts, transports and "
     "algorithms, and why they were chosen), `debug`, `trace`"},
    {"CCOLL_LOG_FILE", "none",
     "a file to which all log lines are appended; warnings also go to standard error; `%h` stands "
     "for the "
     "host, `%p` for the process's number"},
};

constexpr Variable kNccl[] = {
    {"CCOLL_NCCL_HOST", "0",
     "1: communicators are over memory of the host; no GPU and no driver is needed", kSwitch},
    {"CCOLL_NCCL_VERSION", "22809", "the version that ncclGetVersion returns",
     number(20000, 99999)},
    {"CCOLL_NCCL_TIMEOUT", "`CCOLL_TIMEOUT`, else `none`",
     "how many seconds a call may take; NCCL has no limit", kTimeLimit},
    {"CCOLL_NCCL_START_TIMEOUT", "`CCOLL_START_TIMEOUT`, else 1800",
     "how many seconds start-up may take", kTimeLimit},
    {"CCOLL_NCCL_WARN_AFTER", "`CCOLL_WARN_AFTER`", "as `CCOLL_WARN_AFTER`",
     time(std::chrono::milliseconds(1), std::chrono::hours(24 * 365), "0")},
};

constexpr Variable kIdentity[] = {
    {"CCOLL_RANK", "the launcher's", "this process's rank, from 0"},
    {"CCOLL_SIZE", "the launcher's", "how many ranks the job has"},
    {"CCOLL_LOCAL_RANK", "0", "this rank's number among those of its host"},
    {"CCOLL_LOCAL_SIZE", "`CCOLL_LOCAL_RANK` + 1", "how many ranks this host has"},
    {"CCOLL_BENCH_STARTED", "not set", "set by cc-bench for the ranks that it starts"},
};

constexpr Variable kTorchrun[] = {
    {"RANK", "not torchrun", "rank"},
    {"WORLD_SIZE", "not torchrun", "number of ranks"},
    {"LOCAL_RANK", "0", "number among the ranks of this host"},
    {"LOCAL_WORLD_SIZE", "`LOCAL_RANK` + 1", "how many ranks this host has"},
    {"MASTER_ADDR", "none", "the host where rank 0 serves the store (any launcher)"},
    {"MASTER_PORT", "none", "its port there (any launcher)"},
    {"TORCHELASTIC_RUN_ID", "none", "the job's name, together with the next and `MASTER_PORT`"},
    {"TORCHELASTIC_RESTART_COUNT", "0", "which start of the job this is"},
    {"TORCHELASTIC_USE_AGENT_STORE", "False",
     "True: torchrun's own store holds `MASTER_PORT`; set `CCOLL_PORT`"},
};

constexpr Variable kOpenMpi[] = {
    {"OMPI_COMM_WORLD_RANK", "not Open MPI", "rank"},
    {"OMPI_COMM_WORLD_SIZE", "not Open MPI", "number of ranks"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "0", "number among the ranks of this host"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "local rank + 1", "how many ranks this host has"},
    {"PMIX_NAMESPACE", "`OMPI_MCA_ess_base_jobid`", "the job's name"},
    {"OMPI_MCA_ess_base_jobid", "none", "the same in older versions"},
    {"OMPI_MCA_orte_precondition_transports", "none", "a random number of the job"},
};

constexpr Variable kMpich[] = {
    {"PMI_RANK", "not MPICH", "rank"},
    {"PMI_SIZE", "not MPICH", "number of ranks"},
    {"PMI_JOBID", "mpiexec's process", "the job's name"},
    {"MPI_LOCALRANKID", "0", "number among the ranks of this host"},
    {"MPI_LOCALNRANKS", "local rank + 1", "how many ranks this host has"},
};

constexpr Variable kSlurm[] = {
    {"SLURM_STEP_ID", "not Slurm", "the step's number; batch scripts and shells are no ranks"},
    {"SLURM_PROCID", "none", "rank"},
    {"SLURM_STEP_NUM_TASKS", "none", "number of ranks"},
    {"SLURM_LOCALID", "0", "number among the ranks of this host"},
    {"SLURM_NODEID", "0", "this host's number in the step"},
    {"SLURM_STEP_TASKS_PER_NODE", "none", "how many ranks each host has"},
    {"SLURM_STEP_NUM_NODES", "none", "how many hosts the step has"},
    {"SLURM_JOB_ID", "`SLURM_JOBID`", "the job's name"},
    {"SLURM_JOBID", "none", "the same in older versions"},
    {"SLURM_RESTART_COUNT", "0", "which start of the job this is"},
    {"SLURM_NTASKS", "none", "number of the job's ranks, for `ccoll.dist.init_dist` alone"},
    {"SLURM_NODELIST", "none", "the job's hosts, for `ccoll.dist.init_dist` alone"},
};

constexpr Variable kSystem[] = {
    {"TMPDIR", "`/tmp`", "where cc-run keeps the job's token, and what ranks dump, while it runs"},
    {"XDG_CACHE_HOME", "`~/.cache`", "the user's cache directory"},
    {"HOME", "none", "where that is"},
    {"XDG_RUNTIME_DIR", "`/tmp`",
     "where ranks of one host meet that Open MPI, MPICH or Slurm gave no address: a file "
     "`ccoll-UID-LAUNCHER-JOB` there. If all are killed, it stays until this user's next such job "
     "removes it"},
    {"TERM", "`dumb`", "what the terminal is: cc-show draws a screen where it is not `dumb`"},
    {"NO_COLOR", "colours in a terminal", "anything: cc-show writes without colours"},
    {"PATH", "none",
     "where tools/gpu-check looks for python3, and first for CUDA's compute-sanitizer"},
    {"LD_PRELOAD", "none", "what `cc-run --nccl` has programs load after ccoll's libnccl.so.2"},
};

constexpr VariableGroup kGroups[] = {
    {"Settings", kSettings},
    {"Settings of libnccl.so.2", kNccl},
    {"Rank and size: set by cc-run, or by hand", kIdentity},
    {"Read from torchrun", kTorchrun},
    {"Read from Open MPI", kOpenMpi},
    {"Read from MPICH", kMpich},
    {"Read from Slurm", kSlurm},
    {"Read from the system", kSystem},
};

struct Fallbacks {
  std::map<std::string, std::string> values;
  std::map<std::string, std::string> sources;
};

Guarded<Fallbacks, ProcessMutex>& fallbacks() {
  return Runtime::one<Guarded<Fallbacks, ProcessMutex>>();
}

struct Unknown {
  std::atomic<bool> are_warned_of = false;
};

/// "LOG_LEVEL" may mean LOG, "IFNAME" SOCKET_IFNAME: they are misremembered, not mistyped.
std::string containing(std::string_view word, std::span<const std::string_view> candidates) {
  for (const std::string_view candidate : candidates) {
    if (word.find(candidate) != word.npos || candidate.find(word) != candidate.npos)
      return std::string(candidate);
  }
  return {};
}

const Variable* find_variable(std::string_view name) {
  for (const VariableGroup& group : kGroups) {
    const auto found = std::ranges::find(group.variables, name, &Variable::name);
    if (found != group.variables.end()) return &*found;
  }
  return nullptr;
}

Result<long> parse_number(std::string_view name, std::string_view text, const Values& values) {
  long value = 0;
  const auto* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value >= values.least && value <= values.most)
    return value;
  return fail(ErrorKind::invalid_argument, "{}={} is not a whole number from {} to {}", name, text,
              values.least, values.most);
}

Result<std::chrono::milliseconds> parse_time(std::string_view name, std::string_view text,
                                             const Values& values) {
  using Seconds = std::chrono::duration<double>;
  if (text == values.endless) return kNoLimit;
  double seconds = 0;
  const auto* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seconds);
  // False for NaN, which from_chars also reads.
  const bool fits = Seconds(seconds) >= values.shortest && Seconds(seconds) <= values.longest;
  if (error == std::errc() && rest == end && fits)
    return std::chrono::ceil<std::chrono::milliseconds>(Seconds(seconds));
  return fail(ErrorKind::invalid_argument,
              "{}={} is not a time in seconds from {:g} to {:.0f}, or {}", name, text,
              Seconds(values.shortest).count(), Seconds(values.longest).count(), values.endless);
}

std::string meant_by(std::string_view name) {
  std::vector<std::string_view> ours;
  for (const VariableGroup& group : kGroups) {
    for (const Variable& variable : group.variables)
      if (variable.name.starts_with(kOurs)) ours.push_back(variable.name.substr(kOurs.size()));
  }
  const std::string_view word = name.substr(kOurs.size());
  std::string meant = suggestion(word, ours);
  if (meant.empty() && word.size() > 2) meant = containing(word, ours);
  return meant;
}

}  // namespace

std::span<const VariableGroup> variable_groups() { return kGroups; }

bool is_known_variable(std::string_view name) { return find_variable(name) != nullptr; }

Values values_of(std::string_view name) {
  const Variable* const variable = find_variable(name);
  CCOLL_CHECK(variable != nullptr, "{} is not in the table of variables", name);
  return variable->values;
}

namespace {

/// check_word() with what the failure calls the variable.
Status check_word_of(std::string_view name, std::string_view shown, std::string_view text) {
  const auto values = values_of(name);
  const auto& words = values.words;
  auto rest = text;
  if (values.is_list && rest.starts_with('^')) rest.remove_prefix(1);
  for (bool goes_on = true; goes_on;) {
    const auto comma = values.is_list ? rest.find(',') : rest.npos;
    const auto word = rest.substr(0, comma);
    if (std::ranges::find(words, word) == words.end()) {
      const std::string meant = suggestion(word, words);
      return fail(ErrorKind::invalid_argument, "{}={}: expected {}{}{}", shown, text, joined(words),
                  values.is_list ? ", several with commas, or ^ and those not to be taken" : "",
                  meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
    }
    goes_on = comma != rest.npos;
    if (goes_on) rest.remove_prefix(comma + 1);
  }
  return {};
}

}  // namespace

Status check_word(std::string_view name, std::string_view text) {
  return check_word_of(name, name, text);
}

std::optional<std::string> read_variable(const std::string& name) {
  CCOLL_CHECK(is_known_variable(name), "{} is not in the table of variables", name);
  const char* const value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return value;
  const auto other = fallbacks().lock();
  const auto found = other->values.find(name);
  if (found == other->values.end()) return std::nullopt;
  return found->second;
}

std::string set_as(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return name;
  const auto other = fallbacks().lock();
  const auto found = other->sources.find(name);
  return found == other->sources.end() ? name : found->second;
}

void set_fallbacks(std::map<std::string, std::string> values,
                   std::map<std::string, std::string> sources) {
  const auto other = fallbacks().lock();
  other->values = std::move(values);
  other->sources = std::move(sources);
}

std::map<std::string, std::string> variables_that_begin_with(std::string_view prefix) {
  std::map<std::string, std::string> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto end = text.find('=');
    if (text.starts_with(prefix) && end != text.npos && end + 1 < text.size())
      found.emplace(text.substr(0, end), text.substr(end + 1));
  }
  return found;
}

Result<std::optional<std::string>> read_word(const std::string& name) {
  auto text = read_variable(name);
  if (text) CCOLL_TRY(check_word_of(name, set_as(name), *text));
  return text;
}

Result<std::optional<long>> read_number(const std::string& name) {
  const auto text = read_variable(name);
  if (!text) return std::nullopt;
  return parse_number(set_as(name), *text, values_of(name)).map([](long value) {
    return std::optional(value);
  });
}

Result<std::optional<std::chrono::milliseconds>> read_time(const std::string& name) {
  const auto text = read_variable(name);
  if (!text) return std::nullopt;
  return parse_time(set_as(name), *text, values_of(name)).map([](std::chrono::milliseconds time) {
    return std::optional(time);
  });
}

Status check_variables() {
  for (const VariableGroup& group : kGroups) {
    for (const Variable& variable : group.variables) {
      const std::string name(variable.name);
      if (!variable.values.words.empty()) CCOLL_TRY(read_word(name));
      if (variable.values.most >= variable.values.least) CCOLL_TRY(read_number(name));
      if (variable.values.longest.count() > 0) CCOLL_TRY(read_time(name));
    }
  }
  return net::port_range().map([](const auto&) {});
}

std::vector<std::string> unknown_variables(std::span<const std::string> names) {
  std::vector<std::string> remarks;
  for (const std::string& name : names) {
    if (!name.starts_with(kOurs) || name.starts_with(kTests) || is_known_variable(name)) continue;
    const std::string meant = meant_by(name);
    remarks.push_back(fmt::format("{} is set, but ccoll reads no such variable{}", name,
                                  meant.empty()
                                      ? "; docs/environment.md lists those that it reads"
                                      : fmt::format(": did you mean {}{}?", kOurs, meant)));
  }
  return remarks;
}

void warn_of_unknown_variables() {
  if (Runtime::one<Unknown>().are_warned_of.exchange(true)) return;
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& remark : unknown_variables(names)) log().warn("{}", remark);
}

}  // namespace ccoll

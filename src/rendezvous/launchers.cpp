// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/launchers.hpp"

#include <charconv>
#include <vector>

#include "rendezvous/most_ranks.hpp"
#include "rendezvous/process_tree.hpp"

namespace ccoll {

std::optional<std::string> Variables::text(const std::string& name) const {
  if (name.empty()) return std::nullopt;
  auto value = lookup_(name);
  if (value && value->empty()) value.reset();
  return value;
}

std::string Variables::text_or(const std::string& name, const std::string& otherwise) const {
  return text(name).value_or(otherwise);
}

Result<std::optional<int>> Variables::number(const std::string& name, int least, int most) const {
  const auto value = text(name);
  if (!value) return std::optional<int>();
  int parsed = 0;
  const char* const end = value->data() + value->size();
  const auto [stopped, error] = std::from_chars(value->data(), end, parsed);
  if (error != std::errc() || stopped != end || parsed < least || parsed > most) {
    return fail(ErrorKind::invalid_argument, "{}={}: expected a whole number from {} to {}", name,
                *value, least, most);
  }
  return std::optional<int>(parsed);
}

namespace {

/// Names of the variables in which a launcher gives rank and size.
struct Names {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

Status check_below(const Variables& variables, const char* rank_name, int rank,
                   const char* size_name, int size) {
  if (rank < size) return {};
  return fail(ErrorKind::invalid_argument, "{}={}, but {}={}: expected {} from 0 to {}", rank_name,
              rank, size_name, variables.text_or(size_name, std::to_string(size)), rank_name,
              size - 1);
}

/// The failure if one of the two is missing.
tl::unexpected<Failure> half(const Variables& variables, const char* set, const char* missing) {
  return fail(ErrorKind::invalid_argument,
              "{}={} is set, {} is not: set both, or neither to run alone", set,
              variables.text_or(set, ""), missing);
}

/// Reads rank and size under `names`, and the local ones if set; nullopt if neither is.
Result<std::optional<Launched>> read_names(const Variables& variables, const char* launcher,
                                           const Names& names) {
  const auto rank = variables.number(names.rank, 0);
  if (!rank) return tl::unexpected(rank.error());
  const auto size = variables.number(names.size, 1, kMostRanksOfJob);
  if (!size) return tl::unexpected(size.error());
  if (!*rank && !*size) return std::optional<Launched>();
  if (!*size) return half(variables, names.rank, names.size);
  if (!*rank) return half(variables, names.size, names.rank);
  CCOLL_TRY(check_below(variables, names.rank, **rank, names.size, **size));

  const auto local_rank = variables.number(names.local_rank, 0);
  if (!local_rank) return tl::unexpected(local_rank.error());
  const auto local_size = variables.number(names.local_size, 1);
  if (!local_size) return tl::unexpected(local_size.error());
  Launched launched;
  launched.launcher = launcher;
  launched.rank = **rank;
  launched.size = **size;
  launched.local_rank = local_rank->value_or(0);
  launched.local_size = local_size->value_or(launched.local_rank + 1);
  CCOLL_TRY(check_below(variables, names.local_rank, launched.local_rank, names.local_size,
                        launched.local_size));
  if (launched.local_size > launched.size) {
    return fail(ErrorKind::invalid_argument, "{}={}, but {}={}: expected no more than that",
                names.local_size, launched.local_size, names.size, launched.size);
  }
  return std::optional<Launched>(std::move(launched));
}

/// Ranks that the launcher spread over hosts cannot meet at a file of one host.
bool refuse_several_hosts(Launched& launched, const char* local_size_name) {
  if (launched.local_size == launched.size) return false;
  launched.no_meeting = fmt::format("its {} ranks run on several hosts ({}={})", launched.size,
                                    local_size_name, launched.local_size);
  return true;
}

Result<std::optional<Launched>> read_ccoll(const Variables& variables) {
  auto launched = read_names(variables, "ccoll",
                             {"CCOLL_RANK", "CCOLL_SIZE", "CCOLL_LOCAL_RANK", "CCOLL_LOCAL_SIZE"});
  if (launched && *launched) (*launched)->no_meeting = "CCOLL_RANK and CCOLL_SIZE name no address";
  return launched;
}

Result<std::optional<Launched>> read_torchrun(const Variables& variables) {
  auto launched =
      read_names(variables, "torchrun", {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  if (!launched || !*launched) return launched;
  const auto run = variables.text("TORCHELASTIC_RUN_ID");
  const auto restarts = variables.text("TORCHELASTIC_RESTART_COUNT");
  // Its runs have one name ("none") unless one was given, and may share a CCOLL_PORT.
  if (run || restarts)
    (*launched)->job = fmt::format("{}.{}.{}", run.value_or(""), restarts.value_or("0"),
                                   variables.text_or("MASTER_PORT", ""));
  (*launched)->no_meeting = "RANK and WORLD_SIZE are set, but MASTER_ADDR and MASTER_PORT are not";
  return launched;
}

Result<std::optional<Launched>> read_open_mpi(const Variables& variables) {
  auto read = read_names(variables, "openmpi",
                         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                          "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  if (!read || !*read) return read;
  Launched& launched = **read;
  // The namespace is made of mpirun's process id, which will recur; the key is random.
  const auto name =
      variables.text_or("PMIX_NAMESPACE", variables.text_or("OMPI_MCA_ess_base_jobid", ""));
  const auto key = variables.text_or("OMPI_MCA_orte_precondition_transports", "");
  launched.job = name.empty() || key.empty() ? name + key : name + "-" + key;
  if (refuse_several_hosts(launched, "OMPI_COMM_WORLD_LOCAL_SIZE")) return read;
  launched.meeting = launched.job;
  if (launched.meeting.empty()) launched.no_meeting = "PMIX_NAMESPACE, the job's name, is not set";
  return read;
}

Result<std::optional<Launched>> read_mpich(const Variables& variables) {
  auto read = read_names(variables, "mpich",
                         {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  if (!read || !*read) return read;
  Launched& launched = **read;
  launched.job = variables.text_or("PMI_JOBID", "");
  if (!variables.has("MPI_LOCALNRANKS")) {
    // With Slurm's own PMI (srun --mpi=pmi2) the step says on how many hosts the ranks are.
    if (variables.text_or("SLURM_STEP_NUM_NODES", "") != "1") {
      launched.no_meeting = "MPI_LOCALNRANKS, the number of ranks on this host, is not set";
      return read;
    }
  } else if (refuse_several_hosts(launched, "MPI_LOCALNRANKS")) {
    return read;
  }
  launched.meeting = launched.job;
  // mpiexec (Hydra) gives its job no name in the environment, so its proxy's process serves as one.
  if (launched.meeting.empty()) launched.meeting = ancestor_named("hydra_pmi_proxy");
  if (launched.meeting.empty()) {
    launched.no_meeting = "PMI_JOBID is not set and no hydra_pmi_proxy is an ancestor";
  }
  return read;
}

/// The number of tasks on node `node` in a list such as "2(x3),1"; 0 if it is not there.
int tasks_of_node(const std::string& tasks_per_node, int node) {
  const char* at = tasks_per_node.data();
  const char* const end = at + tasks_per_node.size();
  while (at < end) {
    int tasks = 0;
    int nodes = 1;
    auto parsed = std::from_chars(at, end, tasks);
    if (parsed.ec != std::errc()) return 0;
    at = parsed.ptr;
    if (end - at > 2 && at[0] == '(' && at[1] == 'x') {
      parsed = std::from_chars(at + 2, end, nodes);
      if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != ')') return 0;
      at = parsed.ptr + 1;
    }
    if (node < nodes) return tasks;
    node -= nodes;
    if (at < end && *at++ != ',') return 0;
  }
  return 0;
}

/// Whether this process belongs to a step that srun started. Batch scripts, salloc's interactive
/// shell and external steps have step numbers from 0xfffffff0 up, or none, and are no ranks: they
/// see SLURM_PROCID=0 and the whole job's SLURM_NTASKS. A process that mpirun starts in a step's
/// shell inherits that shell's variables, but the check for mpirun comes first.
bool in_slurm_step(const Variables& variables) {
  const auto step = variables.text("SLURM_STEP_ID");
  if (!step) return false;
  std::uint32_t number = 0;
  const char* const end = step->data() + step->size();
  const auto parsed = std::from_chars(step->data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end && number < 0xfffffff0u;
}

Result<std::optional<Launched>> read_slurm(const Variables& variables) {
  if (!in_slurm_step(variables)) return std::optional<Launched>();
  // SLURM_NTASKS would be wrong: it is the job's.
  auto read =
      read_names(variables, "slurm", {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""});
  if (!read || !*read) return read;
  Launched& launched = **read;
  const auto node = variables.number("SLURM_NODEID", 0);
  if (!node) return tl::unexpected(node.error());
  const int tasks =
      tasks_of_node(variables.text_or("SLURM_STEP_TASKS_PER_NODE", ""), node->value_or(0));
  if (tasks > launched.local_rank && tasks <= launched.size) launched.local_size = tasks;
  const auto id = variables.text_or("SLURM_JOB_ID", variables.text_or("SLURM_JOBID", ""));
  launched.job = fmt::format("{}.{}.{}", id, variables.text_or("SLURM_STEP_ID", ""),
                             variables.text_or("SLURM_RESTART_COUNT", "0"));
  const auto nodes = variables.number("SLURM_STEP_NUM_NODES", 1);
  if (!nodes) return tl::unexpected(nodes.error());
  if (nodes->value_or(0) != 1) {
    launched.no_meeting =
        *nodes ? fmt::format("its {} ranks run on several hosts (SLURM_STEP_NUM_NODES={})",
                             launched.size, **nodes)
               : "SLURM_STEP_NUM_NODES, the number of its hosts, is not set";
  } else if (id.empty()) {
    launched.no_meeting = "SLURM_JOB_ID is not set";
  } else {
    launched.meeting = launched.job;
  }
  return read;
}

}  // namespace

Result<std::optional<Launched>> read_launcher(const Variables& variables) {
  for (const auto read : {read_ccoll, read_torchrun, read_open_mpi, read_mpich, read_slurm}) {
    auto launched = read(variables);
    if (!launched || *launched) return launched;
  }
  return std::optional<Launched>();
}

}  // namespace ccoll

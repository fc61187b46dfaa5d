// SPDX-License-Identifier: Apache-2.0
#include "ccoll/environment.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <thread>

#include "ccoll/types.hpp"
#include "rendezvous/identity.hpp"
#include "support/children.hpp"

namespace ccoll {
namespace {

using Table = std::map<std::string, std::string>;

Environment detect(const Table& table) {
  return Environment::detect([&](const std::string& name) -> std::optional<std::string> {
    const auto at = table.find(name);
    return at == table.end() ? std::nullopt : std::optional(at->second);
  });
}

/// The message of the invalid_argument that `table` causes, or "accepted".
std::string refusal(const Table& table) {
  try {
    detect(table);
  } catch (const Error& error) {
    return (error.kind() == ErrorKind::invalid_argument ? "" : "wrong kind: ") +
           std::string(error.what());
  }
  return "accepted";
}

Table with(Table table, const Table& more) {
  for (const auto& [name, value] : more) table[name] = value;
  return table;
}

const Table kTorchrun = {
    {"RANK", "5"},           {"WORLD_SIZE", "8"},       {"LOCAL_RANK", "1"},
    {"GROUP_RANK", "1"},     {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"},
    {"MASTER_PORT", "29500"}};
const Table kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "2"},       {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
    {"PMIX_NAMESPACE", "1983774721"},    {"OMPI_MCA_orte_precondition_transports", "a98d-8d99"}};
const Table kMpich = {{"PMI_RANK", "1"},
                      {"PMI_SIZE", "2"},
                      {"MPI_LOCALRANKID", "1"},
                      {"MPI_LOCALNRANKS", "2"},
                      {"PMI_JOBID", "kvs_7"}};
/// The variables of a batch script and everything that it starts.
const Table kSlurmBatch = {{"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "4"},
                           {"SLURM_NPROCS", "4"},  {"SLURM_PROCID", "0"},
                           {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"},
                           {"SLURM_NNODES", "1"},  {"SLURM_JOB_NUM_NODES", "1"}};
const Table kSlurmStep = with(kSlurmBatch, {{"SLURM_STEP_ID", "3"},
                                            {"SLURM_STEP_NUM_TASKS", "4"},
                                            {"SLURM_STEP_NUM_NODES", "1"},
                                            {"SLURM_STEP_TASKS_PER_NODE", "4"},
                                            {"SLURM_PROCID", "2"},
                                            {"SLURM_LOCALID", "2"}});

/// Whether a child forked `after` another thread began the first lookup gets an answer within 5 s.
bool child_knows(std::chrono::microseconds after) {
  const pid_t asking = fork();  // it has not looked anything up yet
  if (asking == 0) {
    std::atomic<bool> asks = false;
    std::thread other([&] {
      asks = true;
      (void)host_cache_bytes();
      (void)identify();
    });
    while (!asks) continue;
    const auto at = std::chrono::steady_clock::now() + after;
    while (std::chrono::steady_clock::now() < at) continue;
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      (void)host_cache_bytes();
      (void)identify();
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    other.join();
    _exit(status == 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(asking, &status, 0);
  return status == 0;
}

TEST_CASE("identity: a child knows who it is, though its parent was just finding out",
          "[rendezvous][unit]") {
  if (!testing::kChildrenHaveMemory) return;
  for (int i = 0; i < 100; i++) REQUIRE(child_knows(std::chrono::microseconds(2 * i)));
}

}  // namespace

TEST_CASE("environment: nothing set is one rank, alone", "[rendezvous][unit]") {
  const auto found = detect({});
  CHECK(found.launcher == "none");
  CHECK(found.rank == 0);
  CHECK(found.size == 1);
  CHECK(found.store.empty());
  CHECK_FALSE(found.rank0_serves_store);
}

TEST_CASE("environment: ccoll's own variables win over every launcher's", "[rendezvous][unit]") {
  const Table own = {{"CCOLL_RANK", "3"},       {"CCOLL_SIZE", "4"},
                     {"CCOLL_LOCAL_RANK", "3"}, {"CCOLL_LOCAL_SIZE", "4"},
                     {"CCOLL_JOB", "night"},    {"CCOLL_STORE", "tcp://127.0.0.1:4000"},
                     {"CCOLL_TOKEN_FILE", "/t"}};
  auto all = own;
  for (const auto& other : {kTorchrun, kOpenMpi, kMpich, kSlurmStep}) all = with(other, all);
  const auto found = detect(all);
  CHECK(found.launcher == "ccoll");
  CHECK(found.rank == 3);
  CHECK(found.size == 4);
  CHECK(found.local_rank == 3);
  CHECK(found.local_size == 4);
  CHECK(found.job == "night");
  CHECK(found.store == "tcp://127.0.0.1:4000");
  CHECK(found.token_file == "/t");
  CHECK(found.rank0_serves_store);
  CHECK_FALSE(detect(with(own, {{"CCOLL_SERVE_STORE", "0"}})).rank0_serves_store);
}

TEST_CASE("environment: torchrun's variables give rank, address and job", "[rendezvous][unit]") {
  auto found = detect(kTorchrun);
  CHECK(found.launcher == "torchrun");
  CHECK(found.rank == 5);
  CHECK(found.local_rank == 1);
  CHECK(found.local_size == 4);
  CHECK(found.store == "tcp://node0:29500");
  CHECK(found.rank0_serves_store);
  CHECK(found.job.empty());
  found = detect(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "abc"},
                                  {"TORCHELASTIC_RESTART_COUNT", "2"},
                                  {"MASTER_ADDR", "fd00::2"}}));
  CHECK(found.job == "abc.2.29500");
  CHECK(found.store == "tcp://[fd00::2]:29500");
}

TEST_CASE("environment: torchrun's own port is used by nobody else", "[rendezvous][unit]") {
  const auto held = with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  CHECK(refusal(held) ==
        "node0:29500 (MASTER_ADDR, MASTER_PORT) is held by torchrun's own store "
        "(TORCHELASTIC_USE_AGENT_STORE=True), whose protocol ccoll does not speak: set CCOLL_PORT "
        "to a free port of that host, or CCOLL_STORE=tcp://host:port");
  CHECK(refusal(with(held, {{"CCOLL_STORE", "env://"}})) == refusal(held));
  CHECK(detect(with(held, {{"CCOLL_PORT", "29600"}})).store == "tcp://node0:29600");
  CHECK(detect(with(held, {{"CCOLL_STORE", "tcp://a:1"}})).store == "tcp://a:1");
  CHECK(refusal(with(held, {{"RANK", "0"},
                            {"WORLD_SIZE", "1"},
                            {"LOCAL_RANK", "0"},
                            {"LOCAL_WORLD_SIZE", "1"}})) == "accepted");
}

TEST_CASE("environment: Open MPI and MPICH ranks of one host meet at a name of their own",
          "[rendezvous][unit]") {
  const auto user = std::to_string(::geteuid());
  auto found = detect(kOpenMpi);
  CHECK(found.launcher == "openmpi");
  CHECK(found.rank == 2);
  CHECK(found.local_size == 4);
  CHECK(found.meeting_place);
  CHECK_FALSE(found.rank0_serves_store);
  CHECK(found.store == "file:///tmp/ccoll-" + user + "-openmpi-1983774721-a98d-8d99");
  found = detect(with(kMpich, {{"PMI_JOBID", "kvs/7 ;"}}));
  CHECK(found.launcher == "mpich");
  CHECK(found.rank == 1);
  CHECK(found.store == "file:///tmp/ccoll-" + user + "-mpich-kvs_7__");
  found = detect(with(kMpich, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "4000"}}));
  CHECK(found.store == "tcp://10.0.0.1:4000");
  CHECK(found.rank0_serves_store);
  CHECK_FALSE(found.meeting_place);
}

TEST_CASE("environment: ranks on several hosts are told to set CCOLL_STORE", "[rendezvous][unit]") {
  const std::string what =
      "; set CCOLL_STORE to tcp://host:port with the host of rank 0 and a free port of it, or to "
      "file:///path in a directory that all ranks share";
  CHECK(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "8"}})) ==
        "the ranks of this openmpi job have no address to meet at: its 8 ranks run on several "
        "hosts (OMPI_COMM_WORLD_LOCAL_SIZE=4)" +
            what);
  CHECK(refusal(with(kMpich, {{"PMI_SIZE", "3"}})) ==
        "the ranks of this mpich job have no address to meet at: its 3 ranks run on several hosts "
        "(MPI_LOCALNRANKS=2)" +
            what);
  CHECK(refusal(with(kSlurmStep, {{"SLURM_STEP_NUM_NODES", "2"}})) ==
        "the ranks of this slurm job have no address to meet at: its 4 ranks run on several hosts "
        "(SLURM_STEP_NUM_NODES=2)" +
            what);
  CHECK(detect(with(kSlurmStep, {{"SLURM_STEP_NUM_NODES", "2"}, {"CCOLL_STORE", "file:///n/s"}}))
            .store == "file:///n/s");
}

TEST_CASE("environment: only tasks of a Slurm step are Slurm's ranks", "[rendezvous][unit]") {
  SECTION("a task of a step") {
    const auto found = detect(kSlurmStep);
    CHECK(found.launcher == "slurm");
    CHECK(found.rank == 2);
    CHECK(found.size == 4);
    CHECK(found.local_rank == 2);
    CHECK(found.local_size == 4);
    CHECK(found.job == "12.3.0");
    CHECK(found.meeting_place);
  }
  SECTION("the size is the step's, not the job's") {
    const auto found =
        detect(with(kSlurmStep, {{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_NTASKS", "16"}}));
    CHECK(found.size == 3);
  }
  SECTION("tasks per node, written short") {
    const auto found = detect(with(kSlurmStep, {{"SLURM_STEP_NUM_TASKS", "7"},
                                                {"SLURM_STEP_NUM_NODES", "3"},
                                                {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"},
                                                {"SLURM_NODEID", "2"},
                                                {"SLURM_PROCID", "6"},
                                                {"CCOLL_STORE", "tcp://n0:4000"}}));
    CHECK(found.local_rank == 2);
    CHECK(found.local_size == 3);
  }
  SECTION("a bare program in a batch script is alone") {
    CHECK(detect(kSlurmBatch).launcher == "none");
    CHECK(detect(kSlurmBatch).size == 1);
  }
  SECTION("so are the batch step and an interactive shell, by their numbers") {
    for (const char* step : {"4294967291", "4294967290", "4294967292", "batch", "-5"}) {
      CAPTURE(step);
      CHECK(detect(with(kSlurmStep, {{"SLURM_STEP_ID", step}})).launcher == "none");
    }
  }
  SECTION("what mpirun started inside a job or a step is mpirun's") {
    CHECK(detect(with(kSlurmBatch, kOpenMpi)).launcher == "openmpi");
    CHECK(detect(with(kSlurmStep, with(kOpenMpi, {{"SLURM_PROCID", "0"}}))).rank == 2);
    CHECK(detect(with(kSlurmStep, kMpich)).launcher == "mpich");
  }
}

TEST_CASE("environment: half an environment is refused, naming what is missing",
          "[rendezvous][unit]") {
  CHECK(refusal({{"RANK", "3"}}) ==
        "RANK=3 is set, WORLD_SIZE is not: set both, or neither to run alone");
  CHECK(refusal({{"WORLD_SIZE", "4"}, {"RANK", ""}}) ==
        "WORLD_SIZE=4 is set, RANK is not: set both, or neither to run alone");
  CHECK(refusal({{"CCOLL_SIZE", "4"}}) ==
        "CCOLL_SIZE=4 is set, CCOLL_RANK is not: set both, or neither to run alone");
  CHECK(refusal({{"OMPI_COMM_WORLD_RANK", "0"}}) ==
        "OMPI_COMM_WORLD_RANK=0 is set, OMPI_COMM_WORLD_SIZE is not: set both, or neither to run "
        "alone");
  CHECK(refusal({{"PMI_RANK", "0"}}) ==
        "PMI_RANK=0 is set, PMI_SIZE is not: set both, or neither to run alone");
  CHECK(refusal({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}}) ==
        "SLURM_PROCID=1 is set, SLURM_STEP_NUM_TASKS is not: set both, or neither to run alone");
  auto half = kTorchrun;
  half.erase("MASTER_PORT");
  CHECK(refusal(half) ==
        "MASTER_ADDR=node0 is set, MASTER_PORT is not: set both, or CCOLL_STORE=tcp://host:port");
  half.erase("MASTER_ADDR");
  CHECK_THAT(refusal(half),
             Catch::Contains("MASTER_ADDR and MASTER_PORT are not; set CCOLL_STORE"));
  CHECK_THAT(refusal(with(half, {{"CCOLL_STORE", "env://"}})),
             Catch::Contains("CCOLL_STORE=env:// is set, MASTER_ADDR and MASTER_PORT are not"));
  CHECK_THAT(refusal({{"CCOLL_RANK", "0"}, {"CCOLL_SIZE", "2"}}), Catch::Contains("CCOLL_STORE"));
}

TEST_CASE("environment: values that cannot be right are named", "[rendezvous][unit]") {
  const auto torchrun = [](const Table& more) { return refusal(with(kTorchrun, more)); };
  const std::string whole = ": expected a whole number from ";
  CHECK(torchrun({{"RANK", "three"}}) == "RANK=three" + whole + "0 to 2147483647");
  CHECK(torchrun({{"RANK", "-1"}}) == "RANK=-1" + whole + "0 to 2147483647");
  CHECK(torchrun({{"RANK", "1 "}}) == "RANK=1 " + whole + "0 to 2147483647");
  CHECK(torchrun({{"RANK", "99999999999"}}) == "RANK=99999999999" + whole + "0 to 2147483647");
  CHECK(torchrun({{"WORLD_SIZE", "0"}}) == "WORLD_SIZE=0" + whole + "1 to 1048576");
  CHECK(torchrun({{"WORLD_SIZE", "1048577"}}) == "WORLD_SIZE=1048577" + whole + "1 to 1048576");
  CHECK(refusal({{"CCOLL_RANK", "0"}, {"CCOLL_SIZE", "100000000"}}) ==
        "CCOLL_SIZE=100000000" + whole + "1 to 1048576");
  CHECK(torchrun({{"RANK", "8"}}) == "RANK=8, but WORLD_SIZE=8: expected RANK from 0 to 7");
  CHECK(torchrun({{"LOCAL_RANK", "4"}}) ==
        "LOCAL_RANK=4, but LOCAL_WORLD_SIZE=4: expected LOCAL_RANK from 0 to 3");
  CHECK(torchrun({{"LOCAL_WORLD_SIZE", "9"}}) ==
        "LOCAL_WORLD_SIZE=9, but WORLD_SIZE=8: expected no more than that");
  CHECK(torchrun({{"MASTER_PORT", "0"}}) == "MASTER_PORT=0: expected a port from 1 to 65535");
  CHECK(torchrun({{"MASTER_PORT", "70000"}}) ==
        "MASTER_PORT=70000: expected a port from 1 to 65535");
  CHECK(torchrun({{"CCOLL_STORE", "redis://x"}}) ==
        "CCOLL_STORE=redis://x: expected tcp://host:port, file:///path or env://");
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "bench/command/help.hpp"

#include <fmt/format.h>

#include <array>

#include "bench/measure/operations.hpp"
#include "bench/report/table.hpp"

namespace ccoll::bench {

namespace {

struct NcclOption {
  char letter;
  std::string_view meaning;
  std::string_view instead;
};

/// nccl-tests' letters that cc-bench lacks or uses differently. -b -e -f -i -w -d -o -r mean the
/// same.
constexpr std::array<NcclOption, 23> kNcclOptions = {{
    {'n', "iterations", "--iters N; -n is the number of ranks"},
    {'t', "threads", "-n RANKS, with --transport inproc for threads"},
    {'g', "GPUs per thread", "-n RANKS; with --device cuda ranks take GPUs in turn"},
    {'c', "check", "--check (the default) or --no-check"},
    {'J', "JSON file", "--json FILE"},
    {'T', "timeout", "--timeout SECONDS"},
    {'a', "average over ranks", "nothing: the slowest rank counts, always"},
    {'I', "per-iteration figures", "nothing: p50 and p99 are in the table, all figures in --json"},
    {'m', "calls per iteration", "--iters N: calls are timed in batches"},
    {'N', "repetitions", "--iters N"},
    {'K', "skipped iterations", "-w N"},
    {'z', "blocking", "nothing: every call is waited for"},
    {'p', "parallel start", "nothing: ranks start at the same time"},
    {'C', "CPU time", "nothing: elapsed time is reported"},
    {'S', "time stamps", "nothing: --json has the time of the run"},
    {'G', "graph launches", "--device cuda --graph=CALLS"},
    {'y', "null stream", "nothing: with --device cuda every rank has a stream of its own"},
    {'R', "registration", "nothing: memory is not registered"},
    {'x', "CTA policy", "--lanes N"},
    {'D', "device API", "nothing: calls are made by the host; --device cuda for buffers on GPUs"},
    {'V', "device API's CTAs", "--lanes N"},
    {'M', "memory report", "nothing: not reported"},
    {'u', "unaligned", "nothing: buffers begin at a page"},
}};

}  // namespace

std::string overview() {
  std::string text =
      "cc-bench measures collective operations and checks their results bit by bit.\n\n"
      "Type this first:\n"
      "  cc-bench all_reduce -n 4        four ranks on this machine add up their buffers\n\n"
      "Operations (several: a,b or all; allreduce, MPI_Allreduce, all_reduce_perf will do too):\n";
  for (const Operation& row : operations()) {
    text += fmt::format("  {:<18}{}\n", row.name, row.meaning);
  }
  text +=
      "\nThen:\n"
      "  cc-bench all -n 3 -b 0 -e 1M    every operation, from nothing to 1 MiB\n"
      "  cc-bench all_reduce -n 4 --algo all    every algorithm that it has\n"
      "  cc-bench all_reduce -n 4 --csv results.csv --json old.json --html page.html\n"
      "  cc-bench all_reduce -n 4 --baseline old.json    is anything slower than it was?\n"
      "  cc-bench explain all_reduce 64K -n 8    which algorithm is chosen, and why\n"
      "  cc-bench all_reduce -n 2 --skew 100 --overlap    what waiting and working beside it cost\n"
      "  cc-bench matrix -n 4            latency and bandwidth of every pair of ranks\n"
      "  cc-bench all_reduce -n 2 --device cuda    buffers on GPUs, calls in streams\n"
      "  cc-bench tune                   what links cost here, for all that choose an algorithm\n"
      "  cc-bench info                   what this machine and build can do\n"
      "  mpirun -n 4 cc-bench all_reduce    inside Slurm, MPI and torchrun it joins their ranks\n"
      "  cc-bench --help                 all options\n";
  return text;
}

std::string help_footer() {
  std::string text = fmt::format(
      "The columns of the CSV form (- of the table); the JSON form has them all and each batch:\n"
      "  label op ranks bytes       what was measured; bytes as nccl-tests counts them\n"
      "  usec (time)                median over batches of a batch's mean time per call; on GPUs\n"
      "                             by events in the rank's stream, else by the steady clock\n"
      "  algbw_GBps busbw_GBps      bytes/usec, and that times nccl-tests' factor; 10^9 bytes/s\n"
      "  wrong (#wrong)             elements that are not exact; empty (-) when unchecked\n"
      "  dtype redop root in_place  of the call; root -1: it has none\n"
      "  algo transport             what ran, and over what (via)\n"
      "  iters min_us p50_us p99_us max_us\n"
      "                             timed calls; of single calls, or of batches' means where a\n"
      "                             call takes under {:g} us\n"
      "  count                      elements, as the call takes them\n"
      "  spread_pct                 how far the middle half of the batches lies apart; over {:g} "
      "%\n"
      "                             the table marks the time with ~\n"
      "  baseline_usec              the time in the file of --baseline; empty when it has none\n"
      "  wait_cpu_pct               --skew: of a core, by a rank that waits for the last one\n"
      "  overlap_ratio              --overlap: a call during which its caller sleeps as long as "
      "it\n"
      "                             takes alone, over the longer; 1: it goes on by itself\n"
      "  memory                     --memory: what the buffers are\n"
      "  first_us early_us (2-20)   --first: the first call of that size, after a barrier, and\n"
      "                             the mean of those from the second to the twentieth\n"
      "  device graph_calls         --device cuda only: cuda, and the calls in a graph (--graph; "
      "0:\n"
      "                             none), whose times are divided by them; iters are launches\n"
      "  put_cpu_us                 --device cuda only: processor time of the thread that calls,\n"
      "                             or launches the graph, per call, without the stream's wait\n"
      "Of every figure the slowest rank counts: a single call that another rank holds up each\n"
      "time makes min_us more than usec, the mean in which such waits cancel out.\n\n",
      kTimedSinglyUs, kUnsteadySpread * 100);
  text +=
      "Exit status: 0; 1 where an element is wrong, a call fails, a row is slower than the "
      "baseline\n"
      "allows (or the baseline has none of the rows), or bandwidth is below --min-busbw; 2 for "
      "wrong "
      "usage.\n\n"
      "nccl-tests' letters -b -e -f -i -w -d -o -r mean the same here. Of the others:\n";
  for (const NcclOption& option : kNcclOptions) {
    if (option.instead.starts_with("nothing")) continue;
    text += fmt::format("  -{} {:<22} is here {}\n", option.letter, option.meaning, option.instead);
  }
  return text + "\n`cc-bench` alone lists the operations and some first commands.";
}

std::string_view instead_of_nccl_option(std::string_view option) {
  if (option.size() < 2 || option[0] != '-' || option[1] == '-') return {};
  for (const NcclOption& row : kNcclOptions) {
    if (row.letter == option[1]) return row.instead;
  }
  return {};
}

}  // namespace ccoll::bench

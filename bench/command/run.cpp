// SPDX-License-Identifier: Apache-2.0
#include "bench/command/run.hpp"
#include "core/deadline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/command/columns.hpp"
#include "bench/command/info.hpp"
#include "bench/command/tune.hpp"
#include "bench/command/width.hpp"
#include "bench/measure/counters.hpp"
#include "bench/measure/gpu.hpp"
#include "bench/measure/links.hpp"
#include "bench/measure/rows.hpp"
#include "bench/report/report.hpp"
#include "ccoll/environment.hpp"
#include "ccoll/store.hpp"
#include "comm/groups/tuning.hpp"
#include "core/text.hpp"
#include "rendezvous/identity.hpp"
#include "run/launch.hpp"
#include "system/variables.hpp"
#include "system/write_all.hpp"

namespace ccoll::bench {

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

/// Reports an error on standard error in one write, so that ranks' lines stay whole.
void complain(std::optional<int> rank, const std::string& message) {
  fmt::print(stderr, "{}",
             rank ? fmt::format("cc-bench: rank {}: {}\n", *rank, message)
                  : fmt::format("cc-bench: {}\n", message));
}

CommunicatorOptions communicator_options(const Options& options) {
  CommunicatorOptions result = CommunicatorOptions::from_environment();
  if (!options.transport.empty()) result.transport = options.transport;
  if (options.lanes > 0) result.max_lanes = options.lanes;
  if (options.timeout_s > 0) {
    result.timeout = std::chrono::milliseconds(
        std::max<std::int64_t>(1, static_cast<std::int64_t>(options.timeout_s * 1000)));
    result.start_timeout = std::min(result.start_timeout, result.timeout);
  }
  return result;
}

/// Runs one rank from start to end; errors become its own message and status.
int run_rank(int rank, int local_rank, int ranks_here, const Options& options, Session session,
             const std::function<Communicator(const CommunicatorOptions&)>& connect) {
  // It outlives the communicator, so that measurements are written even if calls fail.
  std::optional<Report> report;
  const auto give_up = [&](const std::string& why) {
    complain(rank, why);
    if (report) report->fail(why);
  };
  try {
    CommunicatorOptions settings = communicator_options(options);
    // Its memory is freed after the communicator, which streams may wait for.
    const std::unique_ptr<Gpu> gpu = options.is_on_gpu() ? open_gpu(local_rank) : nullptr;
    if (gpu) settings.device.ordinal = gpu->number();
    if (options.command == Options::Command::tune) will_save_tuning();
    Communicator communicator = connect(settings);
    if (options.command == Options::Command::tune) {
      tune(communicator, options);
      return 0;
    }
    if (options.command == Options::Command::explain) {
      const LinkKind kind = kind_of_links(communicator, "explain --measure");
      KeptRows rows;
      measure_rows(communicator, to_explain(options), rank == 0 ? &rows : nullptr, nullptr,
                   agree_on_memory(communicator, ranks_here, options.max_memory));
      if (rank != 0) return 0;
      const auto text = explain_text(options, communicator.size(), kind, rows.all());
      if (!text) throw Error(text.error().kind, text.error().message);
      fmt::print("{}", wrapped_lines(*text, columns_of_sentences(options.width)));
      return 0;
    }
    // "tcp", "shm and tcp", or "none".
    const auto transports = transports_from(communicator);
    session.transport = transports.empty() ? "none" : joined(transports, " and ");
    if (rank == 0) report.emplace(options, session);
    if (options.command == Options::Command::matrix) {
      const Matrix matrix = measure_matrix(communicator, options.matrix_bytes);
      if (report) report->add_matrix(matrix);
    } else {
      measure_rows(communicator, options, report ? &*report : nullptr, gpu.get(),
                   agree_on_memory(communicator, ranks_here, options.max_memory));
    }
    if (!options.json.empty()) {
      auto counters = gather_counters(communicator);
      if (report) report->add_counters(std::move(counters));
    }
    // One rank's status reports the error; the others have nothing to add.
    return !report || report->finish() ? 0 : kFailed;
  } catch (const std::bad_alloc&) {
    give_up("out of memory: give a smaller -e or fewer ranks");
  } catch (const std::exception& error) {
    if (!is_output_unread()) give_up(error.what());
  }
  return kFailed;
}

int join(const Environment& environment, const Options& options, const Session& session) {
  return run_rank(environment.rank, environment.local_rank, environment.local_size, options,
                  session, [&](const CommunicatorOptions& settings) {
                    return Communicator::create(environment, settings);
                  });
}

int run_threads(int size, const Options& options, const Session& session) {
  const std::shared_ptr<Store> store = make_inproc_store();
  std::vector<int> status(static_cast<std::size_t>(size), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; rank++) {
    threads.emplace_back([&, rank] {
      status[static_cast<std::size_t>(rank)] =
          run_rank(rank, rank, size, options, session, [&](CommunicatorOptions settings) {
            settings.transport = "inproc";
            return Communicator::create(store, rank, size, settings);
          });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(status.begin(), status.end());
}

int start_processes(int size, const Options& options, int argc, const char* const* argv) {
  LaunchOptions job;
  job.ranks = size;
  job.command = {"/proc/self/exe"};
  job.command.insert(job.command.end(), argv + 1, argv + argc);
  job.prefix = false;
  job.name = "cc-bench";
  job.variables = {{"CCOLL_BENCH_STARTED", "1"}};
  if (options.ranks != size) {
    job.command.push_back("-n");
    job.command.push_back(std::to_string(size));
  }
  const Result<int> status = launch(job);
  if (status) return *status;
  complain(std::nullopt, status.error().message);
  return kFailed;
}

Status check_against_launcher(const Environment& environment, const Options& options,
                              const std::string& transport) {
  if (options.ranks && *options.ranks != environment.size) {
    return fail(
        ErrorKind::invalid_argument,
        "-n {} was given, but the launcher ({}) started {} rank{}: leave -n out, or start {}",
        *options.ranks, environment.launcher, environment.size, environment.size == 1 ? "" : "s",
        *options.ranks);
  }
  if (environment.size > 1 && transport == "inproc") {
    return fail(ErrorKind::invalid_argument,
                "inproc is for ranks that are threads of one process, but {} started {} "
                "processes: leave it out, or start cc-bench -n {} without a launcher",
                environment.launcher, environment.size, environment.size);
  }
  return {};
}

Session describe(const Options& options, int size, const Environment& environment, int argc,
                 const char* const* argv) {
  Session session;
  session.ranks = size;
  const bool started = read_variable("CCOLL_BENCH_STARTED").has_value();
  session.launcher = environment.launcher == "none" || started ? "cc-bench" : environment.launcher;
  const auto limit = communicator_options(options).timeout;
  session.timeout_s.reset();
  if (limit != kNoLimit) session.timeout_s = std::chrono::duration<double>(limit).count();
  session.command = "cc-bench";
  for (int i = 1; i < argc; i++) session.command += std::string(" ") + argv[i];
  return session;
}

/// The checks that need no other rank.
Status check(const Options& options, const Environment& environment, const std::string& transport,
             int size) {
  CCOLL_TRY(check_for_size(options, size));
  if (options.command == Options::Command::explain)
    if (const auto text = explain_text(options, size, {"shm", true, 1}, {}); !text)
      return tl::unexpected(text.error());
  if (environment.rank == 0) CCOLL_TRY(check_outputs(options));
  if (environment.launcher != "none")
    return check_against_launcher(environment, options, transport);
  return check_rank_count(size);
}

}  // namespace

bool speaks_for_all() {
  try {
    return Environment::detect().rank == 0;
  } catch (const Error&) {
    return true;
  }
}

/// Tunes the whole machine: one job after another, each with its pair of options.
static int tune_all(const Options& options, int argc, const char* const* argv) {
  for (const TuneJob& job : tune_jobs(usable_cores())) {
    Options one = options;
    one.transport = job.transport;
    one.ranks = job.ranks;
    const std::string ranks = std::to_string(job.ranks);
    std::vector<const char*> words(argv, argv + argc);
    for (const char* word : {"--transport", one.transport.c_str(), "-n", ranks.c_str()})
      words.push_back(word);
    if (const int status = run(one, static_cast<int>(words.size()), words.data()); status != 0)
      return status;
  }
  return 0;
}

int run(const Options& options, int argc, const char* const* argv) {
  Environment environment;
  std::string transport;
  try {
    environment = Environment::detect();
    transport = communicator_options(options).transport;
  } catch (const Error& error) {
    complain(std::nullopt, error.what());
    return kWrongUsage;
  }
  const bool joins = environment.launcher != "none";
  if (options.command == Options::Command::tune && !joins && transport.empty() && !options.ranks)
    return tune_all(options, argc, argv);
  const int usual = std::clamp<int>(usable_cores(), 2, 8);
  const int size = joins ? environment.size : options.ranks.value_or(usual);
  if (const Status valid = check(options, environment, transport, size); !valid) {
    if (environment.rank == 0) complain(std::nullopt, valid.error().message);
    return kWrongUsage;
  }
  const Session session = describe(options, size, environment, argc, argv);
  // Each of a launcher's ranks reports what its own host lacks.
  if (options.is_on_gpu() && !joins) {
    if (const auto gpus = count_gpus(); !gpus) {
      complain(std::nullopt, "--device cuda: " + gpus.error().message);
      return kFailed;
    }
  }
  if (joins) return join(environment, options, session);
  if (size == 1 || transport == "inproc") return run_threads(size, options, session);
  return start_processes(size, options, argc, argv);
}

}  // namespace ccoll::bench

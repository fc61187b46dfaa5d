// SPDX-License-Identifier: Apache-2.0
#include "ccoll/environment.hpp"

#include "rendezvous/launchers.hpp"
#include "rendezvous/meeting_place.hpp"
#include "system/variables.hpp"

namespace ccoll {
namespace {

Status check_scheme(const std::string& store) {
  if (store.starts_with("tcp://") || store.starts_with("file:///")) return {};
  return fail(ErrorKind::invalid_argument,
              "CCOLL_STORE={}: expected tcp://host:port, file:///path or env://", store);
}

/// Torchrun's own store listens at MASTER_PORT as long as the job lives.
tl::unexpected<Failure> port_is_held(const std::string& address, const std::string& port) {
  return fail(ErrorKind::invalid_argument,
              "{}:{} (MASTER_ADDR, MASTER_PORT) is held by torchrun's own store "
              "(TORCHELASTIC_USE_AGENT_STORE=True), whose protocol ccoll does not speak: set "
              "CCOLL_PORT to a free port of that host, or CCOLL_STORE=tcp://host:port",
              address, port);
}

Result<std::optional<int>> port_number(const Variables& variables, const char* name) {
  constexpr int kMostPort = 65535;
  auto port = variables.number(name, 1);
  if (port && (!*port || **port <= kMostPort)) return port;
  return fail(ErrorKind::invalid_argument, "{}={}: expected a port from 1 to {}", name,
              variables.text_or(name, ""), kMostPort);
}

/// "tcp://MASTER_ADDR:MASTER_PORT"; nullopt if neither is set.
Result<std::optional<std::string>> master_address(const Variables& variables) {
  const auto address = variables.text("MASTER_ADDR");
  const auto port = port_number(variables, "MASTER_PORT");
  if (!port) return tl::unexpected(port.error());
  const auto own_port = port_number(variables, "CCOLL_PORT");
  if (!own_port) return tl::unexpected(own_port.error());
  if (!address && !*port) return std::optional<std::string>();
  if (!address || (!*port && !*own_port)) {
    const char* const set = address ? "MASTER_ADDR" : "MASTER_PORT";
    return fail(ErrorKind::invalid_argument,
                "{}={} is set, {} is not: set both, or CCOLL_STORE=tcp://host:port", set,
                variables.text_or(set, ""), address ? "MASTER_PORT" : "MASTER_ADDR");
  }
  const auto agent = variables.text_or("TORCHELASTIC_USE_AGENT_STORE", "");
  if (!*own_port && (agent == "True" || agent == "true" || agent == "1")) {
    return port_is_held(*address, std::to_string(**port));
  }
  const bool bare_v6 = address->find(':') != std::string::npos && !address->starts_with('[');
  return std::optional(fmt::format("tcp://{}{}{}:{}", bare_v6 ? "[" : "", *address,
                                   bare_v6 ? "]" : "", *own_port ? **own_port : **port));
}

/// Finds where the ranks meet: `store`, `rank0_serves_store` and `meeting_place` of `environment`.
Status find_store(const Variables& variables, const Launched& launched, Environment& environment) {
  const auto given = variables.text("CCOLL_STORE");
  if (given && *given != "env://") {
    CCOLL_TRY(check_scheme(*given));
    environment.store = *given;
  } else {
    auto master = master_address(variables);
    if (!master) return tl::unexpected(master.error());
    if (*master) {
      environment.store = **master;
    } else if (given) {
      return fail(ErrorKind::invalid_argument,
                  "CCOLL_STORE=env:// is set, MASTER_ADDR and MASTER_PORT are not: set them, or "
                  "CCOLL_STORE=tcp://host:port");
    } else if (launched.meeting.empty()) {
      return fail(ErrorKind::invalid_argument,
                  "the ranks of this {} job have no address to meet at: {}; set CCOLL_STORE to "
                  "tcp://host:port with the host of rank 0 and a free port of it, or to "
                  "file:///path in a directory that all ranks share",
                  launched.launcher, launched.no_meeting);
    } else {
      environment.store = "file://" + meeting_path(variables, launched);
      environment.meeting_place = true;
    }
  }
  const auto serve = variables.number("CCOLL_SERVE_STORE", 0);
  if (!serve) return tl::unexpected(serve.error());
  environment.rank0_serves_store = environment.store.starts_with("tcp://") && *serve != 0;
  return {};
}

Result<Environment> read_environment(const Environment::Lookup& lookup) {
  const Variables variables(lookup);
  auto launched = read_launcher(variables);
  if (!launched) return tl::unexpected(launched.error());
  Environment environment;
  environment.token_file = variables.text_or("CCOLL_TOKEN_FILE", "");
  if (!*launched) return environment;
  environment.rank = (*launched)->rank;
  environment.size = (*launched)->size;
  environment.local_rank = (*launched)->local_rank;
  environment.local_size = (*launched)->local_size;
  environment.launcher = (*launched)->launcher;
  environment.job = variables.text_or("CCOLL_JOB", (*launched)->job);
  if (environment.size > 1) CCOLL_TRY(find_store(variables, **launched, environment));
  return environment;
}

}  // namespace

Environment Environment::detect() {
  try {
    return detect(read_variable);
  } catch (const Error&) {
    // A misspelt name is a likely cause.
    warn_of_unknown_variables();
    throw;
  }
}

Environment Environment::detect(const Lookup& lookup) {
  return value_or_throw(read_environment(lookup));
}

}  // namespace ccoll

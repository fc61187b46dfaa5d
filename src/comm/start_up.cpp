// SPDX-License-Identifier: Apache-2.0
// How communicators come and go: from the environment, from a store, from each other.
#include <cstdlib>
#include <thread>

#include "ccoll/communicator.hpp"
#include "comm/implementation.hpp"
#include "core/log.hpp"
#include "rendezvous/open_store.hpp"

namespace ccoll {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// "host:port" of a tcp:// address; empty for the others, which are on this host.
std::string towards(const std::string& store) {
  constexpr std::string_view kScheme = "tcp://";
  return store.starts_with(kScheme) ? store.substr(kScheme.size()) : "";
}

std::shared_ptr<Communicator::Implementation> start_up(const std::shared_ptr<Store>& store,
                                                       int rank, int size,
                                                       const CommunicatorOptions& options,
                                                       const std::string& towards) {
  if (size < 1 || rank < 0 || rank >= size)
    raise({ErrorKind::invalid_argument,
           fmt::format("rank {} of {}: a rank is at least 0 and less than the size", rank, size),
           std::nullopt});
  auto member = value_or_throw(Member::join(*store, static_cast<std::uint32_t>(rank),
                                            static_cast<std::uint32_t>(size), options, towards));
  const auto job = member->control().job();
  return value_or_throw(Communicator::Implementation::make(std::move(member), job, options));
}

/// Closes the communicator and returns when nothing of it runs any more. The service thread may
/// hold it for a moment, to tell it news; were that the last reference, the process could end while
/// the thread still takes it down.
Status end(std::shared_ptr<Communicator::Implementation>& implementation) {
  if (!implementation) return {};
  const auto service = implementation->service();
  const Status late = implementation->close();
  const std::weak_ptr<Communicator::Implementation> others = implementation;
  implementation.reset();
  while (!service->on_service_thread() && !others.expired()) std::this_thread::yield();
  return late;
}

/// For those who cannot be told by an exception.
void end_and_log(std::shared_ptr<Communicator::Implementation>& implementation) {
  const Status late = end(implementation);
  // Ranks that end without leaving are no news once this one is done.
  if (!late && late.error().kind != ErrorKind::peer_lost)
    log().error("found as the communicator ended: {}", late.error().message);
}

}  // namespace

CommunicatorOptions CommunicatorOptions::from_environment() {
  CommunicatorOptions options;
  options.transport = variable("CCOLL_TRANSPORT");
  options.algorithm = variable("CCOLL_ALGO");
  options.interface = variable("CCOLL_SOCKET_IFNAME");
  if (const auto lanes = variable("CCOLL_LANES"); !lanes.empty()) {
    char* end = nullptr;
    const long value = std::strtol(lanes.c_str(), &end, 10);
    if (*end != '\0' || value < 1 || value > 1024)
      raise({ErrorKind::invalid_argument,
             fmt::format("CCOLL_LANES={} is not a number from 1 to 1024", lanes), std::nullopt});
    options.max_lanes = static_cast<int>(value);
  }
  if (const auto file = variable("CCOLL_TOKEN_FILE"); !file.empty())
    options.token = value_or_throw(read_token_file(file));
  return options;
}

Communicator Communicator::create(const CommunicatorOptions& options) {
  return create(Environment::detect(), options);
}

Communicator Communicator::create(const Environment& environment,
                                  const CommunicatorOptions& options) {
  auto asked = options;
  if (asked.token.empty() && !environment.token_file.empty())
    asked.token = value_or_throw(read_token_file(environment.token_file));
  const auto opened = value_or_throw(open_store(environment, asked.token, asked.start_timeout));
  return Communicator(start_up(opened.store, environment.rank, environment.size, asked,
                               towards(environment.store)));
}

Communicator Communicator::create(std::shared_ptr<Store> store, int rank, int size,
                                  const CommunicatorOptions& options) {
  return Communicator(start_up(store, rank, size, options, ""));
}

Communicator::Communicator(std::shared_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
Communicator::Communicator(Communicator&&) noexcept = default;

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this == &other) return *this;
  end_and_log(implementation_);
  implementation_ = std::move(other.implementation_);
  return *this;
}

Communicator::~Communicator() { end_and_log(implementation_); }

void Communicator::close() { value_or_throw(end(implementation_)); }

int Communicator::rank() const { return static_cast<int>(implementation_->rank()); }
int Communicator::size() const { return static_cast<int>(implementation_->size()); }

Communicator Communicator::duplicate() {
  Implementation::Owner owner(*implementation_);
  return Communicator(value_or_throw(implementation_->duplicate_as_owner()));
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <mutex>
#include <random>
#include <vector>

#include "core/text.hpp"
#include "rendezvous/stores/tcp_store.hpp"
#include "system/log.hpp"

namespace ccoll::rendezvous {
namespace {

std::uint64_t draw() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1U;
}

std::string named(const std::string& job) {
  return job.empty() ? "a job without a name" : fmt::format("job '{}'", job);
}

}  // namespace

OwnJobs::OwnJobs() : process_(draw()) {}

void OwnJobs::add(const std::string& job) { names_.lock()->insert(job); }

Status OwnJobs::objection(const std::string& job, std::uint64_t other) const {
  const auto server = fmt::format("pid {} of {}", ::getpid(), host_name());
  const auto own = names_.lock();
  if (!own->contains(job)) {
    std::vector<std::string> names;
    for (const auto& name : *own) names.push_back(named(name));
    return fail(ErrorKind::mismatch, "is served by rank 0 of {} ({}), and this rank is of {}",
                joined(names), server, named(job));
  }
  if (other != 0 && other != process_)
    return fail(ErrorKind::mismatch,
                "is served by rank 0 of another job, or of an earlier start of this one ({})",
                server);
  return {};
}

}  // namespace ccoll::rendezvous

// SPDX-License-Identifier: Apache-2.0
#include "transport/transport.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/text.hpp"
#include "transport/inproc/factory.hpp"
#include "transport/shm/factory.hpp"
#include "transport/tcp/factory.hpp"
#include "transport/verbs/factory.hpp"

namespace ccoll {
namespace {

std::uint32_t bit_of(const TransportKind& kind) {
  return std::uint32_t{1} << (&kind - transports().data());
}

/// Most ranks of a job that works ahead: each rank opens some links to all others.
constexpr std::size_t kFewRanks = 8;

}  // namespace

bool TransportContext::works_ahead(std::uint64_t communicator) const {
  // A job may make many communicators from its own one, and few of them are used for all there is.
  // Where ranks outnumber the cores, no core is free for work that nobody waits for.
  return job != 0 && communicator == job && !oversubscribed && table.size() <= kFewRanks;
}

std::span<const TransportKind> transports() {
  static const std::array kTable = {
      TransportKind{"inproc", true, {}, inproc::reaches, nullptr, inproc::make, nullptr},
      TransportKind{"shm", true, {}, shm::reaches, nullptr, shm::make, shm::may_open_ahead},
      TransportKind{"verbs", false, net::Purpose::verbs, verbs::reaches, verbs::why_not,
                    verbs::make, nullptr},
      TransportKind{"tcp", false, net::Purpose::link, tcp::reaches, nullptr, tcp::make,
                    [](const TransportContext&) { return true; }},
  };
  static_assert(kTable.size() <= kMostTransports);
  return kTable;
}

const TransportKind* find_transport(std::string_view name) {
  const auto table = transports();
  const auto found = std::ranges::find(table, name, &TransportKind::name);
  return found == table.end() ? nullptr : &*found;
}

const TransportKind* find_transport(net::Purpose purpose) {
  const auto table = transports();
  const auto found = std::ranges::find(table, std::optional(purpose), &TransportKind::purpose);
  return found == table.end() ? nullptr : &*found;
}

Result<TransportChoice> TransportChoice::parse(std::string_view text) {
  if (text.empty()) return TransportChoice();
  const auto whole = text;
  const bool excludes = text.starts_with('^');
  if (excludes) text.remove_prefix(1);
  std::uint32_t named = 0, all = 0;
  std::vector<std::string_view> names;
  for (const auto& kind : transports()) {
    names.push_back(kind.name);
    all |= bit_of(kind);
  }
  for (bool goes_on = true; goes_on;) {
    const auto comma = text.find(',');
    const auto name = text.substr(0, comma);
    const auto* const kind = find_transport(name);
    if (kind == nullptr)
      return fail(ErrorKind::invalid_argument,
                  "no transport '{}' (CCOLL_TRANSPORT{}); there are {}", name,
                  name == whole ? "" : fmt::format("={}", whole), joined(names));
    named |= bit_of(*kind);
    goes_on = comma != text.npos;
    if (goes_on) text.remove_prefix(comma + 1);
  }
  if (excludes && named == all)
    return fail(ErrorKind::invalid_argument, "CCOLL_TRANSPORT={} leaves no transport; there are {}",
                whole, joined(names));
  return TransportChoice(excludes ? named : all & ~named);
}

bool TransportChoice::allows(const TransportKind& kind) const {
  return (excluded_ & bit_of(kind)) == 0;
}

std::string TransportChoice::text() const {
  if (excluded_ == 0) return "by reach";
  std::vector<std::string_view> names;
  for (const auto& kind : transports())
    if (allows(kind)) names.push_back(kind.name);
  return joined(names, " or ");
}

Result<std::uint8_t> usable_fabrics() { return verbs::usable_fabrics(); }

std::uint8_t usable_rails() { return verbs::usable_rails(); }

std::vector<std::string> describe_fabrics() { return verbs::describe_fabrics(); }

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#include "show/real/local_ranks.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "ccoll/ccoll.hpp"
#include "core/text.hpp"
#include "transport/transport_set.hpp"

namespace ccoll::show {

namespace {

constexpr std::chrono::seconds kLimitOfLocalRanks{60};

PeerAddress loopback(std::uint16_t port) {
  PeerAddress address;
  address.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  address.port = port;
  return address;
}

/// Unique per set of links, because transports remember ended ones.
std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

Status check_transport(const std::string& transport) {
  std::vector<std::string_view> names;
  for (const TransportKind& kind : transports()) names.push_back(kind.name);
  if (std::ranges::find(names, transport) != names.end()) return {};
  return fail(ErrorKind::invalid_argument, "{}", unknown_word("transport", transport, names));
}

std::string on_every_rank(Rank size, const std::string& transport,
                          const std::function<void(Communicator&)>& body) {
  CommunicatorOptions options;
  options.transport = transport;
  options.timeout = kLimitOfLocalRanks;
  const auto store = make_inproc_store();
  std::vector<std::string> wrong(size);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        auto communicator =
            Communicator::create(store, static_cast<int>(rank), static_cast<int>(size), options);
        body(communicator);
      } catch (const std::exception& error) {
        wrong[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto first = std::ranges::find_if(wrong, [](const auto& text) { return !text.empty(); });
  return first == wrong.end() ? std::string() : *first;
}

/// Opens a listener for each rank.
Status LocalLinks::listen(Rank size) {
  transports_.resize(size);
  addresses_.clear();
  for (Rank rank = 0; rank < size; ++rank) {
    const auto handler = [this, rank](net::Purpose purpose, net::Stream stream) {
      transports_[rank]->accept(purpose, std::move(stream).release());
    };
    auto listener = net::Listener::open(net::Service::shared(), "", "", handler);
    if (!listener) return tl::unexpected(listener.error());
    addresses_.push_back(loopback((*listener)->endpoint().port()));
    listeners_.push_back(std::move(*listener));
  }
  return {};
}

Result<std::unique_ptr<LocalLinks>> LocalLinks::open(Rank size, const std::string& transport) {
  std::unique_ptr<LocalLinks> links(new LocalLinks);
  links->addresses_.resize(size);
  TransportContext context;
  if (transport != "inproc") {
    CCOLL_TRY(links->listen(size));
    context.service = net::Service::shared();
  }
  context.table = links->addresses_;
  std::vector<std::uint32_t> group(size);
  std::iota(group.begin(), group.end(), 0U);
  const std::uint64_t number = next_number();
  links->transports_.resize(size);
  for (context.rank = 0; context.rank < size; ++context.rank)
    links->transports_[context.rank] = std::make_shared<TransportSet>(context, transport);
  for (Rank rank = 0; rank < size; ++rank) {
    auto waiter = Waiter::make();
    if (!waiter) return tl::unexpected(waiter.error());
    links->tables_.push_back(
        std::make_unique<LinkTable>(number, group, links->transports_[rank], std::move(*waiter)));
  }
  return links;
}

}  // namespace ccoll::show

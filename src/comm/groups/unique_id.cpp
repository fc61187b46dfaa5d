// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/unique_id.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

#include "core/bytes.hpp"
#include "engine/mix.hpp"
#include "net/address.hpp"
#include "net/listener.hpp"
#include "net/wire/openssl.hpp"
#include "rendezvous/identity.hpp"
#include "rendezvous/open_store.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/random.hpp"
#include "system/runtime.hpp"
#include "system/variables.hpp"

namespace ccoll {
namespace {

// The bytes: magic, version, IPv6 or mapped IPv4 address and port of the store, host, number,
// token, zeros, and a checksum over all before it.
constexpr std::string_view kMagic = "ccoll-id";
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kTokenAt = kMagic.size() + 2 + 16 + 2 + 8 + 8;
constexpr std::size_t kSummedBytes = sizeof(UniqueId) - sizeof(std::uint64_t);

constexpr const char* kUsedKey = "used";
constexpr const char* kOverKey = "over";

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (const auto filled = fill_random(std::as_writable_bytes(std::span(bytes))); !filled)
    raise({filled.error().kind, "UniqueId::create: " + filled.error().message, std::nullopt});
  return bytes;
}

/// The stores that this process serves for its ids, one per address that it listens at.
class IdStores {
 public:
  struct Served {
    std::string address;
    std::string token;
  };

  static IdStores& of_process() { return Runtime::one_until_exit<IdStores>(); }

  /// Its servers end before OpenSSL does.
  IdStores() { const net::UsingOpenSsl use; }

  /// The one that listens at `at` ("ip:0") with `tls`; starts it if there is none.
  Served serve(const std::string& at, const TlsOptions& tls) {
    // After fork() the others are the parent's: they end with it, and so do the ids made there.
    const Key key{::getpid(), at, tls};
    if (auto served = served_as(key)) return *served;
    // Do this without the lock: a fork waits for the lock, and the place of TLS files may hang.
    Entry made;
    made.token = random_bytes(kTokenBytes);
    made.server = serve_tcp_store(at, made.token, tls);
    const auto servers = servers_.lock();
    // Another thread's store may have come first; then this one is not needed.
    const auto& entry = servers->try_emplace(key, std::move(made)).first->second;
    return {entry.server->address(), entry.token};
  }

 private:
  struct Entry {
    std::unique_ptr<StoreServer> server;
    std::string token;
  };

  using Key = std::tuple<pid_t, std::string, TlsOptions>;

  std::optional<Served> served_as(const Key& key) {
    const auto servers = servers_.lock();
    const auto found = servers->find(key);
    if (found == servers->end()) return std::nullopt;
    return Served{found->second.server->address(), found->second.token};
  }

  Guarded<std::map<Key, Entry>, ProcessMutex> servers_;
};

tl::unexpected<Failure> no_id(std::string_view why) {
  return fail(ErrorKind::invalid_argument,
              "these 128 bytes are not an id ({}): pass on exactly those that rank 0 made", why);
}

}  // namespace

UniqueId UniqueId::create(const std::string& interface, const TlsOptions& tls) {
  const std::string named =
      interface.empty() ? read_variable("CCOLL_SOCKET_IFNAME").value_or("") : interface;
  const auto family = value_or_throw(read_word("CCOLL_SOCKET_FAMILY")).value_or("");
  const auto at = value_or_throw(net::local_address(named, "", family));
  const auto served = IdStores::of_process().serve(at, tls);
  const auto parsed = value_or_throw(net::parse_address(served.address));
  const auto endpoint = net::numeric_endpoint(parsed);
  CCOLL_CHECK(endpoint, "a store listens at {}", served.address);
  const auto row = located(value_or_throw(identify()), *endpoint);

  std::string bytes(kMagic);
  bytes += net::Writer().number(kVersion).take();
  for (const std::uint8_t byte : row.ip) bytes += static_cast<char>(byte);
  bytes += net::Writer().number(parsed.port).number(row.host).take();
  bytes += random_bytes(sizeof(IdContents::number)) + served.token;
  bytes.resize(kSummedBytes, '\0');
  bytes += net::Writer().number(mix_text(bytes)).take();
  UniqueId id;
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  return id;
}

Result<IdContents> read_id(const UniqueId& id) {
  const std::string_view bytes(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
  if (!bytes.starts_with(kMagic))
    return no_id(bytes.find_first_not_of('\0') == bytes.npos ? "all are zero"
                                                             : "they begin wrongly");
  net::Reader reader(bytes.substr(kMagic.size()));
  const auto version = reader.number<std::uint16_t>();
  if (version != kVersion)
    return fail(ErrorKind::invalid_argument,
                "an id of version {}; this build of ccoll reads version {}", version, kVersion);
  if (net::Reader(bytes.substr(kSummedBytes)).number<std::uint64_t>() !=
      mix_text(bytes.substr(0, kSummedBytes)))
    return no_id("they are damaged");
  PeerAddress store;
  for (auto& byte : store.ip) byte = reader.number<std::uint8_t>();
  const auto port = reader.number<std::uint16_t>();
  const auto host = reader.number<std::uint64_t>();
  IdContents contents;
  contents.number = reader.number<std::uint64_t>();
  const auto ip = asio::ip::make_address(ip_text(store));
  contents.address = net::to_string({ip, port});
  contents.token = bytes.substr(kTokenAt, kTokenBytes);
  const auto here = host_identity();
  if (!here) return tl::unexpected(here.error());
  if (ip.is_loopback() && host != *here)
    return fail(ErrorKind::invalid_argument,
                "this id was made on another host and names that host's loopback address {}: set "
                "CCOLL_SOCKET_IFNAME, or pass an interface, where UniqueId::create() is called",
                contents.address);
  return contents;
}

Result<IdMeeting> IdMeeting::come(const IdContents& id, int rank, int size,
                                  std::chrono::milliseconds timeout, const TlsOptions& tls) {
  try {
    auto store =
        make_prefix_store(value_or_throw(open_store_of_id(id.address, id.token, timeout, tls)),
                          fmt::format("id/{:016x}/", id.number));
    const std::vector<std::string> used = {kUsedKey};
    if (store->check(used, timeout))
      return fail(ErrorKind::invalid_argument,
                  "this id has been used: an id makes one communicator only; create another id");
    if (!store->compare_set(fmt::format("rank/{}", rank), std::nullopt, "here", timeout))
      return fail(ErrorKind::invalid_argument,
                  "rank {} of {} has begun with this id before: each rank comes once, and after a "
                  "failure with a new id",
                  rank, size);
    return IdMeeting(std::move(store));
  } catch (const Error& error) {
    return fail(error.kind(), "{} (the store of the id that this rank was given)", error.what());
  }
}

void IdMeeting::over(int size) const noexcept {
  try {
    if (store_->add(kOverKey, 1) < size) return;
    store_->set(kUsedKey, "");
    for (const auto& key : store_->list(""))
      if (key != kUsedKey) store_->remove(key);
  } catch (const std::exception& error) {
    log().debug("an id's keys stay in its store: {}", error.what());
  }
}

}  // namespace ccoll

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The store: the small key-value service through which ranks find each other at start-up.
/// No running collective needs it. Knows nothing of communicators.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ccoll/tls.hpp"
#include "ccoll/version.hpp"

namespace ccoll {

/// Longest key and value that any store takes, in bytes.
inline constexpr std::size_t kMaxKeyBytes = 8 << 10;
inline constexpr std::size_t kMaxValueBytes = 16 << 20;

/// Keys and values are byte strings. Every method may be called from several threads at once and
/// either succeeds within `timeout` or throws ccoll::Error: `timed_out`; `peer_lost` (the server
/// went away); `invalid_argument` (a key or value over the limits, a non-number under `add`).
/// A key that does not exist is no error unless a method says so.
///
/// Derive from it to bring your own store (etcd, Redis, a file system, …).
class CCOLL_API Store {
 public:
  using Timeout = std::chrono::milliseconds;
  static constexpr Timeout kTimeout = std::chrono::seconds(60);

  virtual ~Store() = default;

  virtual void set(std::string_view key, std::string_view value, Timeout timeout = kTimeout) = 0;
  /// Waits until `key` exists and returns its value, in one round trip.
  virtual std::string get(std::string_view key, Timeout timeout = kTimeout) = 0;
  /// Waits until all keys exist.
  virtual void wait(std::span<const std::string> keys, Timeout timeout = kTimeout) = 0;
  /// Adds to the decimal number under `key` (0 when absent) and returns the new value.
  virtual std::int64_t add(std::string_view key, std::int64_t delta,
                           Timeout timeout = kTimeout) = 0;
  /// Sets `key` to `desired` if its value is `expected` (nullopt: if it does not exist). Returns
  /// true if it was set.
  virtual bool compare_set(std::string_view key, std::optional<std::string_view> expected,
                           std::string_view desired, Timeout timeout = kTimeout) = 0;
  /// Appends to the value under `key` (created empty when absent); returns its new length.
  virtual std::size_t append(std::string_view key, std::string_view value,
                             Timeout timeout = kTimeout) = 0;
  /// True if all keys exist now.
  virtual bool check(std::span<const std::string> keys, Timeout timeout = kTimeout) = 0;
  /// Deletes `key`; false if it was not there.
  virtual bool remove(std::string_view key, Timeout timeout = kTimeout) = 0;
  /// Waits until all keys exist and returns their values in order.
  virtual std::vector<std::string> multi_get(std::span<const std::string> keys,
                                             Timeout timeout = kTimeout) = 0;
  /// Sets all pairs at once: no reader sees some without the others.
  virtual void multi_set(std::span<const std::pair<std::string, std::string>> pairs,
                         Timeout timeout = kTimeout) = 0;
  /// All keys that begin with `prefix`, sorted.
  virtual std::vector<std::string> list(std::string_view prefix, Timeout timeout = kTimeout) = 0;
  /// Waits until `count` callers wait at `key`, then lets them all go. Reusable under the same
  /// key. A caller that times out no longer counts.
  virtual void barrier(std::string_view key, std::size_t count, Timeout timeout = kTimeout) = 0;
  /// "host:port" of a store that is reached over a network; empty for others. Ranks that meet at it
  /// are reached by the interface of the route there, unless set otherwise.
  virtual std::string address() const { return {}; }
};

/// A store inside this process, for ranks that are threads of it.
CCOLL_API std::shared_ptr<Store> make_inproc_store();

/// A store in one file that all ranks can open and lock (`flock`): one host, or a file system whose
/// locks work across hosts. The file is created when absent; whoever made the job removes it.
CCOLL_API std::shared_ptr<Store> make_file_store(const std::string& path);

/// `inner` with `prefix` before every key; `list` gives keys without it.
CCOLL_API std::shared_ptr<Store> make_prefix_store(std::shared_ptr<Store> inner,
                                                   std::string prefix);

/// A connection to the TCP store server at `address` ("host:port", "[v6]:port"). The server may
/// start later: connecting is retried with back-off until `timeout`. An address that is not
/// loopback needs a `token` (the bytes both sides must prove to know). Error{mismatch} if the
/// server has another token, or if only one of the two sides uses TLS.
CCOLL_API std::shared_ptr<Store> connect_tcp_store(const std::string& address,
                                                   const std::string& token = {},
                                                   Store::Timeout timeout = Store::kTimeout,
                                                   const TlsOptions& tls = {});

/// A TCP store server. One thread serves thousands of clients; destroying it ends it.
class CCOLL_API StoreServer {
 public:
  /// Counts of a server's work.
  struct Statistics {
    std::uint64_t clients;   ///< connected now
    std::uint64_t requests;  ///< served since start
    std::uint64_t rejected;  ///< connections dropped because their bytes were not ours
  };
  virtual ~StoreServer() = default;
  /// "host:port" with the port in use.
  virtual std::string address() const = 0;
  virtual Statistics statistics() const = 0;
};

/// Starts a server at `address` ("host:port"; "" is loopback; port 0 picks a free one). Anything
/// but loopback needs a token.
CCOLL_API std::unique_ptr<StoreServer> serve_tcp_store(const std::string& address = {},
                                                       const std::string& token = {},
                                                       const TlsOptions& tls = {});

}  // namespace ccoll

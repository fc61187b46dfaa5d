// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ranks for the tests of control: threads of this process, each with a listener on loopback, that
/// meet at a store which counts its keys. They decide by a clock that a test can set on. There is
/// also a store for ranks that are processes.

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "clock.hpp"
#include "control/control.hpp"
#include "net/listener.hpp"
#include "net/service.hpp"
#include "support/eventually.hpp"

namespace ccoll::testing {

using std::chrono::milliseconds;

/// The store functions that control needs, and no others.
class SmallStore : public Store {
 public:
  void wait(std::span<const std::string>, Timeout) override { unused(); }
  std::int64_t add(std::string_view, std::int64_t, Timeout) override { return unused(), 0; }
  bool compare_set(std::string_view, std::optional<std::string_view>, std::string_view,
                   Timeout) override {
    return unused(), false;
  }
  std::size_t append(std::string_view, std::string_view, Timeout) override { return unused(), 0; }
  bool check(std::span<const std::string>, Timeout) override { return unused(), false; }
  bool remove(std::string_view, Timeout) override { return unused(), false; }
  std::vector<std::string> multi_get(std::span<const std::string>, Timeout) override {
    return unused(), std::vector<std::string>{};
  }
  void multi_set(std::span<const std::pair<std::string, std::string>>, Timeout) override {
    unused();
  }
  void barrier(std::string_view, std::size_t, Timeout) override { unused(); }

 private:
  static void unused() { throw Error(ErrorKind::unsupported, "not needed by control"); }
};

class CountingStore final : public SmallStore {
 public:
  void set(std::string_view key, std::string_view value, Timeout) override;
  std::string get(std::string_view key, Timeout timeout) override;
  std::vector<std::string> list(std::string_view prefix, Timeout) override;
  bool compare_set(std::string_view key, std::optional<std::string_view> expected,
                   std::string_view desired, Timeout) override;

  std::size_t keys();
  std::size_t requests();
  /// Makes every later request fail.
  void break_down();

 private:
  void count_request();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;  // guarded by mutex_
  std::size_t requests_ = 0;                                // guarded by mutex_
  bool broken_ = false;                                     // guarded by mutex_
};

/// Keeps one file per key in a directory.
class DirectoryStore final : public SmallStore {
 public:
  explicit DirectoryStore(std::string path) : path_(std::move(path)) {}
  void set(std::string_view key, std::string_view value, Timeout) override;
  std::string get(std::string_view key, Timeout timeout) override;
  std::vector<std::string> list(std::string_view prefix, Timeout) override;

 private:
  std::string file_of(std::string_view key) const;
  const std::string path_;
};

/// Records what it hears.
class Recorder final : public ControlObserver {
 public:
  using Compare = std::function<std::optional<Failure>(std::uint32_t, const Waiting&)>;
  explicit Recorder(Compare compare = {}) : compare_(std::move(compare)) {}

  void failed(std::uint64_t, const Failure& failure) override;
  void left(std::uint32_t rank) override;
  void lost(std::uint32_t, const Failure& failure) override { failed(0, failure); }
  std::optional<Failure> compare(std::uint32_t peer, const Waiting& waiting) override;
  bool has_begun(std::uint64_t) override { return false; }
  void in_cycle(std::uint64_t, const std::string&) override {}

  std::vector<Failure> failures();
  std::vector<std::uint32_t> departures();
  std::size_t comparisons();
  /// Whether this many failures and departures arrive within the limit.
  bool wait_for(std::size_t failures, std::size_t departures, milliseconds limit);

 private:
  const Compare compare_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Failure> failures_;          // guarded by mutex_
  std::vector<std::uint32_t> departures_;  // guarded by mutex_
  std::size_t comparisons_ = 0;            // guarded by mutex_
};

/// One rank: a listener and its control.
struct Member {
  std::shared_ptr<net::Service> service;
  std::shared_ptr<Control> control;
  std::unique_ptr<net::Listener> listener;
  Status joined;
  double seconds = 0;  ///< duration of join
};

/// The token of this run, inherited by its child processes. Another run on the same host may call
/// at a reused port, and must not count as a stranger of this job.
const std::string& job_token();

/// The identity that a member claims.
struct Claim {
  std::uint64_t process = 0;
  std::uint32_t pid = static_cast<std::uint32_t>(getpid());
  bool is_whole_job = false;
};

Member make_member(std::uint32_t rank, std::uint32_t size, milliseconds timeout,
                   const std::string& token = job_token(),
                   std::shared_ptr<net::Service> service = net::Service::shared(),
                   milliseconds heartbeat = milliseconds(0), const Claim& claim = {});

/// Joins all `ranks` concurrently, each on a thread of its own; indexed like `ranks`.
std::vector<Member> join_all(const std::vector<std::uint32_t>& ranks, std::uint32_t size,
                             Store& store, milliseconds timeout);
/// Joins all ranks.
std::vector<Member> join_all(std::uint32_t size, Store& store,
                             milliseconds timeout = std::chrono::seconds(60));
/// All leave at once, as at the end of a job.
void leave_all(std::vector<Member>& members);

}  // namespace ccoll::testing

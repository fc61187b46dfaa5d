// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace ccoll::testing {
namespace fs = std::filesystem;

void CountingStore::count_request() {
  ++requests_;
  if (broken_) throw Error(ErrorKind::peer_lost, "the store broke down");
}

void CountingStore::set(std::string_view key, std::string_view value, Timeout) {
  const std::lock_guard lock(mutex_);
  count_request();
  values_.insert_or_assign(std::string(key), std::string(value));
  changed_.notify_all();
}

std::string CountingStore::get(std::string_view key, Timeout timeout) {
  std::unique_lock lock(mutex_);
  count_request();
  const bool found = changed_.wait_for(lock, timeout, [&] { return values_.contains(key); });
  if (!found) throw Error(ErrorKind::timed_out, "no such key");
  return values_.find(key)->second;
}

std::vector<std::string> CountingStore::list(std::string_view prefix, Timeout) {
  const std::lock_guard lock(mutex_);
  count_request();
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_)
    if (key.starts_with(prefix)) keys.push_back(key);
  return keys;
}

bool CountingStore::compare_set(std::string_view key, std::optional<std::string_view> expected,
                                std::string_view desired, Timeout) {
  const std::lock_guard lock(mutex_);
  count_request();
  const auto found = values_.find(key);
  if (expected ? found == values_.end() || found->second != *expected : found != values_.end())
    return false;
  values_.insert_or_assign(std::string(key), std::string(desired));
  changed_.notify_all();
  return true;
}

std::size_t CountingStore::keys() {
  const std::lock_guard lock(mutex_);
  return values_.size();
}

std::size_t CountingStore::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void CountingStore::break_down() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
}

std::string DirectoryStore::file_of(std::string_view key) const {
  std::string name(key);
  std::replace(name.begin(), name.end(), '/', '@');
  return path_ + "/" + name;
}

void DirectoryStore::set(std::string_view key, std::string_view value, Timeout) {
  const std::string file = file_of(key);
  const std::string draft = path_ + "/draft." + std::to_string(getpid());
  std::ofstream(draft, std::ios::binary) << value;
  fs::rename(draft, file);
}

std::string DirectoryStore::get(std::string_view key, Timeout timeout) {
  std::string value;
  const bool found = eventually(
      [&] {
        std::ifstream in(file_of(key), std::ios::binary);
        if (!in) return false;
        value.assign(std::istreambuf_iterator<char>(in), {});
        return true;
      },
      timeout);
  if (!found) throw Error(ErrorKind::timed_out, "no such key");
  return value;
}

std::vector<std::string> DirectoryStore::list(std::string_view prefix, Timeout) {
  std::vector<std::string> keys;
  for (const auto& entry : fs::directory_iterator(path_)) {
    std::string key = entry.path().filename();
    std::replace(key.begin(), key.end(), '@', '/');
    if (key.starts_with(prefix)) keys.push_back(key);
  }
  return keys;
}

void Recorder::failed(std::uint64_t, const Failure& failure) {
  const std::lock_guard lock(mutex_);
  failures_.push_back(failure);
  changed_.notify_all();
}

void Recorder::left(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  departures_.push_back(rank);
  changed_.notify_all();
}

std::optional<Failure> Recorder::compare(std::uint32_t peer, const Waiting& waiting) {
  {
    const std::lock_guard lock(mutex_);
    ++comparisons_;
  }
  return compare_ ? compare_(peer, waiting) : std::nullopt;
}

std::vector<Failure> Recorder::failures() {
  const std::lock_guard lock(mutex_);
  return failures_;
}

std::vector<std::uint32_t> Recorder::departures() {
  const std::lock_guard lock(mutex_);
  return departures_;
}

std::size_t Recorder::comparisons() {
  const std::lock_guard lock(mutex_);
  return comparisons_;
}

bool Recorder::wait_for(std::size_t failures, std::size_t departures, milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] {
    return failures_.size() >= failures && departures_.size() >= departures;
  });
}

const std::string& job_token() {
  static const std::string token = [] {
    const std::string drawn = std::to_string(std::random_device{}());
    setenv("CONTROL_TEST_TOKEN", drawn.c_str(), /*overwrite=*/0);
    return std::string(std::getenv("CONTROL_TEST_TOKEN"));
  }();
  return token;
}

Member make_member(std::uint32_t rank, std::uint32_t size, milliseconds timeout,
                   const std::string& token, std::shared_ptr<net::Service> service,
                   milliseconds heartbeat, const Claim& claim) {
  // The control is created with the listener's port, so the listener comes first.
  struct Slot {
    std::mutex mutex;
    std::weak_ptr<Control> control;  // guarded by mutex
  };
  const auto slot = std::make_shared<Slot>();
  Member member;
  member.service = std::move(service);
  auto listener = net::Listener::open(member.service, "127.0.0.1:0", token,
                                      [slot](net::Purpose, net::Stream stream) {
                                        std::shared_ptr<Control> control;
                                        {
                                          const std::lock_guard lock(slot->mutex);
                                          control = slot->control.lock();
                                        }
                                        if (control) control->accept(std::move(stream));
                                      });
  member.listener = value_or_throw(std::move(listener));
  Control::Membership membership;
  membership.rank = rank;
  membership.size = size;
  membership.address.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  membership.address.port = member.listener->endpoint().port();
  membership.address.pid = claim.pid;
  membership.address.process = claim.process;
  membership.is_whole_job = claim.is_whole_job;
  membership.address.device = rank;  // makes the table's rows distinguishable
  membership.credentials = token;
  membership.rank0_text = "told by rank " + std::to_string(rank);
  membership.timeout = timeout;
  membership.heartbeat = heartbeat;
  membership.now = &now_with_skips;
  member.control = Control::make(member.service, membership);
  const std::lock_guard lock(slot->mutex);
  slot->control = member.control;
  return member;
}

std::vector<Member> join_all(const std::vector<std::uint32_t>& ranks, std::uint32_t size,
                             Store& store, milliseconds timeout) {
  std::vector<Member> members;
  for (const std::uint32_t rank : ranks) members.push_back(make_member(rank, size, timeout));
  std::vector<std::thread> threads;
  for (Member& member : members) {
    threads.emplace_back([&member, &store] {
      const auto start = Clock::now();
      member.joined = member.control->join(store);
      member.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return members;
}

std::vector<Member> join_all(std::uint32_t size, Store& store, milliseconds timeout) {
  std::vector<std::uint32_t> ranks(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) ranks[rank] = rank;
  return join_all(ranks, size, store, timeout);
}

void leave_all(std::vector<Member>& members) {
  std::vector<std::thread> threads;
  for (Member& member : members) threads.emplace_back([&member] { member.control->leave(); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ccoll::testing

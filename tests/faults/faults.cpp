// SPDX-License-Identifier: Apache-2.0
#include "faults/faults.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <sstream>
#include <stdexcept>

/// Lines of the log must have no faults.
extern "C" ssize_t __real_write(int descriptor, const void* data, std::size_t bytes);

namespace ccoll::testing::faults {
namespace {

constexpr std::array<std::string_view, kKinds> kKindNames = {
    "short_read", "short_write", "interrupted", "again",     "delayed",
    "stalled",    "cut",         "corrupted",   "exhausted",
};
constexpr std::array<std::string_view, kCalls> kCallNames = {
    "read",      "readv",      "recv",         "recvmsg",   "send",   "sendmsg",
    "write",     "epoll_wait", "accept",       "connect",   "socket", "epoll_create1",
    "epoll_ctl", "eventfd",    "memfd_create", "ftruncate", "mmap",   "process_vm_readv",
};

struct Armed {
  explicit Armed(const Plan& wanted) : plan(wanted) {}
  const Plan plan;
  std::atomic<std::uint64_t> drawn{0};
  std::atomic<std::uint64_t> seen{0};  ///< how many of plan.once's calls have been made
};

/// The latest armed plan. Plans are never freed: a thread may still read an old one.
std::atomic<Armed*> latest{nullptr};
std::atomic<bool> is_armed{false};
std::atomic<int> log_to{-1};
std::array<std::atomic<std::uint64_t>, kKinds> happened{};

template <typename Names>
std::optional<std::size_t> place_of(std::string_view name, const Names& names) {
  for (std::size_t i = 0; i < names.size(); i++)
    if (names[i] == name) return i;
  return std::nullopt;
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::runtime_error(fmt::format("faults: expected a number, not '{}'", text));
  return value;
}

Kind kind_of(std::string_view name) {
  const auto kind = place_of(name, kKindNames);
  if (!kind) throw std::runtime_error(fmt::format("faults: there is no '{}'", name));
  return static_cast<Kind>(*kind);
}

/// "cut@40", "exhausted@mmap:3:2".
Once parse_once(std::string_view kind, std::string_view rest) {
  Once once{kind_of(kind), std::nullopt, 1, 1};
  if (const auto colon = rest.find(':'); colon != rest.npos) {
    const auto call = place_of(rest.substr(0, colon), kCallNames);
    if (!call) throw std::runtime_error(fmt::format("faults: no call '{}'", rest.substr(0, colon)));
    once.call = static_cast<Call>(*call);
    rest.remove_prefix(colon + 1);
  }
  if (const auto colon = rest.find(':'); colon != rest.npos) {
    once.times = number(rest.substr(colon + 1));
    rest = rest.substr(0, colon);
  }
  once.number = number(rest);
  return once;
}

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(in.sin_port));
  }
  const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
  inet_ntop(AF_INET6, &in.sin6_addr, text.data(), text.size());
  return fmt::format("[{}]:{}", text.data(), ntohs(in.sin6_port));
}

/// "tcp 127.0.0.1:1>127.0.0.1:2", "unix 4711" (the peer's process), "other". `to`: the destination
/// of a connection that is not established yet.
std::string name_of(int descriptor, const sockaddr_storage* to = nullptr) {
  sockaddr_storage mine{}, other{};
  socklen_t length = sizeof mine;
  if (descriptor < 0 || getsockname(descriptor, reinterpret_cast<sockaddr*>(&mine), &length) != 0)
    return "other";
  if (mine.ss_family == AF_UNIX) {
    ucred peer{};
    length = sizeof peer;
    getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    return fmt::format("unix {}", peer.pid);
  }
  length = sizeof other;
  const bool connected = getpeername(descriptor, reinterpret_cast<sockaddr*>(&other), &length) == 0;
  if (!connected && to != nullptr) other = *to;
  return fmt::format("tcp {}>{}", text_of(mine),
                     connected || to != nullptr ? text_of(other) : "nobody");
}

void say(const std::string& line) {
  const int to = log_to.load(std::memory_order_relaxed);
  if (to >= 0) (void)!__real_write(to, line.data(), line.size());
}

[[maybe_unused]] const bool from_environment = [] {
  const char* const text = std::getenv("CCOLL_TEST_FAULTS");
  if (text == nullptr) return false;
  arm(parse(text), -1);
  return true;
}();

}  // namespace

std::string_view to_string(Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }
std::string_view to_string(Call call) { return kCallNames[static_cast<std::size_t>(call)]; }

Plan parse(std::string_view text) {
  Plan parsed;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::string_view all(word);
    if (const auto at = all.find('@'); at != all.npos) {
      parsed.once = parse_once(all.substr(0, at), all.substr(at + 1));
      continue;
    }
    const auto equals = all.find('=');
    const auto value = equals == all.npos ? 0 : number(all.substr(equals + 1));
    const auto name = all.substr(0, equals);
    if (name == "seed")
      parsed.seed = value;
    else
      parsed.per_mille[static_cast<std::size_t>(kind_of(name))] = static_cast<std::uint32_t>(value);
  }
  return parsed;
}

void note_connections(int log) { log_to = log; }

void arm(const Plan& wanted, int log) {
  static auto* const all = new std::deque<Armed>;
  disarm();
  latest.store(&all->emplace_back(wanted), std::memory_order_release);
  note_connections(log);
  is_armed.store(true, std::memory_order_release);
}

void disarm() { is_armed.store(false, std::memory_order_release); }

std::array<std::uint64_t, kKinds> counts() {
  std::array<std::uint64_t, kKinds> all{};
  for (std::size_t i = 0; i < kKinds; i++) all[i] = happened[i].load();
  return all;
}

bool armed() { return is_armed.load(std::memory_order_acquire); }

std::uint64_t draw(std::uint64_t most) {
  // SplitMix64: mixes each number of a sequence.
  auto& [plan, drawn, seen] = *latest.load(std::memory_order_acquire);
  std::uint64_t mixed = plan.seed * 0x9E3779B97F4A7C15ULL +
                        0xD1B54A32D192ED03ULL * drawn.fetch_add(1, std::memory_order_relaxed);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
  mixed ^= mixed >> 31;
  return most == 0 ? 0 : mixed % (most + 1);
}

bool wants(Kind kind, Call call) {
  if (!armed()) return false;
  auto& [plan, drawn, seen] = *latest.load(std::memory_order_acquire);
  if (plan.once && plan.once->kind == kind && (!plan.once->call || plan.once->call == call)) {
    const auto which = seen.fetch_add(1, std::memory_order_relaxed) + 1;
    if (which >= plan.once->number && which < plan.once->number + plan.once->times) return true;
  }
  const auto share = plan.per_mille[static_cast<std::size_t>(kind)];
  return share > 0 && draw(999) < share;
}

void count(Kind kind, Call call, int descriptor, std::string_view detail) {
  happened[static_cast<std::size_t>(kind)]++;
  const int before = errno;
  say(fmt::format("{} {} {} {}\n", to_string(kind), to_string(call), name_of(descriptor), detail));
  errno = before;
}

void note_connection(std::string_view how, int descriptor, const sockaddr* to, socklen_t length) {
  if (log_to.load(std::memory_order_relaxed) < 0) return;
  const int before = errno;
  sockaddr_storage address{};
  if (to != nullptr) std::memcpy(&address, to, std::min<std::size_t>(length, sizeof address));
  say(fmt::format("{} - {}\n", how, name_of(descriptor, to != nullptr ? &address : nullptr)));
  errno = before;
}

}  // namespace ccoll::testing::faults

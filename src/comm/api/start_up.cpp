// SPDX-License-Identifier: Apache-2.0
// How communicators start and end: from the environment, from a store, from each other.
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <numeric>
#include <thread>

#include "ccoll/communicator.hpp"
#include "comm/api/session.hpp"
#include "comm/groups/unique_id.hpp"
#include "core/deadline.hpp"
#include "core/patience.hpp"
#include "rendezvous/most_ranks.hpp"
#include "rendezvous/open_store.hpp"
#include "system/log.hpp"
#include "system/variables.hpp"

namespace ccoll {
namespace {

std::string variable(const char* name) { return read_variable(name).value_or(""); }

std::string word(const char* name) { return value_or_throw(read_word(name)).value_or(""); }

std::optional<long> number(const char* name) { return value_or_throw(read_number(name)); }

std::optional<std::chrono::milliseconds> time_limit(const char* name) {
  return value_or_throw(read_time(name));
}

/// Reads a time for which 0 stands for none.
std::optional<std::chrono::milliseconds> time_or_never(const char* name) {
  const auto time = time_limit(name);
  return time == kNoLimit ? std::chrono::milliseconds(0) : time;
}

void check_size(int size) {
  if (size >= 1 && size <= kMostRanksOfJob) return;
  raise({ErrorKind::invalid_argument,
         fmt::format("a size of {}: expected 1 to {} ranks", size, kMostRanksOfJob), std::nullopt});
}

void check_rank(int rank, int size) {
  check_size(size);
  if (rank < 0 || rank >= size)
    raise({ErrorKind::invalid_argument,
           fmt::format("rank {} of {}: a rank is at least 0 and less than the size", rank, size),
           std::nullopt});
}

void check_limit(const CommunicatorOptions& options) {
  if (options.start_timeout.count() <= 0)
    raise({ErrorKind::invalid_argument,
           fmt::format("a time limit of start-up (start_timeout) of {} ms; it must be more than 0",
                       options.start_timeout.count()),
           std::nullopt});
}

void check_warning(const CommunicatorOptions& options) {
  if (options.warn_after.count() >= 0) return;
  raise({ErrorKind::invalid_argument,
         fmt::format("a warn_after of {} ms; it must be 0 or more", options.warn_after.count()),
         std::nullopt});
}

/// Equal ranks would wait for each other's place until their time limit.
void check_distinct(std::span<const int> ranks) {
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    raise({ErrorKind::invalid_argument, fmt::format("create_all: rank {} is given twice", *twice),
           std::nullopt});
}

/// Runs `body(i)` in a thread for each i below `count`, or in none: a few alone would wait for the
/// other ranks until their time limit.
void run_threads(std::size_t count, const std::function<void(std::size_t)>& body) {
  enum class Start { undecided, go, never };
  std::atomic<Start> start{Start::undecided};
  const auto decide = [&](Start decision) {
    start = decision;
    start.notify_all();
  };
  std::vector<std::jthread> threads;
  try {
    threads.reserve(count);
    for (std::size_t i = 0; i < count; i++)
      threads.emplace_back([&, i] {
        start.wait(Start::undecided);
        if (start == Start::go) body(i);
      });
  } catch (...) {
    decide(Start::never);
    raise({ErrorKind::exhausted,
           fmt::format("create_all: each of {} ranks needs a thread, and the system gave only {}",
                       count, threads.size()),
           std::nullopt});
  }
  decide(Start::go);
}

/// Returns the communicator from `make`, with the patience that the options give. Every exception
/// becomes an Error, even if memory ran out.
template <typename Make>
Communicator made_or_raised(const CommunicatorOptions& options, Make make) {
  const HavingPatience patience({options.start_stop, options.warn_after});
  try {
    value_or_throw(Patience::of_thread().is_left());
    Communicator made = make();
    value_or_throw(Patience::of_thread().is_left());
    return made;
  } catch (const Error&) {
    throw;
  } catch (...) {
    raise(failure_of(std::current_exception()));
  }
}

void check_devices(std::size_t ranks, std::span<const int> devices) {
  if (!devices.empty() && devices.size() != ranks)
    raise(
        {ErrorKind::invalid_argument,
         fmt::format("create_all: ranks: {}, devices: {}; expected one device per rank, or none to "
                     "use the one of the options",
                     ranks, devices.size()),
         std::nullopt});
}

/// Makes the communicators of several ranks of this process, which must come at once, in a thread
/// each. When all have ended, throws the first of their errors, if any.
std::vector<Communicator> side_by_side(
    std::span<const int> ranks, const CommunicatorOptions& options, std::span<const int> devices,
    const std::function<Communicator(int, const CommunicatorOptions&)>& create) {
  check_devices(ranks.size(), devices);
  std::vector<std::optional<Communicator>> made(ranks.size());
  std::vector<std::exception_ptr> errors(ranks.size());
  run_threads(ranks.size(), [&](std::size_t i) {
    try {
      auto own = options;
      if (!devices.empty()) own.device.ordinal = devices[i];
      made[i] = create(ranks[i], own);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  std::vector<Communicator> all;
  for (auto& each : made) all.push_back(std::move(*each));
  return all;
}

std::shared_ptr<Session> start_up(const std::shared_ptr<Store>& store, int rank, int size,
                                  const CommunicatorOptions& options, bool is_whole_job = false) {
  check_rank(rank, size);
  check_limit(options);
  check_warning(options);
  if (!store)
    raise({ErrorKind::invalid_argument,
           fmt::format("create: no store (null) for rank {} of {}", rank, size), std::nullopt});
  auto member =
      value_or_throw(Member::join(*store, static_cast<std::uint32_t>(rank),
                                  static_cast<std::uint32_t>(size), options, is_whole_job));
  const auto job = member->control().job();
  auto everyone = Group::whole_job(member->table().size(), member->rank());
  auto made = Session::make(member, job, options, std::move(everyone));
  // The others have begun: leaving alone would not tell them why.
  if (!made)
    member->control().flood(
        job, {made.error().kind, fmt::format("rank {} failed: {}", rank, made.error().message),
              static_cast<std::uint32_t>(rank)});
  return value_or_throw(std::move(made));
}

/// Closes the communicator and returns when nothing of it runs any more. The service thread may
/// hold it for a moment, to deliver news, and so may threads whose calls this aborts. If one of
/// them held the last reference, the process could end while it takes the communicator down. A
/// forked child's copy is left alone: its goodbye would go out on the parent's sockets.
Status end(std::shared_ptr<Session>& session) {
  if (!session) return {};
  const auto service = session->self().service();
  if (service->is_forked()) {
    (void)new std::shared_ptr(std::move(session));
    return {};
  }
  CCOLL_TRY(session->progress().may_wait());
  const Status late = session->close();
  const std::weak_ptr<Session> others = session;
  const bool may_wait = !service->on_service_thread();
  while (may_wait && session.use_count() > 1) std::this_thread::yield();
  session.reset();
  while (may_wait && !others.expired()) std::this_thread::yield();
  return late;
}

/// For callers that an exception cannot reach.
void end_and_log(std::shared_ptr<Session>& session) {
  const Status late = end(session);
  // If a call of its own destroys it, that call still uses it.
  if (session) (void)new std::shared_ptr(std::move(session));
  // Ranks that end without leaving are no news once this one is done.
  if (!late && late.error().kind != ErrorKind::peer_lost)
    log().error("an error came up while the communicator ended: {}", late.error().message);
}

}  // namespace

CommunicatorOptions CommunicatorOptions::from_environment() {
  CommunicatorOptions options;
  options.transport = word("CCOLL_TRANSPORT");
  options.algorithm = word("CCOLL_ALGO");
  if (const auto way = parse_device_way(word("CCOLL_DEVICE_WAY"))) options.device.way = *way;
  if (const auto copies = parse_device_copies(word("CCOLL_DEVICE_COPIES")))
    options.device.copies = *copies;
  options.interface = variable("CCOLL_SOCKET_IFNAME");
  options.socket_family = word("CCOLL_SOCKET_FAMILY");
  options.timeout = time_limit("CCOLL_TIMEOUT").value_or(options.timeout);
  options.start_timeout = time_limit("CCOLL_START_TIMEOUT").value_or(options.start_timeout);
  options.heartbeat = time_or_never("CCOLL_HEARTBEAT").value_or(options.heartbeat);
  options.warn_after = time_or_never("CCOLL_WARN_AFTER").value_or(options.warn_after);
  if (const auto lanes = number("CCOLL_LANES")) options.max_lanes = static_cast<int>(*lanes);
  if (const auto blocks = number("CCOLL_DEVICE_BLOCKS"))
    options.device.blocks = static_cast<std::size_t>(*blocks);
  if (const auto limit = number("CCOLL_EAGER_LIMIT"))
    options.eager_limit = static_cast<std::size_t>(*limit);
  if (const auto mib = number("CCOLL_SLOT_MEMORY"))
    options.shm.slot_bytes = static_cast<std::size_t>(*mib) << 20;
  if (const auto once = number("CCOLL_SINGLE_COPY")) options.shm.single_copy = *once == 1;
  if (const auto huge = number("CCOLL_HUGE_PAGES")) options.shm.huge_pages = *huge == 1;
  if (const auto strict = number("CCOLL_STRICT_SENDS")) options.strict_sends = *strict == 1;
  if (const auto same = number("CCOLL_DETERMINISTIC")) options.deterministic = *same == 1;
  if (const auto checked = number("CCOLL_CHECKSUM")) options.checksum = *checked == 1;
  if (const auto direct = number("CCOLL_GPU_DIRECT")) options.device.direct_messages = *direct == 1;
  if (const auto file = variable("CCOLL_TOKEN_FILE"); !file.empty())
    options.token = value_or_throw(read_token_file(file, "CCOLL_TOKEN_FILE"));
  return options;
}

Communicator Communicator::create(const CommunicatorOptions& options) {
  return create(Environment::detect(), options);
}

Communicator Communicator::create(const Environment& environment,
                                  const CommunicatorOptions& options) {
  return made_or_raised(options, [&] {
    check_limit(options);
    auto asked = options;
    if (asked.token.empty() && !environment.token_file.empty())
      asked.token = value_or_throw(read_token_file(environment.token_file, "CCOLL_TOKEN_FILE"));
    // All ranks of a host have the same variables: one warning is enough.
    if (environment.local_rank == 0) warn_of_unknown_variables();
    const auto opened =
        value_or_throw(open_store(environment, asked.token, asked.start_timeout, asked.tls));
    return Communicator(start_up(opened.store, environment.rank, environment.size, asked, true));
  });
}

Communicator Communicator::create(std::shared_ptr<Store> store, int rank, int size,
                                  const CommunicatorOptions& options) {
  return made_or_raised(options, [&] {
    if (rank == 0) warn_of_unknown_variables();
    return Communicator(start_up(store, rank, size, options));
  });
}

Communicator Communicator::create(const UniqueId& id, int rank, int size,
                                  const CommunicatorOptions& options) {
  check_rank(rank, size);
  check_limit(options);
  return made_or_raised(options, [&] {
    if (rank == 0) warn_of_unknown_variables();
    const auto contents = value_or_throw(read_id(id));
    const auto meeting =
        value_or_throw(IdMeeting::come(contents, rank, size, options.start_timeout, options.tls));
    auto asked = options;
    if (asked.token.empty()) asked.token = contents.token;
    auto made = start_up(meeting.store(), rank, size, asked, true);
    meeting.over(size);
    return Communicator(std::move(made));
  });
}

std::vector<Communicator> Communicator::create_all(int size, const CommunicatorOptions& options,
                                                   std::span<const int> devices) {
  check_size(size);
  const auto store = make_inproc_store();
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return side_by_side(ranks, options, devices, [&](int rank, const CommunicatorOptions& own) {
    return create(store, rank, size, own);
  });
}

std::vector<Communicator> Communicator::create_all(const UniqueId& id, std::span<const int> ranks,
                                                   int size, const CommunicatorOptions& options,
                                                   std::span<const int> devices) {
  check_size(size);
  for (const int rank : ranks) check_rank(rank, size);
  check_distinct(ranks);
  return side_by_side(ranks, options, devices, [&](int rank, const CommunicatorOptions& own) {
    return create(id, rank, size, own);
  });
}

Communicator::Communicator(std::shared_ptr<Session> session) : session_(std::move(session)) {}
Communicator::Communicator(Communicator&&) noexcept = default;

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this == &other) return *this;
  end_and_log(session_);
  session_ = std::move(other.session_);
  return *this;
}

Communicator::~Communicator() { end_and_log(session_); }

void Communicator::close() { value_or_throw(end(session_)); }

void Communicator::leave(std::string_view reason) {
  if (!session_) return;
  value_or_throw(session_->progress().may_wait());
  if (!session_->progress().is_forked()) session_->end_work(reason);
  end_and_log(session_);
}

int Communicator::rank() const { return static_cast<int>(session()->self().rank()); }
int Communicator::size() const { return static_cast<int>(session()->self().size()); }

}  // namespace ccoll

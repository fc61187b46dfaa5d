// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/stores/state.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace ccoll::rendezvous {
namespace {

/// Limit on the missing keys that a message names.
constexpr std::size_t kNamedKeys = 8;

std::optional<std::int64_t> to_number(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

void State::submit(Ticket ticket, Request request, Reply reply) {
  const Op op = request.op;
  if (op != Op::get && op != Op::wait && op != Op::barrier) {
    const Result<Response> response = act(request);
    reply(ticket, response);
    wake();
    return;
  }
  Waiter& waiter = waiters_[ticket] = Waiter{std::move(request), std::move(reply)};
  if (op == Op::barrier) {
    enter_barrier(ticket, waiter);
  } else if (advance(ticket, waiter)) {
    answer(ticket, values_of(waiter.request));
  }
}

Result<Response> State::act(const Request& request) {
  switch (request.op) {
    case Op::set:
      for (std::size_t i = 0; i < request.keys.size(); ++i) {
        put(request.keys[i], request.values[i]);
      }
      return Response{};
    case Op::add:
      return add(request);
    case Op::compare_set:
      return compare_set(request);
    case Op::append:
      return append(request);
    case Op::check:
      return Response{std::all_of(request.keys.begin(), request.keys.end(),
                                  [&](const auto& key) { return values_.contains(key); }),
                      {}};
    case Op::remove:
      return Response{static_cast<std::int64_t>(values_.erase(request.keys[0])), {}};
    case Op::list: {
      Response response;
      const std::string& prefix = request.keys[0];
      for (auto it = values_.lower_bound(prefix);
           it != values_.end() && it->first.starts_with(prefix); ++it) {
        response.values.push_back(it->first);
      }
      return response;
    }
    case Op::get:
    case Op::wait:
    case Op::barrier:
    case Op::cancel:
    case Op::open:
      break;
  }
  return fail(ErrorKind::internal,
              "store: {} has to wait, and was executed as a request that does not",
              to_string(request.op));
}

Result<Response> State::add(const Request& request) {
  const std::string& key = request.keys[0];
  const auto found = values_.find(key);
  std::int64_t sum = 0;
  if (found != values_.end()) {
    const auto number = to_number(found->second);
    if (!number) {
      return fail(ErrorKind::invalid_argument,
                  "store add: the value of '{}' is not a decimal number of 64 bits", key);
    }
    sum = *number;
  }
  if (__builtin_add_overflow(sum, request.number, &sum)) {
    return fail(ErrorKind::invalid_argument, "store add: '{}' would exceed 64 bits", key);
  }
  put(key, std::to_string(sum));
  return Response{sum, {}};
}

Result<Response> State::compare_set(const Request& request) {
  const auto found = values_.find(request.keys[0]);
  const bool absent_expected = request.values.size() == 1;
  const bool fits = found == values_.end() ? absent_expected
                                           : !absent_expected && found->second == request.values[1];
  if (fits) put(request.keys[0], request.values[0]);
  return Response{fits, {}};
}

Result<Response> State::append(const Request& request) {
  const std::string& key = request.keys[0];
  const std::string& tail = request.values[0];
  const auto found = values_.find(key);
  const std::size_t length = (found == values_.end() ? 0 : found->second.size()) + tail.size();
  if (length > kMaxValueBytes) {
    return fail(ErrorKind::invalid_argument,
                "store append: the value of '{}' would have {} bytes; at most {} are allowed", key,
                length, kMaxValueBytes);
  }
  if (found == values_.end()) {
    put(key, tail);
  } else {
    found->second += tail;
  }
  return Response{static_cast<std::int64_t>(length), {}};
}

void State::put(const std::string& key, std::string value) {
  values_.insert_or_assign(key, std::move(value));
  if (lines_.contains(key)) touched_.push_back(key);
}

void State::wake() {
  for (const std::string& key : std::exchange(touched_, {})) {
    const auto line = lines_.extract(key);
    if (line.empty()) continue;
    for (const Ticket ticket : line.mapped()) {
      Waiter& waiter = waiters_.at(ticket);
      if (advance(ticket, waiter)) answer(ticket, values_of(waiter.request));
    }
  }
}

bool State::advance(Ticket ticket, Waiter& waiter) {
  // It goes on from its place, so that waiting for n keys costs O(n), not O(n²). Then it starts
  // over once, because seen keys may have been removed since.
  const auto& keys = waiter.request.keys;
  for (bool again = waiter.at != 0;; again = false) {
    while (waiter.at < keys.size() && values_.contains(keys[waiter.at])) ++waiter.at;
    if (waiter.at < keys.size()) {
      lines_[keys[waiter.at]].insert(ticket);
      return false;
    }
    if (!again) return true;
    waiter.at = 0;
  }
}

Response State::values_of(const Request& request) const {
  Response response;
  if (request.op != Op::get) return response;
  response.values.reserve(request.keys.size());
  for (const std::string& key : request.keys) response.values.push_back(values_.at(key));
  return response;
}

void State::enter_barrier(Ticket ticket, const Waiter& waiter) {
  const std::string& key = waiter.request.keys[0];
  const std::int64_t count = waiter.request.number;
  Tickets& line = barriers_[key];
  if (!line.empty() && waiters_.at(line.front()).request.number != count) {
    const auto others = waiters_.at(line.front()).request.number;
    return answer(
        ticket,
        fail(
            ErrorKind::invalid_argument,
            "store barrier '{}': this caller expects {} callers, but the waiting callers expect {}",
            key, count, others));
  }
  line.push_back(ticket);
  if (std::cmp_less(line.size(), count)) return;
  // Take the line away first: the barrier is then free for its next use.
  const Tickets complete = std::move(line);
  barriers_.erase(key);
  for (const Ticket member : complete) answer(member, Response{});
}

void State::answer(Ticket ticket, Result<Response> response) {
  auto waiter = waiters_.extract(ticket);
  waiter.mapped().reply(ticket, std::move(response));
}

bool State::forget(Ticket ticket) {
  const auto found = waiters_.find(ticket);
  if (found == waiters_.end()) return false;
  const Request& request = found->second.request;
  if (request.op == Op::barrier) {
    const auto line = barriers_.find(request.keys[0]);
    std::erase(line->second, ticket);
    if (line->second.empty()) barriers_.erase(line);
  } else {
    const auto line = lines_.find(request.keys[found->second.at]);
    line->second.erase(ticket);
    if (line->second.empty()) lines_.erase(line);
  }
  return true;
}

void State::cancel(Ticket ticket) {
  const auto found = waiters_.find(ticket);
  if (found == waiters_.end()) return;
  const std::string missing = what_is_missing(found->second);
  forget(ticket);
  answer(ticket, fail(ErrorKind::timed_out, "{}", missing));
}

void State::abandon(Ticket ticket) {
  if (forget(ticket)) waiters_.erase(ticket);
}

std::string State::what_is_missing(const Waiter& waiter) const {
  const auto& keys = waiter.request.keys;
  if (waiter.request.op == Op::barrier) {
    return fmt::format("store barrier '{}': {} of {} callers came", keys[0],
                       barriers_.at(keys[0]).size(), waiter.request.number);
  }
  std::size_t missing = 0;
  std::string names;
  for (const std::string& key : keys) {
    if (values_.contains(key)) continue;
    if (++missing <= kNamedKeys) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", key);
  }
  return fmt::format("store {}: {} of {} {} not set: {}{}", to_string(waiter.request.op), missing,
                     keys.size(), missing == 1 ? "keys is" : "keys are", names,
                     missing > kNamedKeys ? ", …" : "");
}

}  // namespace ccoll::rendezvous

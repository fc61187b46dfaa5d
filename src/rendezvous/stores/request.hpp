// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Requests to a store and its answers: as values, which all our stores share, and as bytes, for
/// code that sends or keeps them.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/store.hpp"
#include "core/deadline.hpp"
#include "core/result.hpp"

namespace ccoll::rendezvous {

/// Numbers are the wire's. A new operation goes to the end and raises the protocol version.
enum class Op : std::uint8_t {
  set = 1,          ///< keys, values: all pairs at once
  get = 2,          ///< keys → their values, once all exist
  wait = 3,         ///< keys; answers once all exist
  add = 4,          ///< key, number → new number
  compare_set = 5,  ///< key, values {desired} (if absent) or {desired, expected} → 1 if set
  append = 6,       ///< key, value → new length
  check = 7,        ///< keys → 1 if all exist
  remove = 8,       ///< key → 1 if it was there
  list = 9,         ///< key = prefix → keys
  barrier = 10,     ///< key, number of callers
  cancel = 11,      ///< number: id of an earlier request of this client, which is then answered
  open = 12,        ///< key = the client's job, number: JobClaim::could_not_listen; may be refused
};

std::string_view to_string(Op op);

struct Request {
  Op op = Op::check;
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::int64_t number = 0;
};

struct Response {
  std::int64_t number = 0;
  std::vector<std::string> values;
};

/// Longer requests and answers are refused: several values at once may be too many.
inline constexpr std::size_t kMaxFrameBytes = 64 << 20;

/// Whether the request is valid: it has the keys and values that `op` takes, none over the limits.
Status check_request(const Request& request);

std::string encode(std::uint64_t id, const Request& request);
std::string encode(std::uint64_t id, const Result<Response>& response);

template <typename T>
struct Numbered {
  std::uint64_t id = 0;
  T content;
};

/// Fails with `corrupt` for bytes that are no request, and for requests that no client of ours
/// sends (see check_request).
Result<Numbered<Request>> decode_request(std::string_view bytes);
Result<Numbered<Result<Response>>> decode_response(std::string_view bytes);

/// "60 s", "0.25 s".
std::string seconds(std::chrono::milliseconds duration);

}  // namespace ccoll::rendezvous

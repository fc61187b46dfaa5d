// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/stores/request.hpp"

#include <algorithm>
#include <optional>

#include "core/bytes.hpp"

namespace ccoll::rendezvous {
namespace {

constexpr std::size_t kMany = ~std::size_t{0};

/// The numbers of keys and values that an operation takes.
struct Arity {
  std::size_t min_keys, max_keys;
  std::size_t min_values, max_values;
};

std::optional<Arity> arity(Op op) {
  switch (op) {
    case Op::set:
      return Arity{0, kMany, 0, kMany};
    case Op::get:
    case Op::wait:
    case Op::check:
      return Arity{0, kMany, 0, 0};
    case Op::append:
      return Arity{1, 1, 1, 1};
    case Op::compare_set:
      return Arity{1, 1, 1, 2};
    case Op::add:
    case Op::remove:
    case Op::list:
    case Op::barrier:
    case Op::open:
      return Arity{1, 1, 0, 0};
    case Op::cancel:
      return Arity{0, 0, 0, 0};
  }
  return std::nullopt;
}

void put(net::Writer& writer, const std::vector<std::string>& texts) {
  writer.number(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) writer.text(text);
}

std::vector<std::string> take(net::Reader& reader) {
  const auto count = reader.number<std::uint32_t>();
  std::vector<std::string> texts;
  // The count is only a claim: memory grows with the texts that are really there.
  for (std::uint32_t i = 0; i < count && !reader.bad(); ++i) texts.emplace_back(reader.text());
  return texts;
}

}  // namespace

std::string_view to_string(Op op) {
  switch (op) {
    case Op::set:
      return "set";
    case Op::get:
      return "get";
    case Op::wait:
      return "wait";
    case Op::add:
      return "add";
    case Op::compare_set:
      return "compare_set";
    case Op::append:
      return "append";
    case Op::check:
      return "check";
    case Op::remove:
      return "remove";
    case Op::list:
      return "list";
    case Op::barrier:
      return "barrier";
    case Op::cancel:
      return "cancel";
    case Op::open:
      return "open";
  }
  return "unknown";
}

Status check_request(const Request& request) {
  const auto wanted = arity(request.op);
  if (!wanted) return fail(ErrorKind::invalid_argument, "store: no such operation");
  const auto keys = request.keys.size();
  const auto values = request.values.size();
  if (keys < wanted->min_keys || keys > wanted->max_keys || values < wanted->min_values ||
      values > wanted->max_values || (request.op == Op::set && keys != values)) {
    return fail(ErrorKind::invalid_argument, "store {}: {} keys and {} values do not fit it",
                to_string(request.op), keys, values);
  }
  std::size_t total = 64;
  for (const std::string& key : request.keys) {
    total += key.size() + 4;
    if (key.size() > kMaxKeyBytes) {
      return fail(ErrorKind::invalid_argument,
                  "store {}: a key of {} bytes; at most {} are allowed", to_string(request.op),
                  key.size(), kMaxKeyBytes);
    }
  }
  for (const std::string& value : request.values) {
    total += value.size() + 4;
    if (value.size() > kMaxValueBytes) {
      return fail(ErrorKind::invalid_argument,
                  "store {}: a value of {} bytes; at most {} are allowed", to_string(request.op),
                  value.size(), kMaxValueBytes);
    }
  }
  if (total > kMaxFrameBytes) {
    return fail(ErrorKind::invalid_argument,
                "store {}: {} bytes in one call; at most {} are allowed: make several",
                to_string(request.op), total, kMaxFrameBytes);
  }
  if (request.op == Op::barrier && request.number < 1) {
    return fail(ErrorKind::invalid_argument, "store barrier: {} callers; at least 1 is needed",
                request.number);
  }
  return {};
}

std::string encode(std::uint64_t id, const Request& request) {
  net::Writer writer;
  writer.number(id).number(static_cast<std::uint8_t>(request.op));
  writer.number(static_cast<std::uint64_t>(request.number));
  put(writer, request.keys);
  put(writer, request.values);
  return writer.take();
}

std::string encode(std::uint64_t id, const Result<Response>& response) {
  net::Writer writer;
  writer.number(id);
  if (!response) {
    writer.number(static_cast<std::uint8_t>(static_cast<unsigned>(response.error().kind) + 1));
    return writer.text(response.error().message).take();
  }
  writer.number(std::uint8_t{0}).number(static_cast<std::uint64_t>(response->number));
  put(writer, response->values);
  if (writer.bytes().size() <= kMaxFrameBytes) return writer.take();
  return encode(id, fail(ErrorKind::exhausted,
                         "store: an answer of {} bytes; at most {} are allowed: ask for fewer keys",
                         writer.bytes().size(), kMaxFrameBytes));
}

Result<Numbered<Request>> decode_request(std::string_view bytes) {
  net::Reader reader(bytes);
  Numbered<Request> result;
  result.id = reader.number<std::uint64_t>();
  result.content.op = static_cast<Op>(reader.number<std::uint8_t>());
  result.content.number = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  result.content.keys = take(reader);
  result.content.values = take(reader);
  if (!reader.complete())
    return fail(ErrorKind::corrupt, "these bytes are not a request to a store");
  if (const Status status = check_request(result.content); !status) {
    return fail(ErrorKind::corrupt, "{}", status.error().message);
  }
  return result;
}

Result<Numbered<Result<Response>>> decode_response(std::string_view bytes) {
  net::Reader reader(bytes);
  Numbered<Result<Response>> result;
  result.id = reader.number<std::uint64_t>();
  const auto status = reader.number<std::uint8_t>();
  if (status == 0) {
    result.content->number = static_cast<std::int64_t>(reader.number<std::uint64_t>());
    result.content->values = take(reader);
  } else {
    const auto kind = std::min<unsigned>(status - 1u, static_cast<unsigned>(ErrorKind::internal));
    result.content = fail(static_cast<ErrorKind>(kind), "{}", reader.text());
  }
  if (!reader.complete())
    return fail(ErrorKind::corrupt, "these bytes are not an answer of a store");
  return result;
}

std::string seconds(std::chrono::milliseconds duration) {
  return fmt::format("{} s", static_cast<double>(duration.count()) / 1000);
}

}  // namespace ccoll::rendezvous

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "dumps/read.hpp"

namespace ccoll::dump {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
std::optional<Value> get(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found == json.end() ? std::nullopt : std::optional(found->get<Value>());
}

State state_named(const std::string& name) {
  const auto found = std::ranges::find(kStates, name);
  return found == std::end(kStates) ? State::unknown : static_cast<State>(found - kStates);
}

Call call_of(const Json& json) {
  Call call;
  json.at("number").get_to(call.number);
  json.at("kind").get_to(call.kind);
  json.at("text").get_to(call.text);
  json.at("count").get_to(call.count);
  json.at("bytes").get_to(call.bytes);
  json.at("type").get_to(call.type);
  call.op = json.value("op", "");
  call.root = get<std::uint32_t>(json, "root");
  json.at("algorithm").get_to(call.algorithm);
  call.label = json.value("label", "");
  call.state = state_named(json.at("state"));
  json.at("begun").get_to(call.begun);
  call.ended = get<std::int64_t>(json, "ended");
  return call;
}

Message message_of(const Json& json) {
  Message message;
  json.at("number").get_to(message.number);
  message.is_send = json.at("what").get<std::string>() == "send";
  message.peer = get<std::uint32_t>(json, "peer");
  message.tag = get<std::uint32_t>(json, "tag");
  json.at("bytes").get_to(message.bytes);
  json.at("type").get_to(message.type);
  message.state = state_named(json.at("state"));
  json.at("begun").get_to(message.begun);
  message.ended = get<std::int64_t>(json, "ended");
  return message;
}

UnderWay under_way_of(const Json& json) {
  UnderWay operation;
  operation.call = get<std::uint64_t>(json, "call");
  json.at("text").get_to(operation.text);
  json.at("standing").get_to(operation.standing);
  operation.device = json.value("device", "");
  if (json.contains("lane"))
    operation.stand =
        Stand{json.at("lane").get<std::uint64_t>(), json.at("step").get<std::uint64_t>(),
              json.at("steps").get<std::uint64_t>(), json.at("window").get<std::uint64_t>(),
              json.at("windows").get<std::uint64_t>()};
  json.at("begun").get_to(operation.begun);
  for (const auto& peer : json.at("waits_for"))
    operation.waits_for.push_back({peer.at("rank").get<std::uint32_t>(),
                                   peer.at("address").get<std::string>(),
                                   peer.at("process").get<std::uint64_t>()});
  return operation;
}

Dump dump_of(const Json& json) {
  Dump dump;
  json.at("job").get_to(dump.job);
  json.at("communicator").get_to(dump.communicator);
  json.at("name").get_to(dump.name);
  json.at("rank").get_to(dump.rank);
  json.at("size").get_to(dump.size);
  json.at("job_rank").get_to(dump.job_rank);
  json.at("host").get_to(dump.host);
  json.at("process").get_to(dump.process);
  json.at("reason").get_to(dump.reason);
  json.at("at").get_to(dump.at);
  dump.partial = json.value("partial", false);
  if (const auto failure = json.find("failure"); failure != json.end())
    dump.failure =
        Failed{failure->at("kind").get<std::string>(), failure->at("message").get<std::string>(),
               get<std::uint32_t>(*failure, "culprit")};
  json.at("calls").get_to(dump.calls);
  json.at("finished").get_to(dump.finished);
  json.at("messages").get_to(dump.messages);
  for (const auto& each : json.at("under_way")) dump.under_way.push_back(under_way_of(each));
  for (const auto& each : json.at("last_calls")) dump.last_calls.push_back(call_of(each));
  for (const auto& each : json.at("last_messages")) dump.last_messages.push_back(message_of(each));
  return dump;
}

/// Every number of a dump is a count or a time; converting anything else is undefined.
Json json_with_counts(std::string_view text) {
  bool counts = true;
  auto json = Json::parse(text, [&](int, Json::parse_event_t event, const Json& part) {
    if (event == Json::parse_event_t::value && part.is_number())
      counts = counts && part.is_number_unsigned();
    return true;
  });
  if (counts) return json;
  throw Json::type_error::create(302, "a number is not a count", nullptr);
}

/// Whether all times are in a range in which they can be subtracted.
bool has_times(const Dump& dump) {
  const auto good = [](const auto& each) { return each.begun >= 0 && each.ended.value_or(0) >= 0; };
  return dump.at >= 0 && std::ranges::all_of(dump.last_calls, good) &&
         std::ranges::all_of(dump.last_messages, good) &&
         std::ranges::all_of(dump.under_way, [](const UnderWay& each) { return each.begun >= 0; });
}

}  // namespace

Result<Dump> parse(std::string_view text) {
  try {
    const auto json = json_with_counts(text);
    const int version = json.at("ccoll_dump");
    if (version != kVersion)
      return fail(ErrorKind::corrupt, "a dump of version {}; this program reads version {}",
                  version, kVersion);
    auto dump = dump_of(json);
    if (dump.rank >= dump.size)
      return fail(ErrorKind::corrupt, "a dump of rank {} of {}", dump.rank, dump.size);
    if (!has_times(dump))
      return fail(ErrorKind::corrupt, "a dump with a time beyond the year 2262");
    return dump;
  } catch (const Json::exception& error) {
    return fail(ErrorKind::corrupt, "this is not a dump of ccoll: {}",
                what_is_wrong(error, text.size()));
  }
}

}  // namespace ccoll::dump

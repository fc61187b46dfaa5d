// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "comm/record/dump/dump.hpp"

namespace ccoll::dump {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
void put(Json& json, const char* name, const std::optional<Value>& value) {
  if (value) json[name] = *value;
}

Json json_of(const Call& call) {
  Json json{{"number", call.number}, {"kind", call.kind},   {"text", call.text},
            {"count", call.count},   {"bytes", call.bytes}, {"type", call.type}};
  if (!call.op.empty()) json["op"] = call.op;
  put(json, "root", call.root);
  json["algorithm"] = call.algorithm;
  if (!call.label.empty()) json["label"] = call.label;
  json["state"] = to_string(call.state);
  json["begun"] = call.begun;
  put(json, "ended", call.ended);
  return json;
}

Json json_of(const Message& message) {
  Json json{{"number", message.number}, {"what", message.is_send ? "send" : "recv"}};
  put(json, "peer", message.peer);
  put(json, "tag", message.tag);
  json.update(Json{{"bytes", message.bytes},
                   {"type", message.type},
                   {"state", to_string(message.state)},
                   {"begun", message.begun}});
  put(json, "ended", message.ended);
  return json;
}

Json json_of(const UnderWay& operation) {
  Json json = Json::object();
  put(json, "call", operation.call);
  json["text"] = operation.text;
  json["standing"] = operation.standing;
  if (!operation.device.empty()) json["device"] = operation.device;
  if (const auto& at = operation.stand)
    json.update(Json{{"lane", at->lane},
                     {"step", at->step},
                     {"steps", at->steps},
                     {"window", at->window},
                     {"windows", at->windows}});
  json["begun"] = operation.begun;
  auto& peers = json["waits_for"] = Json::array();
  for (const auto& peer : operation.waits_for)
    peers.push_back({{"rank", peer.rank}, {"address", peer.address}, {"process", peer.process}});
  return json;
}

template <typename Value>
Json list_of(const std::vector<Value>& values) {
  auto list = Json::array();
  for (const auto& value : values) list.push_back(json_of(value));
  return list;
}

}  // namespace

std::string to_json(const Dump& dump) {
  Json json{{"ccoll_dump", kVersion},    {"job", dump.job},   {"communicator", dump.communicator},
            {"name", dump.name},         {"rank", dump.rank}, {"size", dump.size},
            {"job_rank", dump.job_rank}, {"host", dump.host}, {"process", dump.process},
            {"reason", dump.reason},     {"at", dump.at}};
  if (dump.partial) json["partial"] = true;
  if (dump.failure) {
    json["failure"] = {{"kind", dump.failure->kind}, {"message", dump.failure->message}};
    put(json["failure"], "culprit", dump.failure->culprit);
  }
  json["calls"] = dump.calls;
  json["finished"] = dump.finished;
  json["messages"] = dump.messages;
  json["under_way"] = list_of(dump.under_way);
  json["last_calls"] = list_of(dump.last_calls);
  json["last_messages"] = list_of(dump.last_messages);
  // A label may be any bytes.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace ccoll::dump

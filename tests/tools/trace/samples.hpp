// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A made-up trace: calls of two steps each, and a message.

#include <string>
#include <vector>

#include "comm/record/trace/recorder.hpp"
#include "comm/record/trace/texts.hpp"
#include "trace/read.hpp"

namespace ccoll::test {

inline trace::About about() {
  trace::About about;
  about.version = "0.1.0";
  about.job = 0x123456789abcdef0;
  about.communicator = 7;
  about.name = "world";
  about.rank = 1;
  about.size = 3;
  about.host_of = {0, 1, 1};
  about.host = "a host";
  about.process = 4711;
  about.clock = "CLOCK_MONOTONIC x";
  about.wall_ns = 5;
  return about;
}

inline trace::Planned planned() {
  trace::Planned planned;
  planned.problem.kind = Kind::all_reduce;
  planned.problem.size = 3;
  planned.problem.count = 100;
  planned.problem.host_of = about().host_of;
  planned.choice = {Algorithm::ring, 2, 17};
  planned.type = DataType::float32;
  planned.op = "sum";
  return planned;
}

inline std::vector<trace::CallRun> calls(std::uint64_t count) {
  std::vector<trace::CallRun> calls;
  for (std::uint64_t i = 0; i < count; i++) {
    trace::CallRun call;
    call.sequence = 3 * i;
    call.signature.count = 100;
    call.signature.type = static_cast<std::uint8_t>(DataType::float32);
    call.begin = 1000 * i;
    call.end = 1000 * i + 900;
    call.steps.push_back(
        {0, 0, 0, Awaited::nothing, 0, 68, 1000 * i, 1000 * i + 10, 1000 * i + 20});
    call.steps.push_back(
        {1, 4, 9, Awaited::message, 2, 68, 1000 * i, 1000 * i + 500, 1000 * i + 600});
    calls.push_back(std::move(call));
  }
  return calls;
}

inline trace::MessageRun message() { return {true, 2, 9, 12345, 50, 70}; }

inline void record_calls(trace::Recorder& recorder, std::uint64_t count) {
  recorder.add_plan(trace::PlanEntry{}, trace::to_text(planned()));
  for (const auto& call : calls(count)) {
    trace::CallEntry begun;
    begun.sequence = call.sequence;
    begun.count = call.signature.count;
    begun.signature_type = call.signature.type;
    begun.begin = call.begin;
    recorder.add(begun);
    for (const auto& step : call.steps) {
      trace::StepEntry entry;
      entry.awaited = step.awaited;
      entry.lane = step.lane;
      entry.step = step.step;
      entry.window = step.window;
      entry.peer = step.peer;
      entry.bytes = step.bytes;
      entry.sequence = static_cast<std::uint32_t>(call.sequence);
      entry.begin = step.begin;
      entry.moved = step.moved;
      entry.end = step.end;
      recorder.add(entry);
    }
    trace::EndEntry ended;
    ended.sequence = call.sequence;
    ended.end = *call.end;
    recorder.add(ended);
  }
  trace::MessageEntry sent;
  sent.is_send = 1;
  sent.peer = message().peer;
  sent.tag = message().tag;
  sent.bytes = message().bytes;
  sent.begin = message().begin;
  sent.end = message().end;
  recorder.add(sent);
}

}  // namespace ccoll::test

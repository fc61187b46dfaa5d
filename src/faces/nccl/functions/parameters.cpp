// SPDX-License-Identifier: Apache-2.0
// ncclParam*: those of NCCL's variables that have an effect here, as texts and numbers.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "faces/nccl/results.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "system/log.hpp"

// A handle points to this, which lives as long as the process.
struct ncclParamHandle {
  const ccoll::nccl::Seen* seen;
};

namespace ccoll::nccl {
namespace {

/// The variables that set something; they live as long as the process.
const std::vector<ncclParamHandle>& parameters() {
  static const auto* const all = [] {
    auto* const made = new std::vector<ncclParamHandle>;
    for (const auto& each : settings().seen)
      if (each.fate == Fate::used) made->push_back({&each});
    return made;
  }();
  return *all;
}

const ncclParamHandle& parameter(const char* key) {
  const std::string_view name = &given(key, "key");
  for (const auto& each : parameters())
    if (each.seen->name == name) return each;
  refuse(ncclInvalidArgument, "{} is not an NCCL variable that is set and has a meaning here",
         name);
}

const std::string& value_of(const ncclParamHandle* handle) {
  return given(handle, "h").seen->value;
}

template <typename T>
ncclResult_t number(const char* function, const ncclParamHandle* handle, T* out) {
  return guarded(function, [&] {
    auto& to = given(out, "out");
    const auto& text = value_of(handle);
    T value{};
    const auto* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end)
      refuse(ncclInvalidArgument, "{}={} is not a number from {} to {}", handle->seen->name, text,
             +std::numeric_limits<T>::min(), +std::numeric_limits<T>::max());
    to = value;
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, ParamBind, const ncclParamHandle** out, const char* key) {
  return guarded("ncclParamBind", [&] {
    auto& to = given(out, "out");
    to = &parameter(key);
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, ParamGetI8, const ncclParamHandle* h, std::int8_t* out) {
  return number("ncclParamGetI8", h, out);
}
CCOLL_NCCL_FACE(ncclResult_t, ParamGetI16, const ncclParamHandle* h, std::int16_t* out) {
  return number("ncclParamGetI16", h, out);
}
CCOLL_NCCL_FACE(ncclResult_t, ParamGetI32, const ncclParamHandle* h, std::int32_t* out) {
  return number("ncclParamGetI32", h, out);
}
CCOLL_NCCL_FACE(ncclResult_t, ParamGetI64, const ncclParamHandle* h, std::int64_t* out) {
  return number("ncclParamGetI64", h, out);
}
CCOLL_NCCL_FACE(ncclResult_t, ParamGetU8, const ncclParamHandle* h, std::uint8_t* out) {
  return number("ncclParamGetU8", h, out);
}
CCOLL_NCCL_FACE(ncclResult_t, ParamGetU16, const ncclParamHandle* h, std::uint16_t* out) {
  return number("ncclParamGetU16", h, out);
}
CCOLL_NCCL_FACE(ncclResult_t, ParamGetU32, const ncclParamHandle* h, std::uint32_t* out) {
  return number("ncclParamGetU32", h, out);
}
CCOLL_NCCL_FACE(ncclResult_t, ParamGetU64, const ncclParamHandle* h, std::uint64_t* out) {
  return number("ncclParamGetU64", h, out);
}

CCOLL_NCCL_FACE(ncclResult_t, ParamGetStr, const ncclParamHandle* h, const char** out) {
  return guarded("ncclParamGetStr", [&] {
    given(out, "out") = value_of(h).c_str();
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, ParamGet, const ncclParamHandle* h, void* out, int maxLen, int* len) {
  return guarded("ncclParamGet", [&] {
    const auto& text = value_of(h);
    given(static_cast<char*>(out), "out");
    const auto needed = text.size() + 1;
    if (len != nullptr) *len = static_cast<int>(needed);
    if (maxLen < 0 || needed > static_cast<std::size_t>(maxLen))
      refuse(ncclInvalidArgument, "maxLen is {}: {} needs {}", maxLen, h->seen->name, needed);
    std::memcpy(out, text.c_str(), needed);
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, ParamGetParameter, const char* key, const char** value,
                int* valueLen) {
  return guarded("ncclParamGetParameter", [&] {
    const auto& text = parameter(key).seen->value;
    auto& to = given(value, "value");
    given(valueLen, "valueLen") = static_cast<int>(text.size());
    to = text.c_str();
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, ParamGetAllParameterKeys, const char*** table, int* tableLen) {
  return guarded("ncclParamGetAllParameterKeys", [&] {
    static auto* const keys = [] {
      auto* const made = new std::vector<const char*>;
      for (const auto& each : parameters()) made->push_back(each.seen->name.c_str());
      return made;
    }();
    auto& to = given(table, "table");
    given(tableLen, "tableLen") = static_cast<int>(keys->size());
    to = keys->data();
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(void, ParamDumpAll, void) {
  for (const auto& each : parameters())
    ccoll::log().warn("{}={} ({})", each.seen->name, each.seen->value, each.seen->remark);
}

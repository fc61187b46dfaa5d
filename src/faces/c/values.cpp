// SPDX-License-Identifier: Apache-2.0
// C structs and numbers as values of the C++ interface.
#include "faces/c/face.hpp"

namespace ccoll::c {
namespace {

/// Whether it points to a reduction, as far as its value shows: neither a small number, nor one
/// below 0, nor an address where none can be.
bool is_pointer(ccoll_reduction op) {
  constexpr ccoll_reduction kLeastAddress = 1 << 16;
  return op >= kLeastAddress && op <= INTPTR_MAX && op % alignof(Reduction) == 0;
}

std::chrono::milliseconds milliseconds_of(std::int64_t count) {
  return std::chrono::milliseconds(count);
}

template <typename Enum>
Enum enumerator_of(std::int32_t number, std::int32_t most, std::string_view what) {
  if (number < 0 || number > most)
    refuse(fmt::format("{} is {}: expected 0 to {}", what, number, most));
  return static_cast<Enum>(number);
}

/// Reads a string option: NULL leaves the environment's value.
void take(std::string& into, const char* text) {
  if (text != nullptr) into = text;
}

}  // namespace

DataType type_of(std::int32_t type) {
  if (type < 0 || type > CCOLL_BOOL)
    refuse(fmt::format("type {} is not a ccoll_type: expected 0 to {}", type,
                       static_cast<int>(CCOLL_BOOL)));
  return static_cast<DataType>(type);
}

bool flag_of(std::int32_t value, std::string_view what) {
  if (value != 0 && value != 1) refuse(fmt::format("{} is {}: expected 0 or 1", what, value));
  return value == 1;
}

void check_reserved(std::int32_t value, std::string_view what) {
  if (value != 0) refuse(fmt::format("{}: reserved is {}: expected 0", what, value));
}

Block block_of(const ccoll_block* block) {
  if (block == nullptr) return {};
  check_reserved(block->reserved, "ccoll_block");
  return {block->data, block->count, type_of(block->type), block->row_length, block->stride};
}

std::vector<BufferPair> pairs_of(const ccoll_block_pair* pairs, std::size_t count) {
  std::vector<BufferPair> all;
  if (count > 0) given(pairs, "the list of pairs");
  all.reserve(count);
  for (std::size_t i = 0; i < count; i++)
    all.emplace_back(const_block_of(&pairs[i].input), block_of(&pairs[i].output));
  return all;
}

Reduction reduction_of(ccoll_reduction op) {
  if (is_pointer(op)) return *reinterpret_cast<const Reduction*>(op);
  if (op > CCOLL_BIT_XOR)
    refuse(
        fmt::format("reduction {} is not a ccoll_op: expected 0 to {}, or a reduction that was "
                    "made",
                    static_cast<std::intptr_t>(op), static_cast<int>(CCOLL_BIT_XOR)));
  return static_cast<ReduceOp>(op);
}

CallOptions options_of(const ccoll_call_options* options) {
  if (options == nullptr) return {};
  ccoll_call_options own{};
  read_struct(options, own, "ccoll_call_options");
  CallOptions made;
  made.timeout = milliseconds_of(own.timeout_ms);
  if (own.algorithm != nullptr) made.algorithm = own.algorithm;
  if (own.label != nullptr) made.label = own.label;
  check_reserved(own.reserved, "ccoll_call_options");
  if (flag_of(own.has_stream, "has_stream")) made.stream = static_cast<cudaStream_t>(own.stream);
  return made;
}

GroupOptions options_of(const ccoll_group_options* options) {
  if (options == nullptr) return {};
  ccoll_group_options own{};
  read_struct(options, own, "ccoll_group_options");
  return {.name = text_of(own.name), .timeout = milliseconds_of(own.timeout_ms)};
}

namespace {

ccoll_options numbers_of(const CommunicatorOptions& from) {
  ccoll_options to{};
  to.size = sizeof to;
  to.timeout_ms = from.timeout.count();
  to.start_timeout_ms = from.start_timeout.count();
  to.heartbeat_ms = from.heartbeat.count();
  to.eager_limit = from.eager_limit;
  to.shm_slot_bytes = from.shm.slot_bytes;
  to.device_staging_bytes = from.device.staging_bytes;
  to.device_workspace_bytes = from.device.workspace_bytes;
  to.device_blocks = from.device.blocks;
  to.max_lanes = from.max_lanes;
  to.deterministic = from.deterministic;
  to.checksum = from.checksum;
  to.strict_sends = from.strict_sends;
  to.shm_single_copy = from.shm.single_copy;
  to.shm_huge_pages = from.shm.huge_pages;
  to.device = from.device.ordinal;
  to.device_way = static_cast<std::int32_t>(from.device.way);
  to.device_copies = static_cast<std::int32_t>(from.device.copies);
  to.device_direct_messages = from.device.direct_messages;
  to.warn_after_ms = from.warn_after.count();
  return to;
}

}  // namespace

CommunicatorOptions options_of(const ccoll_options* options) {
  auto made = CommunicatorOptions::from_environment();
  if (options == nullptr) return made;
  auto own = numbers_of(made);
  read_struct(options, own, "ccoll_options");
  take(made.name, own.name);
  take(made.transport, own.transport);
  take(made.algorithm, own.algorithm);
  take(made.interface, own.interface_name);
  take(made.socket_family, own.socket_family);
  take(made.token, own.token);
  take(made.tls.mode, own.tls_mode);
  take(made.tls.certificate, own.tls_certificate);
  take(made.tls.key, own.tls_key);
  take(made.tls.authority, own.tls_authority);
  take(made.tls.name, own.tls_name);
  made.timeout = milliseconds_of(own.timeout_ms);
  made.start_timeout = milliseconds_of(own.start_timeout_ms);
  made.heartbeat = milliseconds_of(own.heartbeat_ms);
  made.eager_limit = own.eager_limit;
  made.shm.slot_bytes = own.shm_slot_bytes;
  made.shm.single_copy = flag_of(own.shm_single_copy, "shm_single_copy");
  made.shm.huge_pages = flag_of(own.shm_huge_pages, "shm_huge_pages");
  made.max_lanes = own.max_lanes;
  made.deterministic = flag_of(own.deterministic, "deterministic");
  made.checksum = flag_of(own.checksum, "checksum");
  made.strict_sends = flag_of(own.strict_sends, "strict_sends");
  made.device.ordinal = own.device;
  made.device.staging_bytes = own.device_staging_bytes;
  made.device.workspace_bytes = own.device_workspace_bytes;
  made.device.blocks = own.device_blocks;
  made.device.way = enumerator_of<DeviceWay>(own.device_way, CCOLL_DEVICE_WAY_HOST, "device_way");
  made.device.copies =
      enumerator_of<DeviceCopies>(own.device_copies, CCOLL_DEVICE_COPIES_NEVER, "device_copies");
  made.device.direct_messages = flag_of(own.device_direct_messages, "device_direct_messages");
  made.warn_after = milliseconds_of(own.warn_after_ms);
  if (own.start_stop != nullptr) made.start_stop = own.start_stop->source.get_token();
  return made;
}

}  // namespace ccoll::c

using namespace ccoll::c;

ccoll_result ccoll_stop_create(ccoll_stop* made) {
  return guarded([&] { hand_out(made, [] { return std::stop_source(); }); });
}

ccoll_result ccoll_stop_request(ccoll_stop stop) {
  return guarded([&] { given(stop, "the stop").source.request_stop(); });
}

void ccoll_stop_free(ccoll_stop stop) { delete stop; }

ccoll_result ccoll_options_init(ccoll_options* options, size_t size) {
  return guarded([&] {
    write_struct(numbers_of(ccoll::CommunicatorOptions::from_environment()), options, size,
                 "ccoll_options");
  });
}

ccoll_result ccoll_call_options_init(ccoll_call_options* options, size_t size) {
  return guarded([&] { write_struct(ccoll_call_options{}, options, size, "ccoll_call_options"); });
}

ccoll_result ccoll_group_options_init(ccoll_group_options* options, size_t size) {
  return guarded(
      [&] { write_struct(ccoll_group_options{}, options, size, "ccoll_group_options"); });
}

ccoll_result ccoll_reduction_premultiplied(const void* factor, int32_t type,
                                           ccoll_reduction* made) {
  return guarded([&] {
    given(made, "the place for the reduction") = CCOLL_SUM;
    given(static_cast<const char*>(factor), "the factor");
    *made = reinterpret_cast<ccoll_reduction>(
        new ccoll::Reduction(ccoll::Reduction::premultiplied_sum(factor, type_of(type))));
  });
}

ccoll_result ccoll_reduction_premultiplied_at(const void* place, int32_t type,
                                              ccoll_reduction* made) {
  return guarded([&] {
    given(made, "the place for the reduction") = CCOLL_SUM;
    given(static_cast<const char*>(place), "the factor's place");
    *made = reinterpret_cast<ccoll_reduction>(
        new ccoll::Reduction(ccoll::Reduction::premultiplied_sum_at(place, type_of(type))));
  });
}

ccoll_result ccoll_reduction_custom(ccoll_combine function, void* context, const char* name,
                                    int32_t commutative, ccoll_reduction* made) {
  return guarded([&] {
    given(made, "the place for the reduction") = CCOLL_SUM;
    if (function == nullptr) refuse("the function of a reduction is NULL");
    const auto combine = [function, context](const void* in, void* inout, std::size_t count,
                                             ccoll::DataType type) {
      const auto said = function(in, inout, count, static_cast<std::int32_t>(type), context);
      if (said != 0)
        throw std::runtime_error(fmt::format("the reduction's function returned {}", said));
    };
    *made = reinterpret_cast<ccoll_reduction>(new ccoll::Reduction(ccoll::Reduction::custom(
        combine, {.name = text_of(name), .commutative = flag_of(commutative, "commutative")})));
  });
}

void ccoll_reduction_free(ccoll_reduction reduction) {
  if (is_pointer(reduction)) delete reinterpret_cast<ccoll::Reduction*>(reduction);
}

// SPDX-License-Identifier: Apache-2.0
// Making communicators and asking them.
#include "faces/c/face.hpp"

namespace {

using namespace ccoll::c;

ccoll::UniqueId id_of(const unsigned char* bytes) {
  given(bytes, "the id");
  ccoll::UniqueId id;
  std::copy_n(bytes, id.bytes.size(), id.bytes.begin());
  return id;
}

/// Hands out several communicators, all of them or none.
void hand_out_all(std::vector<ccoll::Communicator> all, ccoll_comm* made) {
  std::vector<std::unique_ptr<ccoll_comm_s>> handles;
  for (auto& each : all)
    handles.push_back(std::make_unique<ccoll_comm_s>(ccoll_comm_s{std::move(each)}));
  for (std::size_t i = 0; i < handles.size(); i++) made[i] = handles[i].release();
}

std::span<const int> devices_of(const int32_t* devices, int32_t count) {
  if (devices == nullptr) return {};
  return {devices, static_cast<std::size_t>(std::max(count, 0))};
}

template <typename Ask>
ccoll_result tell(char* text, std::size_t size, std::size_t* needed, Ask&& ask) {
  return guarded([&] { write_text(ask(), text, size, needed); });
}

}  // namespace

ccoll_result ccoll_unique_id_create(unsigned char id[CCOLL_UNIQUE_ID_BYTES],
                                    const char* interface_name) {
  return guarded([&] {
    given(id, "the id");
    const auto made = ccoll::UniqueId::create(text_of(interface_name));
    std::ranges::copy(made.bytes, id);
  });
}

ccoll_result ccoll_create(const ccoll_options* options, ccoll_comm* made) {
  return guarded(
      [&] { hand_out(made, [&] { return ccoll::Communicator::create(options_of(options)); }); });
}

ccoll_result ccoll_create_store(ccoll_store store, int32_t rank, int32_t size,
                                const ccoll_options* options, ccoll_comm* made) {
  return guarded([&] {
    hand_out(made, [&] {
      return ccoll::Communicator::create(given(store, "the store").store, rank, size,
                                         options_of(options));
    });
  });
}

ccoll_result ccoll_create_id(const unsigned char id[CCOLL_UNIQUE_ID_BYTES], int32_t rank,
                             int32_t size, const ccoll_options* options, ccoll_comm* made) {
  return guarded([&] {
    hand_out(made, [&] {
      return ccoll::Communicator::create(id_of(id), rank, size, options_of(options));
    });
  });
}

ccoll_result ccoll_create_all(int32_t size, const ccoll_options* options, const int32_t* devices,
                              ccoll_comm* made) {
  return guarded([&] {
    given(made, "the place for the new handles");
    hand_out_all(
        ccoll::Communicator::create_all(size, options_of(options), devices_of(devices, size)),
        made);
  });
}

ccoll_result ccoll_create_all_id(const unsigned char id[CCOLL_UNIQUE_ID_BYTES],
                                 const int32_t* ranks, int32_t count, int32_t size,
                                 const ccoll_options* options, const int32_t* devices,
                                 ccoll_comm* made) {
  return guarded([&] {
    given(made, "the place for the new handles");
    if (count < 0) refuse(fmt::format("the list has {} ranks: expected 0 or more", count));
    if (count > 0) given(ranks, "the list of ranks");
    hand_out_all(
        ccoll::Communicator::create_all(id_of(id), {ranks, static_cast<std::size_t>(count)}, size,
                                        options_of(options), devices_of(devices, count)),
        made);
  });
}

ccoll_result ccoll_duplicate(ccoll_comm comm, const ccoll_group_options* options,
                             ccoll_comm* made) {
  return guarded([&] {
    hand_out(made, [&] { return communicator_of(comm).duplicate(options_of(options)); });
  });
}

ccoll_result ccoll_split(ccoll_comm comm, int32_t color, int32_t key,
                         const ccoll_group_options* options, ccoll_comm* made) {
  return guarded([&] {
    given(made, "the place for the new handle") = nullptr;
    if (color < CCOLL_NO_COLOR)
      refuse(fmt::format("split: colour {}: expected 0 or more, or CCOLL_NO_COLOR", color));
    auto part = communicator_of(comm).split(color, key, options_of(options));
    if (part) *made = new ccoll_comm_s{std::move(*part)};
  });
}

ccoll_result ccoll_subgroup(ccoll_comm comm, const int32_t* ranks, int32_t count,
                            const ccoll_group_options* options, ccoll_comm* made) {
  return guarded([&] {
    if (count < 0) refuse(fmt::format("the list has {} ranks: expected 0 or more", count));
    if (count > 0) given(ranks, "the list of ranks");
    hand_out(made, [&] {
      return communicator_of(comm).subgroup(std::span(ranks, static_cast<std::size_t>(count)),
                                            options_of(options));
    });
  });
}

ccoll_result ccoll_shrink(ccoll_comm comm, const ccoll_group_options* options, ccoll_comm* made) {
  return guarded(
      [&] { hand_out(made, [&] { return communicator_of(comm).shrink(options_of(options)); }); });
}

ccoll_result ccoll_shrink_without(ccoll_comm comm, const int32_t* excluded, int32_t count,
                                  const ccoll_group_options* options, ccoll_comm* made) {
  return guarded([&] {
    if (count < 0) refuse(fmt::format("the list has {} ranks: expected 0 or more", count));
    if (count > 0) given(excluded, "the list of ranks");
    hand_out(made, [&] {
      return communicator_of(comm).shrink_without(
          std::span(excluded, static_cast<std::size_t>(count)), options_of(options));
    });
  });
}

ccoll_result ccoll_close(ccoll_comm comm) {
  if (comm == nullptr) return CCOLL_OK;
  const std::unique_ptr<ccoll_comm_s> owned(comm);
  return guarded([&] { owned->communicator.close(); });
}

ccoll_result ccoll_abort(ccoll_comm comm, const char* reason) {
  return guarded([&] { communicator_of(comm).abort(text_of(reason)); });
}

ccoll_result ccoll_leave(ccoll_comm comm, const char* reason) {
  if (comm == nullptr) return CCOLL_OK;
  const std::unique_ptr<ccoll_comm_s> owned(comm);
  return guarded([&] { owned->communicator.leave(text_of(reason)); });
}

ccoll_result ccoll_rank(ccoll_comm comm, int32_t* rank) {
  return guarded([&] { given(rank, "the place for the rank") = communicator_of(comm).rank(); });
}

ccoll_result ccoll_size(ccoll_comm comm, int32_t* size) {
  return guarded([&] { given(size, "the place for the size") = communicator_of(comm).size(); });
}

ccoll_result ccoll_name(ccoll_comm comm, char* text, size_t size, size_t* needed) {
  return tell(text, size, needed, [&] { return communicator_of(comm).name(); });
}

ccoll_result ccoll_comm_error(ccoll_comm comm, char* text, size_t size, size_t* needed) {
  return tell(text, size, needed, [&] { return communicator_of(comm).error(); });
}

ccoll_result ccoll_rank_in(ccoll_comm comm, ccoll_comm other, int32_t rank, int32_t* in_other) {
  return guarded([&] {
    given(in_other, "the place for the rank") =
        communicator_of(comm).rank_in(communicator_of(other), rank).value_or(-1);
  });
}

ccoll_result ccoll_transport_to(ccoll_comm comm, int32_t peer, char* text, size_t size,
                                size_t* needed) {
  return tell(text, size, needed, [&] { return communicator_of(comm).transport_to(peer); });
}

ccoll_result ccoll_algorithm_for(ccoll_comm comm, const char* operation, size_t count, int32_t type,
                                 const ccoll_call_options* options, char* text, size_t size,
                                 size_t* needed) {
  return tell(text, size, needed, [&] {
    return communicator_of(comm).algorithm_for(text_of(operation), count, type_of(type),
                                               options_of(options));
  });
}

ccoll_result ccoll_explain(ccoll_comm comm, const char* operation, size_t count, int32_t type,
                           const ccoll_call_options* options, char* text, size_t size,
                           size_t* needed) {
  return tell(text, size, needed, [&] {
    return communicator_of(comm).explain(text_of(operation), count, type_of(type),
                                         options_of(options));
  });
}

ccoll_result ccoll_predicted_time(ccoll_comm comm, const char* operation, size_t count,
                                  int32_t type, const ccoll_call_options* options,
                                  double* nanoseconds) {
  return guarded([&] {
    given(nanoseconds, "nanoseconds") =
        communicator_of(comm)
            .predicted_time(text_of(operation), count, type_of(type), options_of(options))
            .count();
  });
}

ccoll_result ccoll_dump(ccoll_comm comm, char* text, size_t size, size_t* needed) {
  return tell(text, size, needed, [&] { return communicator_of(comm).dump(); });
}

ccoll_result ccoll_get_counters(ccoll_comm comm, ccoll_counters* counters,
                                ccoll_peer_counters* peers, size_t most) {
  return guarded([&] {
    const auto counted = communicator_of(comm).counters();
    const ccoll_counters own{.size = sizeof own,
                             .collectives = counted.collectives,
                             .device_memory_bytes = counted.device_memory_bytes,
                             .device_workspace_bytes = counted.device_workspace_bytes,
                             .peers = counted.peers.size()};
    write_struct(own, counters, given(counters, "ccoll_counters").size, "ccoll_counters");
    if (most > 0) given(peers, "the list of peers");
    for (std::size_t i = 0; i < std::min(most, counted.peers.size()); i++) {
      const auto& from = counted.peers[i];
      peers[i] = {.rank = from.rank,
                  .reserved = 0,
                  .transport = {},
                  .messages_sent = from.messages_sent,
                  .bytes_sent = from.bytes_sent,
                  .messages_received = from.messages_received,
                  .bytes_received = from.bytes_received,
                  .waits = from.waits,
                  .time_lost_ns = from.time_lost.count(),
                  .retries = from.retries,
                  .errors = from.errors};
      write_text(from.transport, peers[i].transport, sizeof peers[i].transport, nullptr);
    }
  });
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// libibverbs, loaded at run time, so that the same binary runs without it. The inline functions of
/// verbs.h (posting, polling, arming) use the device's own table and need no symbol. All other
/// calls go through this table, so that tests can replace them.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "core/result.hpp"

namespace ccoll::verbs {

struct Library {
  decltype(&::ibv_get_device_list) get_device_list;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_query_device) query_device;
  decltype(&::ibv_query_port) query_port;
  decltype(&::ibv_query_gid) query_gid;
  decltype(&::ibv_port_state_str) port_state_str;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  decltype(&::ibv_reg_mr) reg_mr;
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_get_async_event) get_async_event;
  decltype(&::ibv_ack_async_event) ack_async_event;
  decltype(&::_ibv_query_gid_ex) query_gid_ex;  ///< null in libraries older than 2020
  /// Null in libraries older than 2021, whose headers do not declare it.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, std::uint64_t offset, std::size_t bytes, std::uint64_t address,
                           int file, int access);

  /// Loads it at the first call, for good; or says why there is none, and what to do.
  static Result<const Library*> load();
  /// As load(), but anew each time.
  static Result<Library> find();
};

}  // namespace ccoll::verbs

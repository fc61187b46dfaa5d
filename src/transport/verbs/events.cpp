// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/events.hpp"

namespace ccoll::verbs {
namespace {

/// An event that ends links: its name, whose fault it is, and the likely cause.
struct Ending {
  const char* name;
  ErrorKind kind;
  const char* likely;
};

std::optional<Ending> ending_of(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_CQ_ERR:
      return Ending{"its completion queue has failed", ErrorKind::internal,
                    "it has overflowed, which is a defect of ccoll, or the device has failed"};
    case IBV_EVENT_QP_FATAL:
      return Ending{"its queue pair has failed", ErrorKind::internal,
                    "the device can no longer use it: see the kernel's log"};
    case IBV_EVENT_QP_REQ_ERR:
      return Ending{"the peer sent an invalid request", ErrorKind::corrupt,
                    "the two ranks run different builds of ccoll"};
    case IBV_EVENT_QP_ACCESS_ERR:
      return Ending{"the peer wrote to memory that it may not access", ErrorKind::corrupt,
                    "the two ranks run different builds of ccoll"};
    case IBV_EVENT_PATH_MIG_ERR:
      return Ending{"its alternate path does not work either", ErrorKind::peer_lost,
                    "check the cable, switch and link"};
    case IBV_EVENT_DEVICE_FATAL:
      return Ending{"the device has failed", ErrorKind::internal,
                    "see the kernel's log; it has to be reset, and this process started again"};
    default:
      return std::nullopt;
  }
}

}  // namespace

Concern concern_of(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return Concern::pair;
    case IBV_EVENT_CQ_ERR:
      return Concern::queue;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      return Concern::port;
    case IBV_EVENT_DEVICE_FATAL:
      return Concern::device;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_WQ_FATAL:
      break;
  }
  return Concern::none;
}

std::optional<Failure> failure_of(ibv_event_type event, const Path& path) {
  const auto ending = ending_of(event);
  if (!ending) return std::nullopt;
  const bool is_peers = ending->kind != ErrorKind::internal;
  return Failure{
      ending->kind,
      fmt::format("RDMA from {} to rank {} at {}: {} (event {}): {}", path.device, path.peer,
                  path.host, ending->name, static_cast<int>(event), ending->likely),
      is_peers ? std::optional(path.peer) : std::nullopt};
}

std::optional<Remark> remark_of(ibv_event_type event, const std::string& where) {
  const auto remark = [&](LogLevel level, const char* what) {
    return Remark{level, fmt::format("RDMA: {} {}", where, what)};
  };
  switch (event) {
    case IBV_EVENT_PORT_ERR:
      return remark(LogLevel::warn,
                    "is down; its links end if it does not come back within their retries (is its "
                    "cable plugged in, and is its link up?)");
    case IBV_EVENT_PORT_ACTIVE:
      return remark(LogLevel::warn, "is up again");
    case IBV_EVENT_DEVICE_FATAL:
      return remark(LogLevel::error, "has failed: see the kernel's log");
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
      return remark(LogLevel::info,
                    "has new addresses now; running processes keep using the old ones");
    case IBV_EVENT_PATH_MIG:
      return remark(LogLevel::info, "has moved a queue pair to its alternate path");
    case IBV_EVENT_PKEY_CHANGE:
      return remark(LogLevel::info, "has a new partition table now");
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
      return remark(LogLevel::info, "has a new subnet manager now");
    default:
      break;
  }
  // Do not report events that a link's error shows, nor events of objects that ccoll does not use.
  if (failure_of(event, Path()) || concern_of(event) != Concern::none) return std::nullopt;
  return Remark{LogLevel::info, fmt::format("RDMA: {} reported event {}, which ccoll does not use",
                                            where, static_cast<int>(event))};
}

}  // namespace ccoll::verbs

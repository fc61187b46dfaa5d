// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/errors.hpp"

#include <cerrno>
#include <cstring>

namespace ccoll::verbs {
namespace {

struct Meaning {
  const char* name;
  ErrorKind kind;
  const char* likely;
};

constexpr const char* kDefect =
    "the device refused a request of this rank, which is a defect of ccoll";
constexpr const char* kPeersDefect =
    "the peer's device refused it: the peer has closed the link, or the two ranks run different "
    "builds of ccoll";

Meaning meaning_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      break;
    case IBV_WC_LOC_LEN_ERR:
      return {"local length error", ErrorKind::internal, kDefect};
    case IBV_WC_LOC_QP_OP_ERR:
      return {"local queue pair operation error", ErrorKind::peer_lost,
              "soft-RoCE reports this if its network interface is down or has no route to the "
              "peer; on other devices it is a defect of ccoll"};
    case IBV_WC_LOC_EEC_OP_ERR:
      return {"local context error", ErrorKind::internal, kDefect};
    case IBV_WC_LOC_PROT_ERR:
      return {"local protection error", ErrorKind::internal,
              "memory that was being sent is not registered any more: was it freed?"};
    case IBV_WC_WR_FLUSH_ERR:
      return {"flushed", ErrorKind::peer_lost, "the queue pair had failed before"};
    case IBV_WC_MW_BIND_ERR:
      return {"memory window error", ErrorKind::internal, kDefect};
    case IBV_WC_BAD_RESP_ERR:
      return {"bad response", ErrorKind::corrupt, "the peer's device violated the protocol"};
    case IBV_WC_LOC_ACCESS_ERR:
      return {"local access error", ErrorKind::corrupt,
              "the peer wrote to memory that it may not access, or the two ranks run different "
              "builds of ccoll"};
    case IBV_WC_REM_INV_REQ_ERR:
      return {"remote invalid request", ErrorKind::corrupt, kPeersDefect};
    case IBV_WC_REM_ACCESS_ERR:
      return {"remote access error", ErrorKind::corrupt, kPeersDefect};
    case IBV_WC_REM_OP_ERR:
      return {"remote operation error", ErrorKind::corrupt, kPeersDefect};
    case IBV_WC_RETRY_EXC_ERR:
      return {"no answer after all retries", ErrorKind::peer_lost,
              "its process or host has ended, or the path is broken: check the cable, switch and "
              "link (CCOLL_IB_TIMEOUT and CCOLL_IB_RETRY_CNT set how long the device retries)"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {"receiver not ready", ErrorKind::internal,
              "the peer had no receive posted, which is a defect of ccoll"};
    case IBV_WC_LOC_RDD_VIOL_ERR:
      return {"local domain error", ErrorKind::internal, kDefect};
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return {"remote invalid domain", ErrorKind::corrupt, kPeersDefect};
    case IBV_WC_REM_ABORT_ERR:
      return {"aborted by the peer's device", ErrorKind::peer_lost, "it may have been reset"};
    case IBV_WC_INV_EECN_ERR:
    case IBV_WC_INV_EEC_STATE_ERR:
      return {"invalid context", ErrorKind::internal, kDefect};
    case IBV_WC_FATAL_ERR:
      return {"fatal error", ErrorKind::internal, "the device has failed: see the kernel's log"};
    case IBV_WC_RESP_TIMEOUT_ERR:
      return {"response timeout", ErrorKind::peer_lost, "the path to it is broken"};
    case IBV_WC_GENERAL_ERR:
      return {"general error", ErrorKind::internal, "see the kernel's log"};
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE:
      return {"tag matching error", ErrorKind::internal, kDefect};
  }
  return {"unknown status", ErrorKind::internal, "see the kernel's log"};
}

constexpr const char* kDown =
    "this end's port is down: is its cable plugged in, and is its link up?";

}  // namespace

Failure failure_of(ibv_wc_status status, std::uint32_t vendor_code, const Path& path) {
  Meaning meaning = meaning_of(status);
  if (path.is_down && meaning.kind == ErrorKind::peer_lost) meaning.likely = kDown;
  const bool is_peers = meaning.kind != ErrorKind::internal;
  return {meaning.kind,
          fmt::format("RDMA from {} to rank {} at {}: {} (status {}, vendor's code {:#x}): {}",
                      path.device, path.peer, path.host, meaning.name, static_cast<int>(status),
                      vendor_code, meaning.likely),
          is_peers ? std::optional(path.peer) : std::nullopt};
}

Failure failure_of_stalled(std::chrono::duration<double> waited, const Path& path) {
  return {ErrorKind::peer_lost,
          fmt::format("RDMA from {} to rank {} at {}: no answer came, and the device has reported "
                      "no error within {:.1f} s, as it should have: {}",
                      path.device, path.peer, path.host, waited.count(),
                      path.is_down ? kDown
                                   : "it has stalled (see the kernel's log), or the path is broken "
                                     "(check the cable, switch and link)"),
          path.peer};
}

Failure failure_to_post(const char* what, int code, const Path& path) {
  return {code == ENOMEM ? ErrorKind::exhausted : ErrorKind::internal,
          fmt::format("{} refused a request {} on the queue pair to rank {} at {}: {}", path.device,
                      what, path.peer, path.host, std::strerror(code)),
          std::nullopt};
}

}  // namespace ccoll::verbs
